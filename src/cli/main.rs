//! `dlock`: runs commands under distributed locks, and shows and repairs such locks.
//!
//! In reading order:
//!
//! - [`args`]: the command line: what is common to all subcommands. Each subcommand declares its
//!   own arguments in its file.
//! - [`run`]: a command under a lock; [`child`] starts it, [`signals`] passes signals on.
//! - [`acquire`], [`extend`], [`release`]: the same by hand, for scripts.
//! - [`inspect`], [`ls`], [`break_`], [`doctor`]: for whoever operates the nodes.
//! - [`dev`], [`completions`], [`man`]: to try it out, and to install it.
//! - [`ask`], [`inspection`], [`bytes`], [`table`]: nodes asked one by one, and what they say, shown.
//! - [`nodes`], [`output`], [`exit`], [`duration`]: what all share.

mod acquire;
mod args;
mod ask;
mod break_;
mod bytes;
mod completions;
mod dev;
mod doctor;
mod duration;
mod exit;
mod extend;
mod inspect;
mod inspection;
mod ls;
mod man;
mod nodes;
mod output;
mod release;
mod run;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::exit::Exit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).into(),
    };
    // More threads than one, so that leases are renewed even while something here blocks.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli)).into(),
        Err(error) => {
            output::complain(format_args!("cannot start: {error}"));
            Exit::INTERNAL.into()
        }
    }
}

async fn dispatch(cli: Cli) -> Exit {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => run::main(args, global).await,
        Command::Acquire(args) => acquire::main(args, global).await,
        Command::Extend(args) => extend::main(args, global).await,
        Command::Release(args) => release::main(args, global).await,
        Command::Inspect(args) => inspect::main(args, global).await,
        Command::Ls(args) => ls::main(args, global).await,
        Command::Break(args) => break_::main(args, global).await,
        Command::Doctor(args) => doctor::main(args, global).await,
        Command::Dev(args) => dev::main(args, global).await,
        Command::Completions(args) => completions::main(args, global).await,
        Command::Man(args) => man::main(args, global).await,
    }
}

/// `--help` and `--version` arrive here too: they are no mistakes.
fn usage(error: &clap::Error) -> Exit {
    // A closed pipe is no reason to fail differently.
    let _ = error.print();
    if error.use_stderr() { Exit::USAGE } else { Exit::OK }
}
