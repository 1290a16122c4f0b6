//! `dlock completions`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("completions: not built yet");
    Exit::INTERNAL
}
