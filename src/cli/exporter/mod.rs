//! `dlock exporter`: metrics of the nodes for Prometheus, and a page for people.
//!
//! [`shared_look`]: one look at the nodes a second, whoever asks. [`answer`]: which request gets what.
//! [`metrics`]: for Prometheus. [`state`]: for the page. [`hosts`]: the Host headers that it accepts.
//! Nothing here changes anything at the nodes.

mod answer;
mod hosts;
pub mod metrics;
mod shared_look;
mod state;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use crate::global::Global;
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{stderr, stdout};
use crate::signals::Signals;
use crate::watch::Watch;
pub use answer::{Shown, Site};
use hosts::Hosts;
use shared_look::SharedLook;

/// Serve metrics of the nodes to Prometheus, and a page for people
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Where to listen. Beyond this machine only /metrics and /healthz are served
    #[arg(long, default_value = "127.0.0.1:9763", value_name = "ADDR:PORT")]
    listen: SocketAddr,

    /// Number of hot keys to show, those that hurt most; 0: none
    #[arg(long, default_value_t = 20, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=128))]
    hot: u8,

    /// Show what holders say of themselves (META) on the page
    #[arg(long)]
    meta: bool,

    /// A name by which this server is called, besides localhost and addresses; can be repeated
    ///
    /// A request for any other name is refused: it may come from a page of somebody else, whose name leads
    /// to this address.
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
        let shown = OfNodes { shared_look, shows_meta: self.meta };
        let site = Arc::new(Site { shown, hosts: Some(hosts) });
        let url = format!("http://{at}");
        match global.json {
            true => stdout::json(&json!({"url": url}))?,
            false => stdout::line(format_args!("dlock exporter listens at {url}"))?,
        }
        tokio::select! {
            () = serve(listener, site, global.json) => Ok(Exit::OK),
            _ = signals.next_that_ends() => Ok(Exit::OK),
        }
    }
}

/// The metrics of the nodes, and the page.
struct OfNodes {
    shared_look: SharedLook,
    shows_meta: bool,
}

impl Shown for OfNodes {
    async fn metrics(&self) -> String {
        metrics::text(self.shared_look.look().await)
    }

    async fn state(&self) -> Option<String> {
        let look = self.shared_look.look().await;
        Some(state::of(&look, self.shows_meta).to_string())
    }
}

/// Answers requests to a site. Warnings go to stderr.
pub async fn serve<S: Shown>(listener: TcpListener, site: Arc<Site<S>>, as_json: bool) {
    let (open, places) = (Arc::new(Semaphore::new(OPEN)), Arc::new(Semaphore::new(PLACES)));
    loop {
        let Ok(connection) = Arc::clone(&open).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (site, places) = (Arc::clone(&site), Arc::clone(&places));
                tokio::spawn(async move {
                    let _ = timeout(LONGEST, serve_one(stream, &site, &places)).await;
                    drop(connection);
                });
            }
            Err(error) => {
                // Too many open files, say: it may pass.
                stderr::warn("accept", format_args!("cannot accept: {error}"), as_json);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// One request, and its answer: a connection that stays would keep its place from others. A request has a place from
/// when it has arrived whole until its answer is written.
async fn serve_one<S: Shown>(stream: TcpStream, site: &Site<S>, places: &Semaphore) {
    let place = OnceCell::new();
    let service = service_fn(async |request: Request<Incoming>| {
        if !answer::is_health(&request) {
            place.get_or_init(|| places.acquire()).await;
        }
        Ok::<_, Infallible>(site.answer(&request).await)
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS).keep_alive(false);
    // A client that breaks off is not told.
    let _ = server.max_buf_size(16 * 1024).serve_connection(TokioIo::new(stream), service).await;
}

/// Limit of open connections. Further ones wait in the kernel.
const OPEN: usize = 512;
/// Limit of requests that are answered at once. Further ones wait.
const PLACES: usize = 64;
/// Time-out for the arrival of a request.
const HEADERS: Duration = Duration::from_secs(5);
/// Limit of a connection's length.
const LONGEST: Duration = Duration::from_secs(20);

const NOTES: &str = "\
/metrics   for Prometheus, in the OpenMetrics format for who accepts it, else in Prometheus' text format
/          a page for people: nodes, hot locks, quarantine. On this machine only
/healthz   whether this program runs

The nodes are looked at when somebody asks, and at most once a second. A node that is away is a
metric (dlock_up 0), and not an error. The user of the nodes needs no more than
  ACL SETUSER watch on >PASSWORD resetkeys %R~* -@all +info +dlock.hot +dlock.inspect
and sees no tokens.";
