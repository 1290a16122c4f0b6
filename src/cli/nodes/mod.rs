//! The nodes of the command line.
//!
//! [`ask`]: requests to nodes one by one. [`link`]: a server to poll. [`reply`]: strings of replies.

pub mod ask;
pub mod link;
pub mod reply;

use std::time::Duration;

use dlock_client::{Address, Client, ClientBuilder, Notice};
use dlock_core::quorum::node_timeout;
use nix::sys::signal::Signal;

use crate::global::Global;
use crate::hold::take::LockArgs;
use crate::say::failure::Failure;
use crate::say::stderr;
use crate::signals::Signals;

/// Connects to at least a majority.
pub async fn connect(global: &Global) -> Result<Client, Failure> {
    Ok(builder(global)?.connect().await?)
}

/// Connects before waiting for a lock, and waits through an outage of the nodes. `Err` is a signal that came
/// before.
pub async fn connect_to_wait(
    global: &Global,
    lock: &LockArgs,
    signals: &mut Signals,
    tell: impl Fn(&Notice) + Send + Sync + 'static,
) -> Result<Result<Client, Signal>, Failure> {
    let builder = builder(global)?.notify(tell);
    let waits = lock.patience().waits();
    let connected = tokio::select! {
        signal = signals.next_that_ends() => return Ok(Err(signal)),
        connected = builder.clone().connect() => connected,
    };
    match connected {
        Err(error) if waits && error.may_pass() => Ok(Ok(builder.connect_later()?)),
        connected => Ok(Ok(connected?)),
    }
}

/// Connects for a long-running program, which goes on through an outage of the nodes.
pub async fn connect_or_later(
    global: &Global,
    tell: impl Fn(&Notice) + Send + Sync + 'static,
) -> Result<Client, Failure> {
    let builder = builder(global)?.notify(tell);
    match builder.clone().connect().await {
        Err(error) if error.may_pass() => {
            stderr::warn("no_quorum", &error, global.json);
            Ok(builder.connect_later()?)
        }
        connected => Ok(connected?),
    }
}

fn builder(global: &Global) -> Result<ClientBuilder, Failure> {
    let client = Client::builder().nodes(urls(global)?);
    Ok(match global.node_timeout {
        Some(timeout) => client.node_timeout(timeout),
        None => client,
    })
}

/// Returns the addresses of the nodes. There is no default: each host would have locks of its own.
pub fn urls(global: &Global) -> Result<Vec<String>, Failure> {
    let list = global.nodes.as_deref().unwrap_or_default();
    match list.iter().all(|part| part.trim().is_empty()) {
        true => Err(Failure::usage(NO_NODES)),
        false => Ok(read(list)),
    }
}

/// Reads a list of nodes.
pub fn read(list: &[String]) -> Vec<String> {
    list.iter().flat_map(|part| Address::split(part)).map(str::to_owned).collect()
}

/// Time-out of a request that has no lease.
pub fn timeout(global: &Global) -> Duration {
    node_timeout(global.node_timeout, Duration::MAX)
}

const NO_NODES: &str = "no nodes are named: name them with --nodes or in DLOCK_NODES; \
                        `dlock dev` starts some to try";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nodes_may_be_of_several_kinds() {
        let list =
            ["a:1,b, redis+sentinel://s,t:2/main,/run/x".to_owned(), "c,unix:/run/y".to_owned()];
        let sentinel = "redis+sentinel://s,t:2/main,/run/x";
        assert_eq!(read(&list), ["a:1", "b", sentinel, "c", "unix:/run/y"]);
    }
}
