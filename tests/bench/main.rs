//! `make bench`: the module against what one would do without it, on the same server in the same
//! run, as ratios beside what they must reach; and the client library, beside the lock libraries
//! that people use today.
//!
//! In reading order:
//! - [`options`]: what the command line asks for;
//! - [`load`]: requests made beforehand, and a connection that sends them;
//! - [`clients`]: a client that sends many requests at once;
//! - [`measure`]: CPU time as the server accounts for it, and two sides in turns;
//! - [`cycle`]: a lock is taken and given back;
//! - [`crowd`] and [`handover`]: a lock goes round among many;
//! - [`memory`]: what locks and waiters take;
//! - [`growth`]: whether much of everything makes it slow;
//! - [`expiries`]: very many leases end at once;
//! - [`quorum`]: the client library over one node and over five;
//! - [`agent`]: the same through an agent;
//! - [`peers`]: other libraries, as programs; [`nodes`]: what they connect to, over [`links`];
//! - [`contention`], [`distance`] and [`uncontended`]: dlock beside them;
//! - [`report`]: the table.

mod agent;
mod clients;
mod contention;
mod crowd;
mod cycle;
mod distance;
mod expiries;
mod fail_overs;
mod growth;
mod handover;
mod links;
mod load;
mod measure;
mod memory;
mod nodes;
mod options;
mod peers;
mod quorum;
mod report;
mod uncontended;

use std::env;
use std::panic;
use std::process::ExitCode;

use harness::{Kind, Server, scratch};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use options::Options;
use report::Report;

fn main() -> ExitCode {
    allow_many_connections();
    let mut words = env::args().skip(1).peekable();
    if words.next_if(|word| word == peers::dlock::WORD).is_some() {
        peers::dlock::run(words);
    } else if words.next_if(|word| word == peers::bare_sockets::WORD).is_some() {
        peers::bare_sockets::run(words);
    }
    scratch::use_a_disk();
    if measure(&Options::read()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the benchmarks. True if everything could be measured.
fn measure(options: &Options) -> bool {
    let mut report = Report::default();
    for kind in Kind::ALL {
        let groups = options.groups_on(kind);
        if !groups.is_empty() {
            report.server(kind, &version(kind));
        }
        for group in groups {
            let rest = format!("the rest of {}", group.name);
            report.attempt(rest, |report| group.run(kind, options, report));
        }
    }
    report.end()
}

/// The server's version; of a server that does not start each row says so.
fn version(kind: Kind) -> String {
    panic::catch_unwind(|| version_of(kind)).unwrap_or_else(|_| "it does not start".to_owned())
}

fn version_of(kind: Kind) -> String {
    let server = Server::build(kind).without_module().start();
    let info = server.info("server");
    let field = if kind.is_valkey() { "valkey_version" } else { "redis_version" };
    info.get(field).cloned().unwrap_or_default()
}

/// Ten thousand clients are more than a shell allows a program, or the servers that it starts.
fn allow_many_connections() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit can be read");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("a soft limit can be raised");
}
