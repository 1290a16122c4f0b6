//! `dlock exporter`: metrics of the nodes for Prometheus.
//!
//! [`shared_look`]: one look at the nodes a second, for all requests together. [`metrics`]: the figures of a look.
//! All of it only reads from the nodes.

mod metrics;
mod shared_look;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use crate::global::Global;
use crate::http;
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;
use crate::signals::Signals;
use crate::watch::Watch;
use shared_look::SharedLook;

/// Serve metrics of the nodes to Prometheus
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:9763", value_name = "ADDR:PORT")]
    listen: SocketAddr,

    /// Number of the most contended keys to show; 0: none
    #[arg(long, default_value_t = 20, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=128))]
    hot: u8,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let nodes = Nodes::of(global)?;
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            Failure::usage(format_args!("cannot listen at {}: {error}", self.listen))
        })?;
        let at = listener.local_addr().map_err(|error| Failure::internal(&error))?;
        let shared_look = Arc::new(SharedLook::new(Watch::new(nodes, usize::from(self.hot))));
        let metrics = move || {
            let shared_look = Arc::clone(&shared_look);
            async move { metrics::text(shared_look.look().await) }
        };
        let url = format!("http://{at}");
        match global.json {
            true => stdout::json(&json!({"url": url}))?,
            false => stdout::line(format_args!("dlock exporter listens at {url}"))?,
        }
        tokio::select! {
            () = http::serve(listener, metrics, global.json) => Ok(Exit::OK),
            _ = signals.next_that_ends() => Ok(Exit::OK),
        }
    }
}

const NOTES: &str = "\
/metrics   for Prometheus, in its text format; it names the nodes and the most contended keys
/healthz   whether this program runs

Each request looks at the nodes, and at most one a second. A node that is away is a
metric (dlock_up 0), and not an error. The user of the nodes needs no more than
  ACL SETUSER watch on >PASSWORD resetkeys %R~* -@all +info +dlock.hot +dlock.inspect
and sees no tokens.";
