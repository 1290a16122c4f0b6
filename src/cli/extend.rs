//! `dlock extend`: prolongs what `dlock acquire` took.

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
    #[arg(long, value_name = "FENCE", env = "DLOCK_FENCE", hide_env_values = true)]
    fence: Option<u64>,
}

/// Prints until when the lock is held now.
pub async fn main(args: Args, global: &Global) -> Exit {
    match args.run(global).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(),
    }
}

impl Args {
    async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = nodes::connect(global).await?;
        let lease = client.extend(&self.key, &self.token, self.fence, self.ttl).await;
        client.close().await;
        let lease = lease.map_err(|error| match error {
            Error::Lost(_) => Failure { exit: Exit::LOST, message: NOT_HELD.to_owned() },
            error => Failure::from(error),
        })?;
        let shown = Shown {
            key: &self.key,
            token: &self.token,
            fence: self.fence.or(Some(lease.fence)),
            left: lease.valid_for,
        };
        shown.print(global.json).map_err(|error| Failure::internal(&error))?;
        Ok(Exit::OK)
    }
}

const HELP: &str = "\
Prints what `acquire` printed, with the new DLOCK_DEADLINE_MS. Without TOKEN and --fence, the
environment variables DLOCK_TOKEN and DLOCK_FENCE are taken.

Exit codes: 75 the token does not hold the lock any more; 69 no majority of the nodes.";
