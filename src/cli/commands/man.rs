//! `dlock man`: the manual page, and one for each subcommand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::Cli;
use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Write this page, and one for each command, into a folder: dlock.1, dlock-run.1, …
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Args {
    pub async fn run(self, _global: &Global) -> Result<Exit, Failure> {
        match self.dir {
            Some(folder) => write_all(&folder).map_err(|error| {
                Failure::internal(&format_args!(
                    "cannot write the pages into {}: {error}",
                    folder.display()
                ))
            })?,
            None => {
                let mut page = Vec::new();
                Man::new(Cli::command())
                    .render(&mut page)
                    .map_err(|error| Failure::internal(&error))?;
                stdout::print(page)?;
            }
        }
        Ok(Exit::OK)
    }
}

fn write_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

const NOTES: &str = "\
To read it at once: dlock man | man -l -";
