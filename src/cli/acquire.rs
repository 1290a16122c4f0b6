//! `dlock acquire`: takes a lock and leaves it to a script.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use dlock_client::{Client, Guard, Key, Token};
use nix::unistd::getppid;
use serde_json::json;

use crate::args::Global;
use crate::bytes;
use crate::exit::{Exit, Failure};
use crate::key::{KeyArg, Named};
use crate::kind::Kind;
use crate::lock::{self, LockArgs, Taken, Wanted, Watch};
use crate::nodes;
use crate::output::{self, complain, quoted};
use crate::signals::Signals;
use crate::waiting::{self, Obstacle};

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
    /// Prints what is needed to extend and release the lock.
    pub async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        // It is the script that holds the lock: this process is gone in a moment.
        let script = getppid().as_raw().cast_unsigned();
        let keys = [self.key.named()?];
        let wanted = Wanted::new(&keys, &self.lock, script, None)?;
        let client = nodes::connect_to_wait(global, &self.lock, |notice| complain(notice)).await?;
        let mut signals = Signals::listen()?;
        let mut told = Told { verbose: global.verbose };
        let end = match lock::take(&client, &wanted, &mut signals, &mut told).await {
            Taken::All(guards) => hand_over(&keys[0], guards, global.json).await,
            Taken::Failed(error) => Err(self.lock.failure(&error)),
            Taken::Lost(loss) => Err(Failure::new(Kind::Lost, loss)),
            Taken::Interrupted(signal) => Ok(Exit::by(signal)),
        };
        client.close().await;
        end
    }
}

/// A lock whose token nobody gets to know would be held by nobody.
async fn hand_over(name: &Named, guards: Vec<Guard>, json: bool) -> Result<Exit, Failure> {
    for guard in &guards {
        let lease = Shown {
            name,
            token: guard.token(),
            fence: Some(guard.fence()),
            left: guard.valid_for(),
        };
        if let Err(error) = lease.print(json) {
            lock::release(guards).await;
            return Err(Failure::internal(&format_args!("cannot print the token: {error}")));
        }
    }
    for guard in guards {
        guard.detach().await;
    }
    Ok(Exit::OK)
}

/// What a script gets to know of a lease.
pub struct Shown<'a> {
    pub name: &'a Named,
    pub token: &'a Token,
    pub fence: Option<u64>,
    pub left: Duration,
}

impl Shown<'_> {
    /// As a JSON object, or for a shell's `eval`.
    pub fn print(&self, json: bool) -> io::Result<()> {
        let deadline = lock::deadline(self.left);
        if json {
            let others = json!({
                "token": self.token.to_string(),
                "fence": self.fence,
                "deadline_ms": u64::try_from(deadline).unwrap_or(u64::MAX),
            });
            return output::json(&bytes::about(&self.name.key, others));
        }
        let mut text = format!("\nDLOCK_TOKEN={}\n", self.token);
        if let Some(fence) = self.fence {
            text.push_str(&format!("DLOCK_FENCE={fence}\n"));
        }
        text.push_str(&format!("DLOCK_DEADLINE_MS={deadline}\n"));
        let mut stdout = io::stdout().lock();
        stdout.write_all(b"DLOCK_KEY=")?;
        stdout.write_all(quoted(&self.name.typed).as_bytes())?;
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

/// Only those who ask are told.
struct Told {
    verbose: bool,
}

impl Watch for Told {
    async fn wait(&mut self, client: &Client, key: &Key) {
        if self.verbose {
            tokio::time::sleep(waiting::SOON).await;
            complain(Obstacle::of(client, key).await.text(key));
        }
        std::future::pending().await
    }

    fn taken(&mut self, guard: &Guard, after: Duration) {
        if self.verbose {
            complain(waiting::over(guard, after));
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

Whoever knows the token can release the lock. Everybody on this machine can read the arguments of
a program, so `extend` and `release` take the token from DLOCK_TOKEN.

Exit codes: 1 (-E) the lock was not free; 69 no majority of the nodes; 64 wrong usage.";
