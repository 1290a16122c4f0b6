//! A job that runs once a window: its options, and the completion record that it leaves in place of its lock.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use dlock_client::{Error, Guard};
use dlock_core::limits::MAX_DONE_FOR;
use tokio::time::timeout;

use super::fire::FireTime;
use crate::hold::events::Events;
use crate::key::Named;
use crate::say::duration::{self, shown};
use crate::signals::Signals;

/// Options for a job that runs once a window.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Once a window")]
pub struct OnceArgs {
    /// If the command succeeds, leave the lock done until this long after it was acquired: the hosts that
    /// come meanwhile do not run the command
    #[arg(long, value_name = "TIME", value_parser = parse_window)]
    #[arg(conflicts_with_all = ["shared", "limit"])]
    pub done_for: Option<Duration>,

    /// Run the command although the lock is done
    #[arg(long)]
    pub again: bool,

    /// The job's scheduled time, as a part of the key: RFC 3339, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = FireTime::parse, requires = "done_for")]
    fire: Option<FireTime>,
}

impl OnceArgs {
    /// Adds the fire time to the key.
    pub fn add_time(&self, named: &mut Named) {
        if let Some(fire) = &self.fire {
            let suffix = format!("@{fire}");
            named.key = [named.key.as_bytes(), suffix.as_bytes()].concat().into();
            named.typed.push(suffix);
        }
    }

    /// Leaves the lock done if the options say so, and the command has succeeded.
    ///
    /// The command has ended, so a failure changes no exit code: it is reported.
    pub async fn leave_done(
        &self,
        guard: &Guard,
        meta: &str,
        status: ExitStatus,
        signals: &mut Signals,
        events: &Events,
    ) -> Left {
        let Some(window) = self.done_for else { return Left::Held };
        if !status.success() {
            return Left::Held;
        }
        let mut done = pin!(guard.done(window, meta));
        let answered = tokio::select! {
            biased;
            done = &mut done => Ok(done),
            // A signal that came with the end of the command still leaves time for an answer.
            signal = signals.next_that_ends() => timeout(LAST_CHANCE, done).await.map_err(|_| signal),
        };
        let (left, failure) = match answered {
            Ok(Ok(())) => (Left::Done, None),
            Ok(Err(Error::Lost(loss))) => (Left::Held, Some(loss.why.to_string())),
            Ok(Err(error)) => (Left::Held, Some(error.to_string())),
            Err(signal) => (Left::InDoubt, Some(format!("{signal} came first"))),
        };
        let key = guard.key();
        if let Some(why) = failure {
            events.warn(
                "not_done",
                format!(
                    "could not leave '{key}' done, so the next one may run the command again: {why}"
                ),
            );
            return left;
        }
        match window.checked_sub(guard.held_for()) {
            Some(left) => events.left_done(key, left),
            None => events.warn(
                "not_done",
                format!(
                    "'{key}' is free, and the next one runs the command again: it took longer than --done-for {}",
                    shown(window)
                ),
            ),
        }
        left
    }
}

/// A lock after the end of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Held, or lost.
    Held,
    /// Done.
    Done,
    /// Being left done, while a signal asks dlock to end.
    InDoubt,
}

fn parse_window(text: &str) -> Result<Duration, String> {
    match duration::parse_positive(text)? {
        window if window > Duration::from_millis(MAX_DONE_FOR) => {
            Err("must be at most 400d".to_owned())
        }
        window => Ok(window),
    }
}

/// Time for a majority to answer after a signal.
const LAST_CHANCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_bounds() {
        assert_eq!(parse_window("12h"), Ok(Duration::from_secs(43_200)));
        assert!(parse_window("400d").is_ok());
        for text in ["0", "400d1ms", "-1"] {
            assert!(parse_window(text).is_err(), "{text}");
        }
    }
}
