//! `dlock man`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// Print the manual page
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("man: not built yet");
    Exit::INTERNAL
}
