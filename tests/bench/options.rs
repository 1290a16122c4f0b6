//! The options of the command line.

use std::env;
use std::process;

use harness::Kind;

use crate::report::Report;
use crate::{
    agent, contention, cycle, distance, expiries, fail_overs, growth, handover, memory, quorum,
    uncontended,
};

/// Rows that are measured together.
pub struct Group {
    /// Its name for `--only`.
    pub name: &'static str,
    /// Its servers, unless the command line names others.
    usual: &'static [Kind],
    run: fn(Kind, &Options, &mut Report),
}

/// The groups in the order of measurement.
const GROUPS: [Group; 11] = [
    Group::of_module("cycle", cycle::run),
    Group::of_module("handover", handover::run),
    Group::of_module("memory", memory::run),
    Group::of_module("growth", growth::run),
    Group::of_module("expiries", expiries::run),
    Group::of_library("quorum", quorum::run),
    Group::of_library("fail-overs", fail_overs::run),
    Group::of_library("contention", contention::run),
    Group::of_library("distance", distance::run),
    Group::of_library("uncontended", uncontended::run),
    Group::of_library("agent", agent::run),
];

impl Group {
    const fn of_module(name: &'static str, run: fn(Kind, &Options, &mut Report)) -> Group {
        Group { name, usual: &Kind::ALL, run }
    }

    /// A group of a client's figures: they hardly depend on the server.
    const fn of_library(name: &'static str, run: fn(Kind, &Options, &mut Report)) -> Group {
        Group { name, usual: &[Kind::Redis82], run }
    }

    /// Measures on one server.
    pub fn run(&self, kind: Kind, options: &Options, report: &mut Report) {
        (self.run)(kind, options, report);
    }
}

const USAGE: &str = "\
Measures the module against what one would do without it, on the same server in the same run,
and the client library beside others.

Usage: bench [--server NAME,...] [--only GROUP,...] [--quick]

  --server  redis-7.0, redis-8.2, redis-8.6, valkey-8.1, valkey-9.1
            (all for what the module does, redis-8.2 for the last six groups)
  --only    cycle, handover, memory, growth, expiries, quorum,
            fail-overs, contention, distance, uncontended, agent (all)
  --quick   fewer rounds: ten minutes instead of thirty, and more noise";

/// The options of the command line.
pub struct Options {
    /// The servers, if they were named.
    kinds: Option<Vec<Kind>>,
    /// The groups to run.
    pub groups: Vec<&'static Group>,
    /// Fewer rounds.
    pub quick: bool,
}

impl Options {
    /// Reads the command line; a wrong one ends the program.
    pub fn read() -> Options {
        let mut options = Options { kinds: None, groups: GROUPS.iter().collect(), quick: false };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--server" => options.kinds = Some(list(&arg, args.next(), Kind::ALL, Kind::name)),
                "--only" => options.groups = list(&arg, args.next(), &GROUPS, |group| group.name),
                "--quick" => options.quick = true,
                "--help" | "-h" => {
                    println!("{USAGE}");
                    process::exit(0);
                }
                other => refuse(&format!("unknown option {other}")),
            }
        }
        options
    }

    /// The groups that run on this server.
    pub fn groups_on(&self, kind: Kind) -> Vec<&'static Group> {
        let runs = |group: &&&Group| self.kinds.as_deref().unwrap_or(group.usual).contains(&kind);
        self.groups.iter().filter(runs).copied().collect()
    }

    /// Returns this many rounds, or fewer if it has to be quick.
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
