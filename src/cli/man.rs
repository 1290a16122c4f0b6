//! `dlock man`: the manual page, and one for each subcommand.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, Global};
use crate::exit::Exit;
use crate::output::complain;

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Write this page, and one for each command, into a folder: dlock.1, dlock-run.1, …
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub async fn main(args: Args, _global: &Global) -> Exit {
    if let Some(folder) = &args.dir {
        return match write_all(folder) {
            Ok(()) => Exit::OK,
            Err(error) => {
                complain(format_args!("{}: {error}", folder.display()));
                Exit::INTERNAL
            }
        };
    }
    let mut page = Vec::new();
    // Writing into memory cannot fail.
    let _ = Man::new(Cli::command()).render(&mut page);
    print(&page)
}

fn write_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

/// Bytes to stdout. That the reader goes away early is no failure.
pub fn print(bytes: &[u8]) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(error);
            Exit::INTERNAL
        }
        _ => Exit::OK,
    }
}

const NOTES: &str = "\
To read it at once: dlock man | man -l -";
