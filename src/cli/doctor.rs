//! `dlock doctor`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// Look for what makes the nodes unsafe, and say how to mend it
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("doctor: not built yet");
    Exit::INTERNAL
}
