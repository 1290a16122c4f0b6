//! `dlock acquire`: takes a lock for a script.

use std::time::Duration;

use dlock_client::{Client, Guard, Key, Notice};
use nix::unistd::getppid;

use super::lease::ShownLease;
use super::take::{self, LockArgs, Outcome, Progress, TakeRequest};
use super::waiting::{self, Hindrance};
use crate::global::Global;
use crate::key::{KeyArg, Named};
use crate::nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::{notice, stderr};
use crate::signals::Signals;

/// The arguments of `dlock acquire`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    #[command(flatten)]
    lock: LockArgs,
}

impl Args {
    /// Prints the lease, which is needed to extend and release the lock.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        // The script is the holder: this process ends before the lock does.
        let script = getppid().as_raw().cast_unsigned();
        let keys = [self.key.named()?];
        let request = TakeRequest { keys: &keys, options: self.lock.options(script, None) };
        let as_json = global.json;
        let tell = move |notice: &Notice| match as_json {
            true => stderr::event(&notice::event(notice)),
            false => stderr::complain(notice),
        };
        let mut signals = Signals::listen()?;
        let connected = nodes::connect_to_wait(global, &self.lock, &mut signals, tell).await?;
        let client = match connected {
            Ok(client) => client,
            Err(signal) => return Ok(Exit::Signal(signal)),
        };
        let mut told = Told { verbose: global.verbose, as_json };
        let end = match take::take(&client, &request, &mut signals, &mut told).await {
            Outcome::All(guards) => hand_over(&keys[0], guards, global.json).await,
            Outcome::Failed(error) => Err(self.lock.failure(&error)),
            Outcome::Lost(loss) => Err(Failure::new(Kind::Lost, loss)),
            Outcome::Interrupted(signal) => Ok(Exit::Signal(signal)),
        };
        client.close().await;
        end
    }
}

async fn hand_over(name: &Named, guards: Vec<Guard>, json: bool) -> Result<Exit, Failure> {
    for guard in &guards {
        let lease = ShownLease {
            name,
            token: guard.token(),
            fence: Some(guard.fence()),
            left: guard.valid_for(),
        };
        if let Err(error) = lease.deliver(json) {
            take::release(guards).await;
            return Err(Failure::internal(&format_args!("cannot print the token: {error}")));
        }
    }
    for guard in guards {
        guard.detach().await;
    }
    Ok(Exit::OK)
}

/// Reports waits with --verbose.
struct Told {
    verbose: bool,
    as_json: bool,
}

impl Progress for Told {
    async fn wait(&mut self, client: &Client, key: &Key) {
        if self.verbose {
            tokio::time::sleep(waiting::SOON).await;
            let hindrance = Hindrance::of(client, key).await;
            match self.as_json {
                true => stderr::event(&hindrance.json(key)),
                false => stderr::complain(hindrance.text(key)),
            }
        }
        std::future::pending().await
    }

    fn taken(&mut self, guard: &Guard, after: Duration) {
        if self.verbose {
            match self.as_json {
                true => stderr::event(&waiting::acquired(guard, after)),
                false => stderr::complain(waiting::over(guard, after)),
            }
        }
    }
}

const HELP: &str = "\
The lock is not renewed: it is free again when the lease (--ttl) ends. `dlock run` is safer.

  lease=$(dlock acquire --ttl 10m deploy) || exit
  eval \"$lease\"; export DLOCK_TOKEN      # and DLOCK_KEY, DLOCK_FENCE, DLOCK_DEADLINE_MS
  ./deploy --fence \"$DLOCK_FENCE\"
  dlock extend --ttl 10m deploy          # exits with 75 if the lease was over
  dlock release deploy

DLOCK_DEADLINE_MS is when the lease ends: milliseconds since 1970, by this machine's clock.

The token is enough to release the lock. All users of this machine can read the arguments of
a program, so `extend` and `release` take the token from DLOCK_TOKEN.

Exit codes: 1 (-E) the lock was not free; 69 no majority of the nodes; 64 wrong usage.";
