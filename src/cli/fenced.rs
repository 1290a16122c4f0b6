//! `dlock fenced`: a command for data that refuses late holders, on a server.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use dlock_client::{Address, Key, NodeError};
use dlock_core::limits::MAX_FENCE;
use redis::Value;

use crate::global::Global;
use crate::nodes;
use crate::nodes::ask::Trouble;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::stdout;

/// The arguments of `dlock fenced`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The key that remembers the largest fence, on the server with the data
    #[arg(value_name = "MARK")]
    mark: OsString,

    /// The server with the data [default: DLOCK_DATA, or the one node, if there is one]
    #[arg(long, value_name = "URL")]
    data: Option<String>,

    /// The fence
    #[arg(long, value_name = "FENCE", env = "DLOCK_FENCE", value_parser = fence)]
    fence: u64,

    /// A Redis command, such as SET key value
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// Sends the command, and prints the reply in redis-cli's plain form.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut command = redis::cmd("DLOCK.FENCED");
        command.arg(self.mark.as_bytes()).arg(self.fence);
        for word in &self.command {
            command.arg(word.as_bytes());
        }
        // All users of this machine can read a program's arguments, and there may be a password.
        let data = self.data.or_else(|| env::var("DLOCK_DATA").ok());
        let url = url(data.as_deref(), global)?;
        let address = Address::read(&url)?;
        let within = nodes::timeout(global);
        let key = Key::from(self.mark.as_bytes());
        let (server, answer) = address.ask(&key, &command, within).await;
        let reply = answer.map_err(|error| failure(&server, error))?;
        let mut text = Vec::new();
        write(&mut text, &reply).map_err(|error| Failure::internal(&error))?;
        stdout::print(text)?;
        Ok(Exit::OK)
    }
}

/// Reads a fence.
fn fence(text: &str) -> Result<u64, String> {
    let fence = text.parse().ok().filter(|fence| (1..=MAX_FENCE).contains(fence));
    fence.ok_or_else(|| "DLOCK_FENCE, or --fence, must be a fence".to_owned())
}

/// Returns the address of the server with the data.
fn url(data: Option<&str>, global: &Global) -> Result<String, Failure> {
    if let Some(url) = data {
        return Ok(url.to_owned());
    }
    match &nodes::urls(global)?[..] {
        [only] => Ok(only.clone()),
        _ => Err(Failure::usage(
            "several nodes are named, and one of them has the data: name it with --data URL or in DLOCK_DATA",
        )),
    }
}

fn failure(name: &str, error: NodeError) -> Failure {
    if let NodeError::Refused(why) = &error
        && let Some(seen) = why.strip_prefix("STALE ")
    {
        let seen = seen.split(' ').next().unwrap_or_default();
        let words = format!("a later holder has been there, with fence {seen}");
        return Failure::new(Kind::Lost, words);
    }
    let Trouble { kind, words } = error.into();
    Failure::new(kind, format!("{name}: {words}"))
}

fn write(out: &mut impl Write, reply: &Value) -> io::Result<()> {
    match reply {
        Value::Nil => writeln!(out),
        Value::Int(n) => writeln!(out, "{n}"),
        Value::Okay => writeln!(out, "OK"),
        Value::SimpleString(text) => writeln!(out, "{text}"),
        Value::BulkString(bytes) => {
            out.write_all(bytes)?;
            writeln!(out)
        }
        Value::Double(n) => writeln!(out, "{n}"),
        Value::Boolean(yes) => writeln!(out, "{yes}"),
        Value::Array(items) | Value::Set(items) => items.iter().try_for_each(|i| write(out, i)),
        Value::Map(pairs) => pairs.iter().try_for_each(|(name, value)| {
            write(out, name)?;
            write(out, value)
        }),
        other => writeln!(out, "{other:?}"),
    }
}

const HELP: &str = "\
Example:
  dlock run job -c 'dlock fenced --data redis://10.0.0.1 \"{account:7}:mark\" -- SET account:7 120'

The data server, which needs the module, runs the command unless a later holder has been there, and \
raises the mark to the fence in the same step. `dlock run` gives the fence in DLOCK_FENCE. Send it \
with reads as well as writes.

Exit codes: 75 a later holder has been there, and nothing has happened; 65 the server refuses the
command; 77 it refuses this user; 69 no answer: the command may have run; 64 wrong usage.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fences_are_no_fence() {
        assert_eq!(fence("9007199254740991"), Ok(MAX_FENCE));
        for text in ["0", "7 8", "x", "9007199254740992"] {
            assert!(fence(text).is_err(), "{text}");
        }
    }
}
