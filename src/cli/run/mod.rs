//! `dlock run`: a command under a lock, renewed while it runs.
//!
//! [`child`] starts the command, [`supervise`] watches over it. [`once`]: jobs that run once a
//! window, by their [`fire`] time if it is known. [`terminal`]: the terminal's modes. [`processes`]: the
//! processes of the command, until all are gone.

pub mod child;
pub mod fire;
pub mod once;
pub mod processes;
pub mod supervise;
pub mod terminal;

use std::ffi::OsString;
use std::time::Duration;

use dlock_client::{Error, Guard, LockOptions, LossReason};
use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::global::Global;
use crate::hold::events::Events;
use crate::hold::take::{self, LockArgs, Outcome};
use crate::key::{Escaped, Named};
use crate::nodes;
use crate::say::duration;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::signals::{self, Signals};
use child::Start;
use once::{Left, OnceArgs};
use supervise::{End, Supervised, signal_at_a_loss};
use terminal::Terminal;

/// The arguments of `dlock run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = HELP, override_usage = USAGE)]
pub struct Args {
    /// The lock
    #[arg(value_name = "KEY", required_unless_present = "dashed")]
    key: Option<OsString>,

    /// The lock, if it begins with a dash: --key=-nightly
    #[arg(long = "key", id = "dashed", value_name = "KEY", allow_hyphen_values = true)]
    #[arg(conflicts_with = "key")]
    dashed: Option<OsString>,

    #[command(flatten)]
    escaped: Escaped,

    /// The command and its arguments; no shell interprets them
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,

    /// A command line for sh, in place of CMD
    #[arg(short = 'c', long = "command", value_name = "STRING", conflicts_with = "command")]
    shell: Option<OsString>,

    #[command(flatten)]
    lock: LockArgs,

    /// Exit code if the lock is not free, or not in time
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::CONFLICT.code())]
    conflict_exit_code: u8,

    /// End the command after this time, as if the lock were lost
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    max_hold: Option<Duration>,

    /// Time between TERM and KILL to all processes of the command when the lock is lost; 0: KILL at once
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    grace: Duration,

    #[command(flatten)]
    once: OnceArgs,
}

/// A command, and its environment.
type Prepared = (Vec<OsString>, Vec<(&'static str, OsString)>);

impl Args {
    /// Runs the command under the lock. Failures are reported here, in order with the other events.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let events = Events::new(global, self.lock.quiet);
        let exit = self.take_and_run(global, &events).await.unwrap_or_else(|failure| {
            events.failed(&failure);
            failure.exit
        });
        events.flush();
        Ok(exit)
    }

    async fn take_and_run(&self, global: &Global, events: &Events) -> Result<Exit, Failure> {
        let command = self.command()?;
        let mut name = self.name()?;
        let options = LockOptions {
            again: self.once.again,
            ..self.lock.options(std::process::id(), command.first())
        };
        self.once.add_time(&mut name);
        let mut signals = Signals::listen()?;
        let tell = events.noticing();
        let client = match nodes::connect_to_wait(global, &self.lock, &mut signals, tell).await? {
            Ok(client) => client,
            Err(signal) => return Ok(Exit::Signal(signal)),
        };
        let exit = match take::take(&client, (&name.key, &options), &mut signals, events).await {
            Outcome::Taken(guard) => {
                let command = (command, take::environment(&name, &guard));
                self.hold(command, guard, &options.meta, &mut signals, events).await
            }
            Outcome::Failed(error @ Error::Done { .. }) => {
                if !self.lock.quiet {
                    events.done(&error);
                }
                Ok(Exit::OK)
            }
            Outcome::Failed(error @ Error::Held { .. }) => Err(Failure {
                exit: Exit::Code(self.conflict_exit_code),
                ..self.lock.failure(&error)
            }),
            Outcome::Failed(error) => Err(self.lock.failure(&error)),
            Outcome::Interrupted(signal) => Ok(Exit::Signal(signal)),
        };
        client.close().await;
        exit
    }

    fn name(&self) -> Result<Named, Failure> {
        self.escaped.read(self.key.as_deref().or(self.dashed.as_deref()).unwrap_or_default())
    }

    fn command(&self) -> Result<Vec<OsString>, Failure> {
        match &self.shell {
            Some(line) => Ok(vec!["sh".into(), "-c".into(), line.clone()]),
            None if self.command.is_empty() => Err(Failure::usage(NO_COMMAND)),
            None => Ok(self.command.clone()),
        }
    }

    /// Supervises the command. Releases the lock at every end.
    async fn hold(
        &self,
        command: Prepared,
        guard: Guard,
        meta: &str,
        signals: &mut Signals,
        events: &Events,
    ) -> Result<Exit, Failure> {
        let end = self.supervise(command, &guard, signals, events).await;
        let was_held = guard.is_valid();
        let mut left = Left::Held;
        if let Ok(End::Ended(status)) = end {
            events.ended(status);
            left = self.once.leave_done(&guard, meta, status, signals, events).await;
        }
        let key = guard.key().clone();
        let released = match left {
            // A release would wait for the nodes, too. The guard goes on until dlock ends.
            Left::InDoubt => None,
            _ => Some(guard.release().await),
        };
        let End::Ended(status) = end? else { return Ok(Exit::LOST) };
        match released {
            // The lock was broken a moment before, shown only by its release.
            Some(Err(loss)) if was_held && matches!(loss.why, LossReason::Ended { .. }) => {
                events.lost(&loss, "the command had just ended");
                return Ok(Exit::LOST);
            }
            // If it is not free, the client reports that.
            Some(Ok(release)) if release.is_free && left == Left::Held => events.released(&key),
            _ => {}
        }
        Ok(if child::signal_of(status) == Some(Signal::SIGINT) {
            // A shell that has received the same Ctrl-C leaves its loop.
            Exit::Signal(Signal::SIGINT)
        } else {
            Exit::of(status)
        })
    }

    async fn supervise(
        &self,
        (command, environment): Prepared,
        guard: &Guard,
        signals: &mut Signals,
        events: &Events,
    ) -> Result<End, Failure> {
        if !guard.is_valid() {
            events.lost(&guard.lost().await, NOT_STARTED);
            return Ok(End::Lost);
        }
        let terminal = Terminal::open();
        signals::hold_off_stops(&signals::STOPPING);
        let start = Start {
            command,
            environment,
            if_dlock_dies: signal_at_a_loss(self.grace),
            as_json: events.are_json(),
        };
        // Earlier events come before the output of the command.
        events.flush();
        let processes = start.spawn()?;
        events.started(processes.first);
        let supervised = Supervised {
            processes,
            guard,
            signals,
            terminal: terminal.as_ref(),
            events,
            grace: self.grace,
            max_hold: self.max_hold,
            started: Instant::now(),
        };
        Ok(supervised.run().await)
    }
}

const NOT_STARTED: &str = "the command was not started";

const NO_COMMAND: &str =
    "no command: write `dlock run KEY -- CMD`, or `dlock run KEY -c 'COMMAND LINE'`";

const USAGE: &str = "dlock run [OPTIONS] KEY -- CMD [ARG...]
       dlock run [OPTIONS] KEY -c STRING";

macro_rules! examples {
    () => {
        "\
Examples:
  dlock run nightly -- ./backup.sh --full       wait for the lock, run, release
  dlock run -n nightly -- ./backup.sh           exit with 1 if it is held
  dlock run -w 10 -E 0 nightly -- ./backup.sh   wait 10 s, then exit with 0
  dlock run -s site -c 'tar c /srv | gzip > site.tar.gz'
  dlock run --max-hold 1h account:7 -- ./settle 7
  dlock run --done-for 12h nightly -- ./backup.sh  once a night, on all hosts"
    };
}

const EXAMPLES: &str = concat!(
    examples!(),
    "\n\n--help tells more: the command's environment, signals, --json, exit codes."
);

const HELP: &str = concat!(
    examples!(),
    "

In addition to dlock's own environment, the command gets:
  DLOCK_KEY          the key as given
  DLOCK_FENCE        its fence: a number that only grows. Send it with every
                     read and write to a resource that refuses smaller ones
  DLOCK_TOKEN        its token
  DLOCK_DEADLINE_MS  when the lease ends unless dlock renews it (ms since 1970)

The command has the terminal and the process group of dlock. INT, TERM, HUP, QUIT, ALRM, USR1 and \
USR2 to dlock go on to all its processes. All descendants belong to it, daemons too. If the lock is \
lost, all of them are ended, and the exit code is 75. Otherwise dlock holds the lock until the last \
one has ended, and the exit code is that of the first. If dlock itself is killed, the command gets \
TERM (KILL with --grace 0), its other processes and programs such as sudo get nothing, and the lock \
is free when the lease ends. Work that must never overlap needs the fence.

With --done-for, a lock whose command succeeds is done until TIME after it was acquired. Every dlock \
that comes meanwhile, or waits, says on stderr which host has done the work, and ends with 0 at once. \
If the command fails, the lock is released, and the next one tries. Use half of the period: with the \
whole period the next run is skipped. --fire puts the scheduled time into the key \
(nightly@2026-11-25T02:00:00Z): then TIME must exceed the length of the job plus the delay of the \
latest host. If the lock cannot be left done, a warning says so, and the exit code is the command's own.

With --json there is one object a line for each event, on stderr: waiting, acquired, started, lost, \
killing, ended, released, left_done, done, warning, error; and of the nodes outage, back, promoted, \
stranger, not_released.

Exit codes: the command's own; 128+n if signal n ended it; 1 (-E) the lock was not free; 75 lost; \
0 the lock is done; 69 no majority of the nodes; 64 wrong usage; 65 the nodes refuse the request; \
77 they refuse the user; 78 they are no nodes for locks; 126, 127 cannot execute; 70 a bug."
);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::say::kind::Kind;

    #[derive(Debug, Parser)]
    struct RunLine {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Args, clap::Error> {
        RunLine::try_parse_from(["run"].into_iter().chain(line.split(' '))).map(|line| line.args)
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        let words: Vec<&str> = HELP.split(|letter: char| !letter.is_alphanumeric()).collect();
        for code in Kind::ALL.map(|kind| kind.exit().code().to_string()) {
            assert!(words.contains(&&*code), "no {code}");
        }
    }

    #[test]
    fn what_follows_the_dashes_is_the_command_as_it_is() {
        let args = parsed("-n a --ttl 2s -- echo -n --ttl -- x").unwrap();
        assert_eq!(args.name().unwrap().typed, "a");
        assert_eq!(args.command().unwrap(), ["echo", "-n", "--ttl", "--", "x"]);
        assert_eq!(args.lock.ttl, Duration::from_secs(2));
        assert!(args.lock.nonblock);
    }

    #[test]
    fn a_string_is_for_the_shell() {
        let args = parsed("-c exit job -w 0.5").unwrap();
        assert_eq!(args.command().unwrap(), ["sh", "-c", "exit"]);
        assert_eq!(args.lock.wait, Some(Duration::from_millis(500)));
    }

    #[test]
    fn a_command_is_needed_and_one_is_enough() {
        assert_eq!(parsed("job").unwrap().command().unwrap_err().exit, Exit::USAGE);
        assert!(parsed("job echo hi").is_err());
        assert!(parsed("job -c exit -- exit").is_err());
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for line in ["-n -w 1 j -- x", "-s --limit 2 j -- x", "--limit 0 j -- x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["--done-for 1h -s j -- x", "--done-for 1h --limit 2 j -- x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parsed("--fire 0 j -- x").is_err());
        assert!(parsed("--again j -- x").is_ok());
        assert!(parsed("-E 256 j -- x").is_err());
        assert_eq!(parsed("-E 0 j -- x").unwrap().conflict_exit_code, 0);
    }
}
