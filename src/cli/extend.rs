//! `dlock extend`: prolongs what `dlock acquire` took.

use std::env;
use std::time::Duration;

use dlock_client::{Error, Token};

use crate::acquire::Shown;
use crate::args::Global;
use crate::exit::{Exit, Failure};
use crate::release::NOT_HELD;
use crate::{duration, nodes};

/// The arguments of `dlock extend`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The lock
    #[arg(value_name = "KEY")]
    key: String,

    /// The token that `acquire` printed
    #[arg(value_name = "TOKEN", env = "DLOCK_TOKEN", hide_env_values = true)]
    token: Token,

    /// How long the lease runs from now; it may become shorter
    #[arg(long, value_name = "TIME", value_parser = duration::parse_lease)]
    #[arg(default_value = "30s")]
    ttl: Duration,

    /// The fence that `acquire` printed: then only a majority that knows it counts
    #[arg(long, value_name = "FENCE")]
    fence: Option<u64>,
}

impl Args {
    /// Prints until when the lock is held now.
    pub async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = nodes::connect(global).await?;
        let fence = self.fence.or_else(|| self.fence_of(|name| env::var(name).ok()));
        let lease = client.extend(&self.key, &self.token, fence, self.ttl).await;
        client.close().await;
        let lease = lease.map_err(|error| match error {
            Error::Lost(_) => Failure { exit: Exit::LOST, message: NOT_HELD.to_owned() },
            error => Failure::from(error),
        })?;
        let shown = Shown {
            key: &self.key,
            token: &self.token,
            fence: fence.or(Some(lease.fence)),
            left: lease.valid_for,
        };
        shown.print(global.json).map_err(|error| Failure::internal(&error))?;
        Ok(Exit::OK)
    }

    /// The fence in the environment, if what is there is about this lock and this token: a script
    /// may hold another lock as well.
    fn fence_of(&self, variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let token = variable("DLOCK_TOKEN")?.parse().ok();
        let same = variable("DLOCK_KEY")? == self.key && token == Some(self.token);
        variable("DLOCK_FENCE")?.parse().ok().filter(|_| same)
    }
}

const HELP: &str = "\
Prints what `acquire` printed, with the new DLOCK_DEADLINE_MS. Without TOKEN, the
environment variable DLOCK_TOKEN is taken, and DLOCK_FENCE with it if DLOCK_KEY is KEY.

Exit codes: 75 the token does not hold the lock any more; 69 no majority of the nodes.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_of_another_lock_is_not_taken() {
        let args = Args {
            key: "a".to_owned(),
            token: "00112233445566778899aabbccddeeff".parse().unwrap(),
            ttl: Duration::from_secs(1),
            fence: None,
        };
        let environment = |key: &'static str| {
            move |name: &str| match name {
                "DLOCK_KEY" => Some(key.to_owned()),
                "DLOCK_TOKEN" => Some("00112233445566778899aabbccddeeff".to_owned()),
                _ => Some("7".to_owned()),
            }
        };
        assert_eq!(args.fence_of(environment("a")), Some(7));
        assert_eq!(args.fence_of(environment("b")), None);
        assert_eq!(args.fence_of(|_| None), None);
    }
}
