//! `dlock fenced`: a command for data that refuses late holders, on a server or in a file.

mod data;
mod file;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use dlock_core::limits::MAX_FENCE;

use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;

/// The arguments of `dlock fenced`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = HELP)]
pub struct Args {
    /// The key that remembers the largest fence, on the server with the data
    #[arg(value_name = "MARK", required_unless_present = "file")]
    mark: Option<OsString>,

    /// The file that remembers the largest fence; COMMAND is then a program
    #[arg(long, value_name = "PATH", conflicts_with_all = ["mark", "data"])]
    file: Option<PathBuf>,

    /// The server with the data [default: DLOCK_DATA, or the one node, if there is one]
    #[arg(long, value_name = "URL")]
    data: Option<String>,

    /// The fence
    #[arg(long, value_name = "FENCE", env = "DLOCK_FENCE")]
    fence: String,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let fence = self.fence()?;
        match (&self.file, &self.mark) {
            (Some(path), _) => file::run(path, fence, self.command, global.json),
            (None, Some(mark)) => {
                // All users of this machine can read a program's arguments, and there may be a password.
                let data = self.data.or_else(|| env::var("DLOCK_DATA").ok());
                data::run(&self.command, data.as_deref(), mark, fence, global).await
            }
            (None, None) => Err(Failure::usage("name a MARK, or --file PATH")),
        }
    }

    /// Reads the fence; `dlock run` gives several for several locks, which is an error here.
    fn fence(&self) -> Result<u64, Failure> {
        let fence = self.fence.parse().ok().filter(|fence| (1..=MAX_FENCE).contains(fence));
        fence.ok_or_else(|| {
            let given = &self.fence;
            Failure::usage(format_args!(
                "DLOCK_FENCE, or --fence, must be one fence, not {given:?}"
            ))
        })
    }
}

const USAGE: &str = "dlock fenced [OPTIONS] MARK -- COMMAND [ARGUMENT]...
       dlock fenced [OPTIONS] --file PATH -- PROGRAM [ARGUMENT]...";

const HELP: &str = "\
Examples:
  dlock run job -c 'dlock fenced \"{account:7}:mark\" -- SET account:7 120'
  dlock run job -c 'dlock fenced --file balance.fence -- mv balance.new balance'

The server runs the command unless a later holder has been there, and raises the mark to the fence in
the same step. `dlock run` gives the fence in DLOCK_FENCE. Show it with reads as well as writes.
With --file, PROGRAM runs under a lock on the file. Let it be one `mv`: that is atomic.

Exit codes: 75 a later holder has been there, and nothing has happened; with --file, PROGRAM's own;
65 the server refuses the command; 77 it refuses this user; 69 no answer; 64 wrong usage.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct FencedLine {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Args, clap::Error> {
        FencedLine::try_parse_from(["fenced"].into_iter().chain(line.split(' ')))
            .map(|line| line.args)
    }

    #[test]
    fn a_mark_or_a_file_and_a_fence_are_needed() {
        assert!(parsed("--fence 7 -- GET a").is_err());
        assert!(parsed("--fence 7 mark --file path -- mv a b").is_err());
        assert!(parsed("--fence 7 --data x --file path -- mv a b").is_err());
        let args = parsed("--fence 7 mark -- SET a --fence").unwrap();
        assert_eq!(args.command, ["SET", "a", "--fence"]);
        assert_eq!(args.fence().unwrap(), 7);
        for fence in ["0", "7 8", "x", "9007199254740992"] {
            let args = Args { fence: fence.to_owned(), ..parsed("--fence 7 mark").unwrap() };
            assert_eq!(args.fence().unwrap_err().exit, Exit::USAGE, "{fence}");
        }
    }
}
