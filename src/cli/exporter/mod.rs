//! `dlock exporter`: metrics of the nodes for Prometheus, and a page for people.
//!
//! [`shared_look`]: one look at the nodes a second, for all requests together. [`metrics`]: for Prometheus.
//! [`state`]: for the page. All of it only reads from the nodes.

mod metrics;
mod shared_look;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use crate::global::Global;
use crate::http::{self, Content, Hosts, Site};
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;
use crate::signals::Signals;
use crate::watch::Watch;
use shared_look::SharedLook;

/// Serve metrics of the nodes to Prometheus, and a page for people
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Where to listen. Beyond this machine only /metrics and /healthz are served
    #[arg(long, default_value = "127.0.0.1:9763", value_name = "ADDR:PORT")]
    listen: SocketAddr,

    /// Number of the most contended keys to show; 0: none
    #[arg(long, default_value_t = 20, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=128))]
    hot: u8,

    /// Show the holders' texts about themselves (META) on the page
    #[arg(long)]
    meta: bool,

    /// A name of this server, besides localhost and addresses; can be repeated
    ///
    /// Requests for other names are refused: a page of another site can point its own name to this address.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let nodes = Nodes::of(global)?;
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            Failure::usage(format_args!("cannot listen at {}: {error}", self.listen))
        })?;
        let at = listener.local_addr().map_err(|error| Failure::internal(&error))?;
        let shared_look = SharedLook::new(Watch::new(nodes, usize::from(self.hot)));
        let hosts = Hosts::new(self.hosts, at.ip().is_loopback());
        let content = OfNodes { shared_look, shows_meta: self.meta };
        let site = Arc::new(Site { content, hosts: Some(hosts) });
        let url = format!("http://{at}");
        match global.json {
            true => stdout::json(&json!({"url": url}))?,
            false => stdout::line(format_args!("dlock exporter listens at {url}"))?,
        }
        tokio::select! {
            () = http::serve(listener, site, global.json) => Ok(Exit::OK),
            _ = signals.next_that_ends() => Ok(Exit::OK),
        }
    }
}

/// The metrics of the nodes, and the page.
struct OfNodes {
    shared_look: SharedLook,
    shows_meta: bool,
}

impl Content for OfNodes {
    async fn metrics(&self) -> String {
        metrics::text(self.shared_look.look().await)
    }

    async fn state(&self) -> Option<String> {
        let look = self.shared_look.look().await;
        Some(state::of(&look, self.shows_meta).to_string())
    }
}

const NOTES: &str = "\
/metrics   for Prometheus, in its text format
/          a page for people: nodes, hot locks, quarantine. On this machine only
/healthz   whether this program runs

Each request looks at the nodes, and at most one a second. A node that is away is a
metric (dlock_up 0), and not an error. The user of the nodes needs no more than
  ACL SETUSER watch on >PASSWORD resetkeys %R~* -@all +info +dlock.hot +dlock.inspect
and sees no tokens.";
