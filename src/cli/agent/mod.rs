//! `dlock agent`: the locks of a majority, for every language that speaks to Redis.
//!
//! In reading order:
//!
//! - [`listen`]: the sockets. [`peer`]: the process at the other end, and its rights. [`room`]: the connections that
//!   each user may have.
//! - [`connection`]: one connection; [`request`] and [`reply`]: its bytes; [`session`]: its state.
//! - [`commands`]: the table of commands; [`greeting`]: those that clients begin with; [`locking`]: those of
//!   dlock.
//! - [`table`]: all locks; [`lock`]: one caller's lock, from the first request to the last; [`tie`]: a
//!   connection and its EPHEMERAL locks.
//! - [`losses`]: lost locks, for subscribers; [`outage`]: no majority answers; [`refusal`]: errors in the words of a
//!   node. [`figures`]: for INFO, and for Prometheus.
//! - [`limits`]: every limit.
//!
//! The rule of tokens is in the library, in its module `caller`.

mod commands;
mod connection;
mod figures;
mod greeting;
mod limits;
mod listen;
mod lock;
mod locking;
mod losses;
mod outage;
mod peer;
mod refusal;
mod reply;
mod request;
mod room;
mod session;
mod table;
mod tie;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dlock_client::{Client, Notice, Token};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::gethostname;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::exporter::{self, Site};
use crate::global::Global;
use crate::nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{duration, notice, stderr, stdout};
use crate::signals::Signals;
use connection::{Connection, Stream};
use figures::{Figures, Metrics};
use limits::{ACCEPT_PAUSE, FAREWELL, TOKEN_LASTS};
use listen::{At, Listener};
use lock::Order;
use losses::Losses;
use peer::{Allow, Peer};
use room::Room;
use session::Session;
use table::{Table, Tokens};

/// Serve the locks of a majority of the nodes to programs in any language, over the Redis protocol
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Where to listen: unix:PATH, or tcp:127.0.0.1:PORT with --password-file; can be repeated
    ///
    /// Sockets that systemd passes on (LISTEN_FDS) are used in place of these.
    #[arg(long, value_name = "ADDR", default_value = "unix:/run/dlock/agent.sock", value_parser = listen::parse)]
    listen: Vec<At>,

    /// The file with the password for clients over TCP, in its first line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// A user, a group, or tcp, and the keys that it may lock; can be repeated [default: everybody, all keys]
    ///
    /// The user and the group are those of the process that connects. KEYS is a pattern as of KEYS in Redis:
    /// --allow uid=www-data 'keys=web:*'
    #[arg(long, num_args = 2, value_names = ["WHO", "keys=KEYS"])]
    allow: Vec<String>,

    /// Where to serve metrics to Prometheus, at /metrics; they name no lock
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,

    /// Time for which connections with EPHEMERAL locks are served after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    drain: Duration,
}

/// The state that all connections share.
struct Agent {
    client: Client,
    /// Name of this process, for those who take it for a node.
    id: String,
    host: String,
    since: Instant,
    allow: Allow,
    /// The digest of the password, if there is one.
    password: Option<[u8; 32]>,
    table: Table,
    /// Tokens that were released with FINAL.
    finals: Tokens,
    /// Tokens that have left a lock done.
    finished: Tokens,
    losses: Losses,
    stderr: stderr::Writer,
    draining: watch::Sender<bool>,
    room: Room,
    figures: Figures,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        // Hosts whose own Redis happens to have the module would each have locks of their own.
        if nodes::is_default(global) {
            return Err(Failure::usage(NO_NODES));
        }
        let mut signals = Signals::listen()?;
        let listeners = self.listeners()?;
        let metrics = self.listen_for_metrics().await?;
        let agent = Arc::new(self.agent(global).await?);
        if let Some(listener) = metrics {
            let site = Site { shown: Metrics(Arc::clone(&agent)), hosts: None };
            tokio::spawn(exporter::serve(listener, Arc::new(site), global.json));
        }
        let names: Vec<String> = listeners.iter().map(Listener::name).collect();
        match global.json {
            true => stdout::json(&json!({"listen": names}))?,
            false => stdout::line(format_args!("dlock agent listens at {}", names.join(", ")))?,
        }
        let serving: Vec<_> = listeners
            .into_iter()
            .map(|listener| tokio::spawn(serve(Arc::clone(&agent), listener, global.json)))
            .collect();
        signals.next_that_ends().await;
        for task in serving {
            task.abort();
            // Its listener removes its socket.
            let _ = task.await;
        }
        tokio::select! {
            () = agent.drained(self.drain) => {}
            // A second signal does not wait.
            _ = signals.next_that_ends() => {}
        }
        agent.leave().await;
        Ok(Exit::OK)
    }

    fn listeners(&self) -> Result<Vec<Listener>, Failure> {
        let inherited = listen::inherited().map_err(Failure::usage)?;
        let listeners = match inherited.is_empty() {
            false => inherited,
            true => {
                let opened = self.listen.iter().map(At::open);
                opened.collect::<Result<_, _>>().map_err(Failure::usage)?
            }
        };
        if self.password_file.is_none() && listeners.iter().any(Listener::needs_password) {
            return Err(Failure::usage(NO_PASSWORD));
        }
        Ok(listeners)
    }

    async fn listen_for_metrics(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(at) = self.metrics else { return Ok(None) };
        let listener = TcpListener::bind(at).await;
        listener
            .map(Some)
            .map_err(|error| Failure::usage(format_args!("cannot listen at {at}: {error}")))
    }

    async fn agent(&self, global: &Global) -> Result<Agent, Failure> {
        let allow = Allow::read(&self.allow).map_err(Failure::usage)?;
        let password = self.password_file.as_deref().map(password).transpose()?;
        let stderr = stderr::Writer::start();
        let (writer, as_json) = (stderr.clone(), global.json);
        let client = nodes::connect_or_later(global, move |news: &Notice| {
            writer.write(notice::text(news, as_json));
        });
        Ok(Agent {
            client: client.await?,
            id: Token::random().to_string(),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
            since: Instant::now(),
            allow,
            password,
            table: Table::default(),
            finals: Tokens::lasting(TOKEN_LASTS),
            finished: Tokens::lasting(TOKEN_LASTS),
            losses: Losses::default(),
            stderr,
            draining: watch::Sender::new(false),
            room: Room::of(open_more_files()),
            figures: Figures::default(),
        })
    }
}

impl Agent {
    /// Ends all connections, those with EPHEMERAL locks only after a while.
    async fn drained(&self, limit: Duration) {
        self.draining.send_replace(true);
        let all_gone = async {
            while self.room.len() > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = timeout(limit, all_gone).await;
    }

    /// Releases all of which no caller knows, and leaves the rest to its leases.
    async fn leave(&self) {
        self.table.send_all(|| Order::Leave);
        let all_gone = async {
            while self.table.len() > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(FAREWELL, all_gone).await;
        self.client.released(FAREWELL).await;
        self.stderr.flush();
    }
}

async fn serve(agent: Arc<Agent>, listener: Listener, as_json: bool) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => welcome(&agent, stream, peer),
            Err(error) => {
                // Too many open files, say: it may pass.
                let message = format!("cannot accept: {error}");
                agent.stderr.write(stderr::warning("accept", message, as_json));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn welcome(agent: &Arc<Agent>, stream: Stream, peer: Peer) {
    let id = agent.figures.accepted.fetch_add(1, Ordering::Relaxed) + 1;
    let mut session = Session::new(id, peer);
    if session.peer == Peer::Tcp {
        agent.room.add_stranger(id, &session.tie);
    } else if !session.log_in(agent) {
        tokio::spawn(connection::refuse(stream, TOO_MANY));
        return;
    }
    tokio::spawn(Connection { agent: Arc::clone(agent), stream, session }.serve());
}

fn password(file: &Path) -> Result<[u8; 32], Failure> {
    let text = fs::read(file).map_err(|error| {
        Failure::usage(format_args!("cannot read the password in {}: {error}", file.display()))
    })?;
    match text.split(|byte| b"\r\n".contains(byte)).next() {
        None | Some([]) => Err(Failure::usage(format_args!(
            "{}: the password in its first line is empty",
            file.display()
        ))),
        Some(password) => Ok(Sha256::digest(password).into()),
    }
}

/// Each connection is an open file, and the system's usual limit is for programs with few. Returns the number of files
/// that this process may have.
fn open_more_files() -> u64 {
    let limits = || getrlimit(Resource::RLIMIT_NOFILE);
    if let Ok((_, hard)) = limits() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    limits().map_or(u64::MAX, |(soft, _)| soft)
}

const TOO_MANY: &str = "ERR max number of clients reached";
const NO_NODES: &str = "no nodes are given: name them with --nodes or in DLOCK_NODES";
const NO_PASSWORD: &str = "everybody on this machine can connect to a port: give --password-file FILE, or listen \
                           at unix:PATH alone";

const NOTES: &str = "\
  $ dlock agent --listen unix:/run/dlock/agent.sock      # nodes from DLOCK_NODES
  $ redis-cli -s /run/dlock/agent.sock DLOCK.ACQUIRE job:42 worker-7 30000 WAIT 5000
  (integer) 1795238075371227

Clients of Redis in any language use it as one node, and a majority is behind. A lease ends after its ttl,
unless DLOCK.EXTEND extends it; with EPHEMERAL RENEW the agent renews it while the connection lives, and
releases it with the connection. SUBSCRIBE dlock:lost tells of locks that are lost.

The owner and the group of this process may connect to the unix socket. docs/agent.md has a program for
each language.";
