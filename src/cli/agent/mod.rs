//! `dlock agent`: the locks of a majority, for every language that speaks to Redis.
//!
//! In reading order:
//!
//! - [`shared`]: the state that all connections share. [`flag`]: a flag to wait for. [`limits`]: every limit.
//! - [`listen`]: the sockets. [`peer`]: the process at the other end, and its rights. [`room`]: each user's share of the room.
//! - [`connection`]: one connection; [`request`] and [`reply`]: its bytes; [`session`]: its state.
//! - [`dispatch`]: from a request to its answer, by the table of commands; [`greeting`]: the beginning of a connection;
//!   [`locking`]: the commands of dlock.
//! - [`lock`]: all locks; [`name`]: their names; [`lease`]: their lengths; [`tie`]: a connection and its EPHEMERAL
//!   locks; [`handover`]: locks for the next process.
//! - [`losses`]: lost locks, for subscribers; [`refusal`]: errors in the words of a node. [`figures`]: for INFO, and for
//!   Prometheus.

mod connection;
mod dispatch;
mod figures;
mod flag;
mod greeting;
mod handover;
mod lease;
mod limits;
mod listen;
mod lock;
mod locking;
mod losses;
mod name;
mod peer;
mod refusal;
mod reply;
mod request;
mod room;
mod session;
mod shared;
mod tie;

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, fs};

use dlock_client::Notice;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::global::Global;
use crate::http;
use crate::nodes::{self, ask::Nodes};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{notice, stderr, stdout};
use crate::signals::Signals;
use connection::{Connection, Stream};
use figures::Metrics;
use greeting::TOO_MANY;
use handover::Instance;
use limits::{ACCEPT_PAUSE, FAREWELL};
use listen::{At, Listener};
use peer::{Allow, Peer};
use session::Session;
use shared::Agent;

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

    /// A user, a group, or tcp, and the keys that it may lock; can be repeated [default: every client, all keys]
    ///
    /// The connecting process has the user and the group. KEYS is a pattern as in the Redis command KEYS:
    /// --allow uid=www-data 'keys=web:*'
    #[arg(long, num_args = 2, value_names = ["WHO", "keys=KEYS"])]
    allow: Vec<String>,

    /// Where to serve metrics to Prometheus, at /metrics; they name no lock
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// A running agent, and the means to end it.
struct Running {
    agent: Arc<Agent>,
    listeners: Vec<Listener>,
    /// The files for the next process, or the reason why there are none.
    instance: io::Result<Instance>,
    stderr: stderr::Writer,
    as_json: bool,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let mut running = tokio::select! {
            running = self.start(global) => running?,
            _ = signals.next_that_ends() => return Ok(Exit::OK),
        };
        let names: Vec<String> = running.listeners.iter().map(Listener::name).collect();
        match global.json {
            true => stdout::json(&json!({"listen": names}))?,
            false => stdout::line(format_args!("dlock agent listens at {}", names.join(", ")))?,
        }
        // After the line: an agent that cannot print it ends, and must leave the table to the next one.
        running.take_over();
        let listeners = std::mem::take(&mut running.listeners);
        let serving: Vec<_> =
            listeners.into_iter().map(|listener| tokio::spawn(running.serve(listener))).collect();
        signals.next_that_ends().await;
        for task in serving {
            task.abort();
            // New clients are refused from here on.
            let _ = task.await;
        }
        running.leave().await;
        Ok(Exit::OK)
    }

    async fn start(&self, global: &Global) -> Result<Running, Failure> {
        // Before the socket and the instance file: a wrong address leaves no trace.
        Nodes::of(global)?;
        let allow = Allow::read(&self.allow).map_err(Failure::usage)?;
        let password = self.password_file.as_deref().map(password).transpose()?;
        let mut listeners = listen::inherited().map_err(Failure::usage)?;
        let instance = self.instance(&listeners)?;
        if listeners.is_empty() {
            for at in &self.listen {
                listeners.push(at.open().await.map_err(Failure::usage)?);
            }
        }
        if password.is_none() && listeners.iter().any(Listener::needs_password) {
            return Err(Failure::usage(NO_PASSWORD));
        }
        let metrics = self.listen_for_metrics().await?;
        let stderr = stderr::Writer::start();
        let (writer, as_json) = (stderr.clone(), global.json);
        let client = nodes::connect_or_later(global, move |news: &Notice| {
            writer.write(notice::text(news, as_json));
        });
        let agent = Agent::new(client.await?, allow, password, open_more_files());
        if let Some(listener) = metrics {
            let figures = Arc::clone(&agent.common.figures);
            let metrics = move || ready(http::encoded(Metrics(Arc::clone(&figures))));
            tokio::spawn(http::serve(listener, metrics, as_json));
        }
        Ok(Running { agent, listeners, instance, stderr, as_json })
    }

    /// The instance file: beside the first unix socket, or in the folder that systemd made.
    fn instance(&self, inherited: &[Listener]) -> Result<io::Result<Instance>, Failure> {
        let own = self.listen.iter().filter(|_| inherited.is_empty()).find_map(|at| match at {
            At::Unix(path) => Some(path.clone()),
            At::Tcp(_) => None,
        });
        let socket = inherited.iter().find_map(Listener::path).or(own);
        // Of several folders, the first.
        let folders = env::var_os("RUNTIME_DIRECTORY").unwrap_or_default();
        let folder = env::split_paths(&folders).find(|folder| !folder.as_os_str().is_empty());
        let Some(path) = folder.map(|folder| folder.join("agent")).or(socket) else {
            return Ok(Err(io::Error::other("there is no unix socket beside which to put it")));
        };
        match Instance::take(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::usage(
                format_args!("another agent has locked {}.instance: end it first", path.display()),
            )),
            instance => Ok(instance),
        }
    }

    async fn listen_for_metrics(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(at) = self.metrics else { return Ok(None) };
        let listener = TcpListener::bind(at).await;
        listener
            .map(Some)
            .map_err(|error| Failure::usage(format_args!("cannot listen at {at}: {error}")))
    }
}

impl Running {
    /// Takes over the locks that an earlier process has handed over.
    fn take_over(&self) {
        match self.instance.as_ref().map(Instance::read) {
            Ok(Ok(handed)) => self.agent.locks.take_over(handed),
            Ok(Err(why)) => self.warn("handover", format!("no lock is taken over: {why}")),
            Err(why) => self.warn(
                "handover",
                format!("a restart will lose the locks that are held: no instance file: {why}"),
            ),
        }
    }

    fn warn(&self, what: &'static str, message: String) {
        self.stderr.write(stderr::warning(what, message, self.as_json));
    }

    /// Accepts connections.
    fn serve(&self, listener: Listener) -> impl Future<Output = ()> + Send + use<> {
        let (agent, stderr, as_json) = (Arc::clone(&self.agent), self.stderr.clone(), self.as_json);
        async move {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => welcome(&agent, stream, peer),
                    Err(error) => {
                        // Too many open files, for example: the cause may pass.
                        let message = format!("cannot accept a connection: {error}");
                        stderr.write(stderr::warning("accept", message, as_json));
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }

    /// Resolves when the condition holds, or at the limit.
    async fn gone(&self, is_gone: impl Fn(&Agent) -> bool) {
        let all = async {
            while !is_gone(&self.agent) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(FAREWELL, all).await;
    }

    /// Ends all connections, and with them the requests that wait. EPHEMERAL locks last until their leases end. Hands
    /// plain leases over, last of all.
    async fn leave(self) {
        self.agent.ending.set();
        self.gone(|agent| agent.connections.len() == 0).await;
        self.agent.locks.close();
        self.gone(|agent| agent.locks.len() == 0 && agent.connections.len() == 0).await;
        self.agent.common.client.released(FAREWELL).await;
        if let Ok(instance) = &self.instance
            && let Err(error) = instance.write(&self.agent.locks.handed_over())
        {
            self.warn("handover", format!("the locks that are held are lost: {error}"));
        }
        self.stderr.flush();
    }
}

fn welcome(agent: &Arc<Agent>, stream: Stream, peer: Peer) {
    let id = agent.common.figures.accepted.fetch_add(1, Ordering::Relaxed) + 1;
    let mut session = Session::new(id, peer);
    if session.peer == Peer::Tcp {
        agent.connections.add_stranger(id, &session.tie);
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

/// Raises the limit of open files: each connection is one, and the system's usual limit is low. Returns the number of
/// files that this process may have.
fn open_more_files() -> u64 {
    let limits = || getrlimit(Resource::RLIMIT_NOFILE);
    if let Ok((_, hard)) = limits() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    limits().map_or(u64::MAX, |(soft, _)| soft)
}

const NO_PASSWORD: &str = "a port is open to all users of this machine: give --password-file FILE, or listen \
                           at unix:PATH alone";

const NOTES: &str = "\
Example:
  $ dlock agent --listen unix:/run/dlock/agent.sock      # nodes from DLOCK_NODES
  $ redis-cli -s /run/dlock/agent.sock DLOCK.ACQUIRE job:42 worker-7 30000 WAIT 5000
  (integer) 1795238075371227

Clients of Redis in any language use it as one node, and a majority is behind. A lease ends after \
its ttl, unless DLOCK.EXTEND extends it; with EPHEMERAL RENEW the agent renews it while the \
connection lives, and releases it with the connection. SUBSCRIBE dlock:lost tells of locks that are \
lost.

The owner and the group of this process may connect to the unix socket. docs/agent.md has a program \
for each language.";
