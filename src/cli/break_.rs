//! `dlock break`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// End a lock that somebody else holds
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("break: not built yet");
    Exit::INTERNAL
}
