//! `dlock`: runs commands under distributed locks, and shows and repairs such locks.
//!
//! In reading order:
//!
//! - [`commands`]: the table of all subcommands. [`global`]: the options of each of them.
//! - [`run`]: a command under a lock. [`signals`]: signals that end dlock, or go on to the command.
//! - [`hold`]: the same by hand, for scripts; and taking a lock, which both do.
//! - [`fenced`]: a command for data that refuses late holders.
//! - [`nodes`]: the nodes of the command line. [`key`]: the key of the lock.
//! - [`locks`], [`doctor`], [`ready`]: for operators of the nodes.
//! - [`top`], [`exporter`]: live figures of the nodes. [`watch`]: polling the nodes. [`http`]: the server of metrics.
//! - [`agent`]: the locks of a majority for programs in any language, over the Redis protocol.
//! - [`dev`]: local nodes to try dlock with.
//! - [`say`]: output for people, programs and shells; and the exit codes.

mod agent;
mod commands;
mod dev;
mod doctor;
mod exporter;
mod fenced;
mod global;
mod hold;
mod http;
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
use std::time::Duration;

use clap::Parser;

use crate::commands::{Cli, Command};
use crate::run::child;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stderr;

fn main() -> ExitCode {
    exit_on_panic();
    if let Some(arguments) = child::arguments() {
        return child::main(&arguments).into();
    }
    // `ulimit -s` limits the first thread's stack, so another thread does the work.
    let worker = thread::Builder::new().stack_size(STACK).spawn(work);
    signals::hold_off();
    let exit = worker.map(|worker| worker.join().unwrap_or(Exit::INTERNAL));
    let exit = exit.unwrap_or_else(cannot_start);
    if let Exit::Signal(signal) = exit {
        signals::end_by(signal);
    }
    exit.into()
}

fn work() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&commands::explained(error)),
    };
    // Two threads, so that leases are renewed even while one of them blocks. A request to an agent goes through
    // several tasks, and waking another thread for one of them takes longer than its work.
    let threads = if matches!(cli.command, Command::Agent(_)) { 1 } else { 2 };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(threads).on_thread_start(signals::hold_off).enable_all();
    // With thousands of connections most tasks are in the shared queue, which must have its turn as often as the
    // thread's own.
    runtime.global_queue_interval(2);
    // A job may use up the process limit, and reconnections resolve names in such a thread.
    runtime.thread_keep_alive(FOR_EVER);
    let runtime = signals::held_off(|| {
        runtime.build().inspect(|runtime| drop(runtime.spawn_blocking(|| ())))
    });
    runtime.map_or_else(cannot_start, |runtime| {
        let exit = runtime.block_on(dispatch(cli));
        // Does not wait for blocked threads: resolving a host name may take half a minute.
        runtime.shutdown_background();
        exit
    })
}

fn cannot_start(error: io::Error) -> Exit {
    stderr::complain(format_args!("cannot start: {error}"));
    Exit::INTERNAL
}

async fn dispatch(Cli { global, command }: Cli) -> Exit {
    command.run(&global).await.unwrap_or_else(|failure| failure.report(global.json))
}

/// Gives bugs an exit code, too.
fn exit_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(Exit::INTERNAL.code().into());
    }));
}

/// Reports errors of the command line. `--help` and `--version` arrive here, too, and are no errors.
fn usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A closed pipe does not change the exit code.
        let _ = error.print();
        return Exit::OK;
    }
    if commands::wants_json(std::env::args_os()) {
        return Failure::usage(commands::plain(error)).report(true);
    }
    let _ = error.print();
    Exit::USAGE
}

/// Lifetime of a thread that may block.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// In bytes: the usual size of a first thread's stack.
const STACK: usize = 8 << 20;
