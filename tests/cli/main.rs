//! The program, end to end, against real servers. The files are named after its subcommands.

mod acquire;
mod agent;
mod agent_done;
mod agent_faults;
mod agent_greeting;
mod agent_handover;
mod agent_rights;
mod break_;
mod dev;
mod doctor;
mod errors;
mod exporter;
mod extend;
mod fail_over;
mod fenced;
mod inspect;
mod jobs;
mod keys;
mod ls;
mod paper;
mod ready;
mod release;
mod run;
mod run_done;
mod run_lost;
mod run_processes;
mod run_signals;
mod run_terminal;
mod secrets;
mod tables;
mod tls;
mod top;

use std::ffi::OsStr;

use harness::program::{self, Said};
use harness::{Agent, Kind, Server, on_two_servers, running};

/// A lease that is renewed in time on a busy machine.
const LEASE: &str = "9s";

/// Several independent servers.
fn servers(kind: Kind, number: usize) -> Vec<Server> {
    let mut servers: Vec<Server> = (0..number).map(|_| Server::start(kind)).collect();
    // In the order of clients: the first one is the gate.
    servers.sort_by_key(address);
    servers
}

/// A server, and an agent of it.
fn agent(kind: Kind) -> (Vec<Server>, Agent) {
    let servers = servers(kind, 1);
    let agent = Agent::start(&addresses(&servers));
    (servers, agent)
}

/// The addresses of servers.
fn addresses(servers: &[Server]) -> Vec<String> {
    servers.iter().map(address).collect()
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Runs the program with these servers as its nodes.
#[track_caller]
fn dlock<A: AsRef<OsStr>>(servers: &[Server], arguments: &[A]) -> Said {
    dlock_at(&addresses(servers), arguments)
}

/// Runs the program with these addresses as its nodes, and with a long time-out unless the arguments name one.
#[track_caller]
fn dlock_at<A: AsRef<OsStr>>(nodes: &[String], arguments: &[A]) -> Said {
    let mut command = program::command(nodes);
    let is_timeout = |argument: &A| argument.as_ref() == "--node-timeout";
    if !nodes.is_empty() && !arguments.iter().any(is_timeout) {
        command.args(["--node-timeout", program::PATIENT]);
    }
    program::run(command.args(arguments))
}

/// Takes a lock on some servers, by hand: with the same token everywhere.
#[track_caller]
fn take(servers: &[Server], key: &[u8], token: &str, options: &str) {
    for server in servers {
        let mut words = vec!["DLOCK.ACQUIRE".as_bytes(), key, token.as_bytes(), b"600000"];
        words.extend(options.split_whitespace().map(str::as_bytes));
        let answer = server.client().run_args(&words);
        assert!(answer.is_int(), "{answer:?}");
    }
}
