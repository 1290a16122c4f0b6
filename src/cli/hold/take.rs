//! Taking a lock, for `run` and `acquire`.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlock_client::{Client, Error, Guard, Key, LockOptions, Mode, Patience};
use nix::sys::signal::Signal;

use super::events::Events;
use super::meta::{self, Meta};
use crate::key::Named;
use crate::say::duration;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::signals::Signals;

/// Options for the kind of lock, and for a lock that is not free.
#[derive(Debug, clap::Args)]
pub struct LockArgs {
    /// Do not wait: fail if the lock is not free
    #[arg(short, long)]
    pub nonblock: bool,

    /// Wait at most this long: 30, 0.5, 500ms, 2m [default: without limit]
    #[arg(short, long, value_name = "SECS", value_parser = duration::parse)]
    #[arg(conflicts_with = "nonblock", allow_hyphen_values = true)]
    pub wait: Option<Duration>,

    /// A shared lock: for readers, any number of them at once
    #[arg(short, long)]
    pub shared: bool,

    /// A semaphore: at most N holders at once. On a single node only
    #[arg(long, value_name = "N", conflicts_with = "shared")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub limit: Option<u16>,

    /// The lease: if dlock is killed, the lock is free again after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_lease)]
    #[arg(default_value = USUAL_TTL_TEXT.as_str())]
    pub ttl: Duration,

    /// A text that `inspect` shows with the holder, beside host, pid and user; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = meta::parse)]
    pub meta: Vec<Meta>,

    /// Print nothing if the lock is not free: the exit code tells
    #[arg(short, long)]
    pub quiet: bool,
}

impl LockArgs {
    /// Limit of the wait.
    pub fn patience(&self) -> Patience {
        match self.wait {
            _ if self.nonblock => Patience::Try,
            Some(wait) => Patience::from(wait),
            None => Patience::Forever,
        }
    }

    /// The options of the lock of a process, and of the program that it runs.
    pub fn options(&self, pid: u32, program: Option<&OsString>) -> LockOptions {
        LockOptions {
            ttl: self.ttl,
            wait: self.patience(),
            mode: match self.limit {
                Some(limit) => Mode::Limit(limit),
                None if self.shared => Mode::Shared,
                None => Mode::Exclusive,
            },
            meta: meta::text(pid, program.map(OsString::as_os_str), &self.meta),
            ..LockOptions::default()
        }
    }

    /// The failure when the lock cannot be taken.
    pub fn failure(&self, error: &Error) -> Failure {
        let (Error::Held { .. } | Error::Done { .. }) = error else {
            return Failure::from(error.clone());
        };
        // The first line names the holder; the others list the states of the nodes.
        let message = error.to_string();
        let line = message.lines().next().filter(|_| !self.quiet).unwrap_or_default();
        Failure::new(Kind::from(error), line)
    }
}

/// The outcome of taking a lock.
pub enum Outcome {
    Taken(Guard),
    Failed(Error),
    Interrupted(Signal),
}

/// Takes a lock, and reports that.
pub async fn take(
    client: &Client,
    (key, options): (&Key, &LockOptions),
    signals: &mut Signals,
    events: &Events,
) -> Outcome {
    let asked = Instant::now();
    tokio::select! {
        biased;
        signal = signals.next_that_ends() => Outcome::Interrupted(signal),
        guard = client.lock(key.clone()).options(options.clone()).acquire() => match guard {
            Ok(guard) => {
                events.taken(&guard, asked.elapsed());
                Outcome::Taken(guard)
            }
            Err(error) => Outcome::Failed(error),
        },
        never = events.wait(client, key) => match never {},
    }
}

/// Returns the environment of a command.
pub fn environment(key: &Named, guard: &Guard) -> Vec<(&'static str, OsString)> {
    vec![
        ("DLOCK_KEY", key.typed.clone()),
        ("DLOCK_TOKEN", guard.token().as_str().into()),
        ("DLOCK_FENCE", guard.fence().to_string().into()),
        ("DLOCK_DEADLINE_MS", deadline(guard.valid_for()).to_string().into()),
    ]
}

/// The end of a lease in ms since 1970, by this machine's clock.
pub fn deadline(left: Duration) -> u128 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + left).as_millis()
}

/// Default length of a lease, as a user would type it.
pub static USUAL_TTL_TEXT: LazyLock<String> =
    LazyLock::new(|| format!("{}s", LockOptions::DEFAULT_TTL.as_secs()));
