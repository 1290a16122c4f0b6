//! The client library over one node and over five.
//!
//! - [`uncontended`]: a lock that nobody else wants;
//! - [`contended`]: a lock that goes round among many, each with a client of its own.

mod contended;
mod uncontended;

use dlock_client::Client;
use harness::{Kind, Server};

use crate::options::Options;
use crate::report::Report;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let five: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    runtime.block_on(async {
        uncontended::run(kind, &five, options, report).await;
        contended::run(kind, &five[..1], options, report).await;
        contended::run(kind, &five, options, report).await;
    });
}

/// A client of its own, with connections of its own.
async fn client(servers: &[Server]) -> Client {
    let url = |server: &Server| format!("redis://127.0.0.1:{}", server.port());
    let urls: Vec<String> = servers.iter().map(url).collect();
    Client::connect(&urls.join(",")).await.expect("the nodes are there")
}
