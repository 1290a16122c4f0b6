//! What the command line asks for.

use std::env;
use std::process;

use harness::Kind;

use crate::report::Report;
use crate::{cycle, growth, handover, memory, quorum, restart, storm};

/// Rows that are measured together.
pub struct Group {
    name: &'static str,
    run: fn(Kind, &Options, &mut Report),
}

/// The groups, by the names that `--only` takes, in the order in which they are measured.
const GROUPS: [Group; 7] = [
    Group { name: "cycle", run: cycle::run },
    Group { name: "handover", run: handover::run },
    Group { name: "memory", run: memory::run },
    Group { name: "growth", run: growth::run },
    Group { name: "storm", run: storm::run },
    Group { name: "restart", run: restart::run },
    Group { name: "quorum", run: quorum::run },
];

impl Group {
    /// Measures on one server.
    pub fn run(&self, kind: Kind, options: &Options, report: &mut Report) {
        (self.run)(kind, options, report);
    }
}

const USAGE: &str = "\
Measures the module against what one would do without it, on the same server in the same run,
and the client library.

Usage: bench [--server NAME,...] [--only GROUP,...] [--quick] [--json]

  --server  redis-7.0, redis-8.2, valkey-8.1, valkey-9.1 (all)
  --only    cycle, handover, memory, growth, storm, restart, quorum (all)
  --quick   fewer rounds: a minute or two instead of four, and more noise
  --json    an array of figures instead of tables";

/// What the command line asks for.
pub struct Options {
    /// On which servers.
    pub kinds: Vec<Kind>,
    /// Which groups.
    pub groups: Vec<&'static Group>,
    /// Fewer rounds.
    pub quick: bool,
    /// Figures for programs.
    pub json: bool,
}

impl Options {
    /// From the command line; a wrong one ends the program.
    pub fn read() -> Options {
        let mut options = Options {
            kinds: Kind::ALL.into(),
            groups: GROUPS.iter().collect(),
            quick: false,
            json: false,
        };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--server" => options.kinds = list(&arg, args.next(), Kind::ALL, Kind::name),
                "--only" => options.groups = list(&arg, args.next(), &GROUPS, |group| group.name),
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--help" | "-h" => {
                    println!("{USAGE}");
                    process::exit(0);
                }
                other => refuse(&format!("unknown option {other}")),
            }
        }
        options
    }

    /// So many rounds, or fewer if it has to be quick.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { usual.div_ceil(6).max(3) } else { usual }
    }
}

fn list<T: Copy>(
    option: &str,
    given: Option<String>,
    known: impl IntoIterator<Item = T> + Copy,
    name: impl Fn(T) -> &'static str,
) -> Vec<T> {
    let Some(given) = given else { refuse(&format!("{option} needs a list")) };
    let pick = |word: &str| {
        let found = known.into_iter().find(|one| name(*one) == word);
        found.unwrap_or_else(|| refuse(&format!("{option}: unknown name {word}")))
    };
    given.split(',').map(pick).collect()
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}\n\n{USAGE}");
    process::exit(64);
}
