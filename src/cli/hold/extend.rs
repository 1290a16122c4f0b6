//! `dlock extend`: extends a lock that `dlock acquire` took.

use std::env;
use std::time::Duration;

use dlock_client::{Error, Token};

use super::lease::ShownLease;
use super::release::NOT_HELD;
use super::take::USUAL_TTL_TEXT;
use crate::global::Global;
use crate::key::KeyArg;
use crate::nodes;
use crate::say::duration;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;

/// The arguments of `dlock extend`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    /// The token that `acquire` printed
    #[arg(value_name = "TOKEN", env = "DLOCK_TOKEN", hide_env_values = true)]
    token: Token,

    /// Length of the lease from now on; a node keeps its present lease if that is longer
    #[arg(long, value_name = "TIME", value_parser = duration::parse_lease)]
    #[arg(default_value = USUAL_TTL_TEXT.as_str())]
    ttl: Duration,

    /// The fence that `acquire` printed
    #[arg(long, value_name = "FENCE")]
    fence: Option<u64>,
}

impl Args {
    /// Prints the new end of the lease.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let name = self.key.named()?;
        let known = || fence_of(&self.token, |name| env::var(name).ok());
        let fence = self.fence.or_else(known).ok_or_else(|| Failure::usage(NO_FENCE))?;
        let client = nodes::connect(global).await?;
        let lease = client.extend(&name.key, &self.token, fence, self.ttl).await;
        client.close().await;
        let lease = lease.map_err(|error| match error {
            Error::Lost(_) => Failure::new(Kind::Lost, NOT_HELD),
            error => Failure::from(error),
        })?;
        let shown = ShownLease { name: &name, token: &self.token, fence, left: lease.valid_for };
        shown.deliver(global.json).map_err(|error| Failure::internal(&error))?;
        Ok(Exit::OK)
    }
}

/// Returns the fence in the environment, if it belongs to this token: a script may hold another lock as well.
fn fence_of(token: &Token, variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let same = variable("DLOCK_TOKEN")? == token.as_str();
    variable("DLOCK_FENCE")?.parse().ok().filter(|_| same)
}

const NO_FENCE: &str = "no fence: set DLOCK_FENCE beside DLOCK_TOKEN, or --fence";

const HELP: &str = "\
Prints what `acquire` printed, with the new DLOCK_DEADLINE_MS. Without TOKEN and --fence, the
environment variables DLOCK_TOKEN and DLOCK_FENCE are used.

Exit codes: 75 the token does not hold the lock any more; 69 no majority of the nodes.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_of_another_lock_is_not_taken() {
        let ours = "00112233445566778899aabbccddeeff";
        let variable = |name: &str| Some(if name == "DLOCK_TOKEN" { ours } else { "7" }.to_owned());
        let another: Token = ours.replace('0', "1").parse().unwrap();
        assert_eq!(fence_of(&ours.parse().unwrap(), variable), Some(7));
        assert_eq!(fence_of(&another, variable), None);
        assert_eq!(fence_of(&another, |_| None), None);
    }
}
