//! The command line: one table of all subcommands. Each of them declares its own arguments and runs in
//! a file of its own.
//!
//! [`completions`] and [`man`] are about the command line itself.

mod completions;
mod man;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

use crate::global::Global;
use crate::hold::{acquire, extend, release};
use crate::locks::{break_, inspect, ls};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::{agent, dev, doctor, exporter, fenced, ready, run, top};

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

/// Turns the table into clap's subcommands and their dispatch.
macro_rules! commands {
    ($($(#[doc = $what:literal])+ $name:ident($file:ident),)+) => {
        /// The subcommands.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[doc = $what])+ $name($file::Args),)+
        }

        impl Command {
            /// Runs the subcommand. The caller reports a failure.
            pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
                match self {
                    $(Command::$name(args) => args.run(global).await,)+
                }
            }
        }
    };
}

commands! {
    /// Run a command while holding a lock
    Run(run),
    /// Take a lock, for a script that releases it later
    Acquire(acquire),
    /// Extend a lock that `acquire` took
    Extend(extend),
    /// Run a command on data, unless a later holder of the lock has been there
    Fenced(fenced),
    /// Release a lock that `acquire` took
    Release(release),
    /// Show the holders and waiters of a lock
    Inspect(inspect),
    /// List the locks
    Ls(ls),
    /// End a lock that another client holds
    Break(break_),
    /// Find settings that make the nodes unsafe, and say how to fix them
    Doctor(doctor),
    /// Wait until the nodes grant locks: between two restarts, and for probes
    Ready(ready),
    /// Show the nodes and the most contended locks, live
    Top(top),
    /// Serve metrics of the nodes to Prometheus
    Exporter(exporter),
    /// Serve the locks of a majority to programs in any language, over the Redis protocol
    Agent(agent),
    /// Start local servers with the module, to try dlock
    Dev(dev),
    /// Print a completion script for a shell
    Completions(completions),
    /// Print the manual page
    Man(man),
}

/// Corrects the parser's advice about a key that begins with a dash, and leaves out possible secrets. With
/// `run`, arguments after `--` are the command, so the parser's own advice would be wrong.
pub fn explained(mut error: clap::Error) -> clap::Error {
    let hidden = |(kind, value): (ContextKind, &ContextValue)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(without_secrets(text)))),
        _ => None,
    };
    for (kind, value) in error.context().filter_map(hidden).collect::<Vec<_>>() {
        error.insert(kind, value);
    }
    let text = |kind| error.get(kind).map(ToString::to_string);
    if text(ContextKind::InvalidArg).is_some_and(|argument| argument.contains("TOKEN")) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
        return error;
    }
    let is_run = text(ContextKind::Usage).is_some_and(|usage| usage.contains("dlock run"));
    if is_run && error.get(ContextKind::Suggested).is_some() {
        let advice = "a key that begins with a dash is written '--key=-key'";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

/// Hides what follows the scheme of a URL: passwords stand before its host or in its options.
fn without_secrets(text: &str) -> String {
    text.split_once("://").map_or(text.to_owned(), |(scheme, _)| format!("{scheme}://…"))
}

/// True if `--json` was asked for, though the command line is not valid.
pub fn wants_json(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}

/// The parser's error, without the usage text that follows it for people.
pub fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    text.trim_start_matches("error: ").trim().to_owned()
}

const FIRST_MINUTE: &str = "\
Try it:
  dlock dev -n 3                            three local nodes; says what to put into DLOCK_NODES
  dlock run nightly -- ./backup.sh          waits for the lock `nightly`, runs the script, releases
  dlock run -n nightly -- ./backup.sh       exits with 1 at once if another client holds it
  dlock inspect nightly                     its holders and waiters

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
