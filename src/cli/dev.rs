//! `dlock dev`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// Start local servers with the module, to try it out
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("dev: not built yet");
    Exit::INTERNAL
}
