//! The command line: the subcommands, and the options that all of them have.

use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};

use crate::{
    acquire, bench, break_, completions, dev, doctor, duration, extend, fenced, inspect, ls, man,
    release, run,
};

/// Distributed locks on Redis or Valkey nodes that run the dlock module.
#[derive(Debug, Parser)]
#[command(name = "dlock", version, arg_required_else_help = true, after_help = FIRST_MINUTE)]
#[command(subcommand_value_name = "COMMAND")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every subcommand knows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The nodes, separated by commas: redis://, rediss:// or unix:// URLs, or HOST:PORT
    ///
    /// User and password belong into the URL: redis://user:password@host:port. Everybody on this
    /// machine can read the arguments of a program, so put URLs with passwords into DLOCK_NODES.
    /// Without any of them it is redis://127.0.0.1:6379.
    #[arg(long, global = true, value_name = "URL,…", value_delimiter = ',')]
    #[arg(env = "DLOCK_NODES", hide_env_values = true)]
    pub nodes: Option<Vec<String>>,

    /// How long a node may take to answer [default: a twentieth of the ttl, 50ms to 1s]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration::parse_positive)]
    pub timeout: Option<Duration>,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,

    /// Say on stderr what happens
    #[arg(long, global = true)]
    pub verbose: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock
    Run(run::Args),
    /// Take a lock, for a script that releases it later
    Acquire(acquire::Args),
    /// Prolong a lock that `acquire` took
    Extend(extend::Args),
    /// Carry out a command unless a later holder of the lock has been there
    Fenced(fenced::Args),
    /// Give back a lock that `acquire` took
    Release(release::Args),
    /// Show who holds a lock and who waits for it
    Inspect(inspect::Args),
    /// List the locks
    Ls(ls::Args),
    /// End a lock that somebody else holds
    Break(break_::Args),
    /// Look for what makes the nodes unsafe, and say how to mend it
    Doctor(doctor::Args),
    /// Measure the nodes: cost of a lock, waits, fairness
    Bench(bench::Args),
    /// Start local servers with the module, to try it out
    Dev(dev::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// Print the version
    Version,
}

/// A key that begins with a dash looks like an option. With `run` what follows `--` is the command,
/// so there the parser's own advice would be wrong.
pub fn explained(mut error: clap::Error) -> clap::Error {
    let text = |kind| error.get(kind).map(ToString::to_string);
    let is_run = text(ContextKind::Usage).is_some_and(|usage| usage.contains("dlock run"));
    if is_run && error.get(ContextKind::Suggested).is_some() {
        let letter = text(ContextKind::InvalidArg).unwrap_or_default();
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let key = words.skip(1).find(|word| word.starts_with(&letter)).unwrap_or(letter);
        let advice = format!("to lock '{key}', write '--key={key}'");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

const FIRST_MINUTE: &str = "\
Try it:
  dlock dev -n 3                            three local nodes; says what to put into DLOCK_NODES
  dlock run nightly -- ./backup.sh          waits for the lock `nightly`, runs the script, releases
  dlock run -n nightly -- ./backup.sh       exits with 1 at once if somebody else holds it
  dlock inspect nightly                     who holds it, who waits

Exit codes: the command's own; 128+n if signal n ended it; 1 the lock was not free; 75 the lock
was lost; 69 no majority of the nodes; 65 the nodes refuse the request; 77 they refuse the user;
78 the servers are no nodes for locks; 64 wrong usage; 126, 127 cannot execute; 70 a bug.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
