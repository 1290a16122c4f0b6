//! `dlock`: runs commands under distributed locks, and shows and repairs such locks.
//!
//! In reading order:
//!
//! - [`commands`]: the table of all subcommands. [`global`]: the options of each of them.
//! - [`run`]: a command under a lock. [`signals`]: what ends dlock, or is passed on to the command.
//! - [`hold`]: the same by hand, for scripts; and taking a lock, which both do.
//! - [`fenced`]: a command for data that refuses late holders.
//! - [`nodes`]: who is asked. [`key`]: about which lock.
//! - [`locks`], [`doctor`], [`ready`]: for whoever operates the nodes.
//! - [`top`], [`exporter`]: what happens at the nodes, live. [`watch`]: looking at nodes again and again.
//! - [`bench`]: what a lock costs on these nodes, and how long one waits.
//! - [`dev`]: local nodes, to try it out.
//! - [`say`]: what is printed, how, and where; and the exit codes.

mod bench;
mod commands;
mod dev;
mod doctor;
mod exporter;
mod fenced;
mod global;
mod hold;
mod key;
mod locks;
mod nodes;
mod ready;
mod run;
mod say;
mod signals;
mod top;
mod watch;

use std::io;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use crate::commands::Cli;
use crate::run::child;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stderr;

fn main() -> ExitCode {
    exit_on_panic();
    if let Some(arguments) = child::arguments() {
        return child::main(&arguments).into();
    }
    // The first thread's stack is as small as `ulimit -s` says: all work is done by another.
    let worker = thread::Builder::new().stack_size(STACK).spawn(work);
    signals::hold_off();
    let exit = worker.map(|worker| worker.join().unwrap_or(Exit::INTERNAL));
    exit.unwrap_or_else(cannot_start).into()
}

fn work() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&commands::explained(error)),
    };
    // More threads than one, so that leases are renewed even while something here blocks.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).on_thread_start(signals::hold_off).enable_all();
    let runtime = signals::held_off(|| runtime.build());
    runtime.map_or_else(cannot_start, |runtime| runtime.block_on(dispatch(cli)))
}

fn cannot_start(error: io::Error) -> Exit {
    stderr::complain(format_args!("cannot start: {error}"));
    Exit::INTERNAL
}

async fn dispatch(Cli { global, command }: Cli) -> Exit {
    command.run(&global).await.unwrap_or_else(|failure| failure.report(global.json))
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
fn usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A closed pipe is no reason to fail differently.
        let _ = error.print();
        return Exit::OK;
    }
    if commands::wants_json(std::env::args_os()) {
        return Failure::usage(commands::plain(error)).report(true);
    }
    let _ = error.print();
    Exit::USAGE
}

/// In bytes: as much as most systems give the first thread.
const STACK: usize = 8 << 20;
