//! `dlock acquire`: takes a lock for a script.

use std::pin::pin;

use dlock_client::{Client, Guard, LockOptions};
use nix::unistd::getppid;

use super::events::Events;
use super::lease::ShownLease;
use super::take::{self, LockArgs, Outcome};
use crate::global::Global;
use crate::key::{KeyArg, Named};
use crate::nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
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
        let events = Events::new(global, self.lock.quiet);
        let exit = self.take(global, &events).await;
        events.flush();
        exit
    }

    async fn take(&self, global: &Global, events: &Events) -> Result<Exit, Failure> {
        // The script is the holder: this process ends before the lock does.
        let script = getppid().as_raw().cast_unsigned();
        let name = self.key.named()?;
        // Without renewal a waiter, too, gets the lease that it asks for, or an error.
        let options = LockOptions { renew: false, ..self.lock.options(script, None) };
        let mut signals = Signals::listen()?;
        let tell = events.noticing();
        let client = match nodes::connect_to_wait(global, &self.lock, &mut signals, tell).await? {
            Ok(client) => client,
            Err(signal) => return Ok(Exit::Signal(signal)),
        };
        let end = match take::take(&client, (&name.key, &options), &mut signals, events).await {
            Outcome::Taken(guard) => {
                hand_over(&name, guard, global.json, (&client, &mut signals)).await
            }
            Outcome::Failed(error) => Err(self.lock.failure(&error)),
            Outcome::Interrupted(signal) => Ok(Exit::Signal(signal)),
        };
        client.close().await;
        end
    }
}

/// Prints the lease, and leaves it to the caller, unless a signal arrives before the nodes have answered.
async fn hand_over(
    name: &Named,
    guard: Guard,
    json: bool,
    (client, signals): (&Client, &mut Signals),
) -> Result<Exit, Failure> {
    let lease =
        ShownLease { name, token: guard.token(), fence: guard.fence(), left: guard.valid_for() };
    if let Err(error) = lease.deliver(json) {
        let _ = guard.release().await;
        return Err(Failure::internal(&format_args!("cannot print the token: {error}")));
    }
    let token = *guard.token();
    let mut detached = pin!(guard.detach());
    tokio::select! {
        biased;
        signal = signals.next_that_ends() => {
            let _ = detached.await;
            let _ = client.release(name.key.clone(), &token).await;
            Ok(Exit::Signal(signal))
        }
        detached = &mut detached => {
            detached.map(|_| Exit::OK).map_err(|loss| Failure::new(Kind::Lost, loss))
        }
    }
}

const HELP: &str = "\
The lock is not renewed: it is free again when the lease (--ttl) ends. `dlock run` is safer.

  lease=$(dlock acquire --ttl 10m deploy) || exit
  eval \"$lease\"     # exports DLOCK_KEY, DLOCK_TOKEN, DLOCK_FENCE, DLOCK_DEADLINE_MS
  ./deploy --fence \"$DLOCK_FENCE\"
  lease=$(dlock extend --ttl 10m deploy) || exit     # 75 if the lease was over
  dlock release deploy

DLOCK_DEADLINE_MS is when the lease ends: milliseconds since 1970, by this machine's clock.

The token is enough to release the lock. All users of this machine can read the arguments of
a program, so `extend` and `release` take the token from DLOCK_TOKEN.

Exit codes: 1 the lock was not free; 69 no majority of the nodes; 64 wrong usage.";
