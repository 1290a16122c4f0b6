//! `dlock release`: releases a lock that `dlock acquire` took.

use dlock_client::Token;
use serde_json::json;

use crate::global::Global;
use crate::key::KeyArg;
use crate::nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::{bytes, stdout};

/// The arguments of `dlock release`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    /// The token that `acquire` printed
    #[arg(value_name = "TOKEN", env = "DLOCK_TOKEN", hide_env_values = true)]
    token: Token,
}

impl Args {
    /// Sets the exit code: success if the token held the lock until now.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let key = self.key.named()?.key;
        let client = nodes::connect(global).await?;
        let released = client.release(&key, &self.token).await;
        client.close().await;
        let released = released?;
        if global.json {
            let line = bytes::about(&key, json!({"released": released}));
            stdout::json(&line)?;
        }
        match released {
            true => Ok(Exit::OK),
            false => Err(Failure::new(Kind::Lost, NOT_HELD)),
        }
    }
}

/// The error when the token does not hold the lock.
pub const NOT_HELD: &str = "the token does not hold the lock: its lease has ended, an operator ended it, \
                            or it is another lock's token";

const HELP: &str = "\
Without TOKEN, the environment variable DLOCK_TOKEN is used.

Exit codes: 75 the token did not hold the lock any more; 69 no majority of the nodes.";
