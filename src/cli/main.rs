//! `dlock`: runs commands under distributed locks, and shows and repairs such locks.
//!
//! In reading order:
//!
//! - [`args`]: the command line: what is common to all subcommands. Each subcommand declares its
//!   own arguments in its file.
//! - [`run`]: a command under a lock; [`child`] starts it, [`signals`] passes signals on.
//! - [`acquire`], [`extend`], [`release`]: the same by hand, for scripts.
//! - [`key`], [`lock`], [`waiting`], [`meta`]: which lock is wanted, taking it, what there is to wait
//!   for, and what others see of the holder.
//! - [`fenced`]: a command for data that refuses late holders.
//! - [`inspect`], [`ls`], [`break_`], [`doctor`]: for whoever operates the nodes.
//! - [`bench`]: what a lock costs on these nodes, and how long one waits.
//! - [`dev`], [`completions`], [`man`]: to try it out, and to install it.
//! - [`ask`], [`inspection`], [`bytes`], [`table`]: nodes asked one by one, and what they say, shown.
//! - [`nodes`], [`output`], [`kind`], [`exit`], [`duration`]: what all share.

mod acquire;
mod args;
mod ask;
mod bench;
mod break_;
mod bytes;
mod child;
mod completions;
mod dev;
mod doctor;
mod duration;
mod exit;
mod extend;
mod fenced;
mod glob;
mod inspect;
mod inspection;
mod key;
mod kind;
mod lock;
mod ls;
mod man;
mod meta;
mod nodes;
mod output;
mod release;
mod run;
mod signals;
mod table;
mod waiting;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use crate::args::{Cli, Command, Global};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    exit_on_panic();
    if let Some(arguments) = child::arguments() {
        return child::main(&arguments).into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(args::explained(error)).into(),
    };
    // More threads than one, so that leases are renewed even while something here blocks.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).on_thread_start(signals::hold_off).enable_all();
    let runtime = signals::held_off(|| runtime.build());
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
    let report = |failure: Failure| failure.report(global.json);
    match cli.command {
        Command::Run(args) => run::main(args, global).await,
        Command::Acquire(args) => args.run(global).await.unwrap_or_else(report),
        Command::Extend(args) => args.run(global).await.unwrap_or_else(report),
        Command::Fenced(args) => args.run(global).await.unwrap_or_else(report),
        Command::Release(args) => args.run(global).await.unwrap_or_else(report),
        Command::Inspect(args) => args.run(global).await.unwrap_or_else(report),
        Command::Ls(args) => args.run(global).await.unwrap_or_else(report),
        Command::Break(args) => args.run(global).await.unwrap_or_else(report),
        Command::Doctor(args) => args.run(global).await.unwrap_or_else(report),
        Command::Bench(args) => args.run(global).await.unwrap_or_else(report),
        Command::Dev(args) => dev::main(args, global).await,
        Command::Completions(args) => completions::main(args, global).await,
        Command::Man(args) => man::main(args, global).await,
        Command::Version => version(global).unwrap_or_else(report),
    }
}

fn version(global: &Global) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let shown = match global.json {
        true => output::json(&json!({"version": version})),
        false => writeln!(io::stdout(), "dlock {version}"),
    };
    output::shown(shown).map(|()| Exit::OK)
}

/// A bug has an exit code too.
fn exit_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(Exit::INTERNAL.0.into());
    }));
}

/// `--help` and `--version` arrive here too: they are no mistakes.
fn usage(error: clap::Error) -> Exit {
    // A closed pipe is no reason to fail differently.
    let _ = error.print();
    if error.use_stderr() { Exit::USAGE } else { Exit::OK }
}
