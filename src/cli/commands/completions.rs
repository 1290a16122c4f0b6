//! `dlock completions`: scripts that complete the command line in a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    pub async fn run(self, _global: &Global) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "dlock", &mut script);
        stdout::print(script)?;
        Ok(Exit::OK)
    }
}

const NOTES: &str = "\
For bash: dlock completions bash > /etc/bash_completion.d/dlock";
