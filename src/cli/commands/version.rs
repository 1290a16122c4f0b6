//! `dlock version`.

use serde_json::json;

use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;

/// Print the version
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let version = env!("CARGO_PKG_VERSION");
        match global.json {
            true => stdout::json(&json!({"version": version}))?,
            false => stdout::line(format_args!("dlock {version}"))?,
        }
        Ok(Exit::OK)
    }
}
