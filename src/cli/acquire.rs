//! `dlock acquire`: not built yet.

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;

/// See the file.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn main(_args: Args, _global: &Global) -> Exit {
    complain("acquire: not built yet");
    Exit::INTERNAL
}
