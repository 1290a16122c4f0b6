//! `dlock completions`: what makes a shell complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, Global};
use crate::exit::Exit;
use crate::man::print;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub async fn main(args: Args, _global: &Global) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dlock", &mut script);
    print(&script)
}

const NOTES: &str = "\
For bash: dlock completions bash > /etc/bash_completion.d/dlock";
