//! `dlock inspect`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// Show who holds a lock and who waits for it
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("inspect: not built yet");
    Exit::INTERNAL
}
