//! `dlock ls`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// List the locks
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("ls: not built yet");
    Exit::INTERNAL
}
