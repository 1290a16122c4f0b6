//! `dlock dev`: local servers with the module, to try it out.
//!
//! [`find`] looks for the module and the server's program, [`server`] starts one and makes sure
//! that it ends, [`role`] is what it is to be, [`shape`] makes one node of several, [`tour`] says
//! what to type, and [`demo`] shows it working.

mod demo;
mod find;
mod role;
mod server;
mod shape;
mod tour;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{stderr, stdout};
use crate::signals::Signals;
use role::Role;
use server::{Ended, Plan, Server, ServersFolder};

/// Start local servers with the module, to try it out
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Number of nodes
    #[arg(short, long, default_value_t = 3, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=99))]
    number: u16,

    /// One node that fails over: a primary, two replicas and three Sentinels
    #[arg(long, conflicts_with_all = ["number", "cluster"])]
    sentinel: bool,

    /// One node that fails over: a Redis Cluster of three primaries with a replica each
    #[arg(long, conflicts_with = "number")]
    cluster: bool,

    /// The port of the first one [default: from 7701 on, those that are free]
    #[arg(short, long)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// The module [default: libdlock.so beside this program, or where distributions put it]
    #[arg(long, value_name = "PATH", env = "DLOCK_MODULE", hide_env_values = true)]
    module: Option<PathBuf>,

    /// The server's program [default: redis-server or valkey-server]
    #[arg(long, value_name = "PATH", env = "DLOCK_SERVER", hide_env_values = true)]
    server: Option<PathBuf>,

    /// Show a lock at work first
    #[arg(long, conflicts_with = "json")]
    demo: bool,
}

impl Args {
    /// Starts them, and ends them when it is told to end.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        // From here on a signal is not the end, but the beginning of it.
        let mut signals = Signals::listen()?;
        let module = find::module(self.module.as_deref()).map_err(Failure::usage)?;
        let program = find::server(self.server.as_deref()).map_err(Failure::usage)?;
        let plan = Plan { module, program };
        let folder = ServersFolder::make().map_err(|error| Failure::internal(&error))?;
        let (report, reports) = channel();
        let next = self.port.unwrap_or(FIRST_PORT);
        let mut nodes = LocalNodes { servers: Vec::new(), folder, reports, next, urls: Vec::new() };
        let started = tokio::select! {
            started = nodes.start(&self, &plan, report) => {
                started.map(|()| None).map_err(|error| Failure::internal(&error))
            }
            signal = signals.next_that_ends() => Ok(Some(Exit::Signal(signal))),
        };
        let end = match started {
            Ok(None) => tokio::select! {
                end = self.stay(&mut nodes, &plan, global.json) => end,
                _ = signals.next_that_ends() => Ok(Exit::OK),
            },
            Ok(Some(exit)) => Ok(exit),
            Err(failure) => Err(failure),
        };
        nodes.end().await;
        end
    }

    /// Says where they are, and stays until none is left.
    async fn stay(&self, nodes: &mut LocalNodes, plan: &Plan, as_json: bool) -> Result<Exit, Failure> {
        let urls = &nodes.urls;
        if self.demo {
            demo::show(urls).await?;
        }
        // The nodes are there whether anybody reads this or not.
        let _ = match as_json {
            true => stdout::json(&json!({ "nodes": urls })),
            false => stdout::print(tour::text(urls, nodes.first_port(), &plan.program)),
        };
        Err(nodes.watch(as_json).await)
    }
}

/// The servers that run, and who reports it when one has ended.
struct LocalNodes {
    servers: Vec<Server>,
    folder: ServersFolder,
    reports: Receiver<Ended>,
    /// The port of the next one.
    next: u16,
    /// URLs of the nodes, for clients.
    urls: Vec<String>,
}

impl LocalNodes {
    async fn start(
        &mut self,
        args: &Args,
        plan: &Plan,
        report: Sender<Ended>,
    ) -> Result<(), String> {
        let mut starting = Starting { nodes: self, plan, report, is_fixed: args.port.is_some() };
        let urls = match (args.sentinel, args.cluster) {
            (true, _) => vec![shape::sentinel(&mut starting).await?],
            (_, true) => vec![shape::cluster(&mut starting).await?],
            _ => {
                for _ in 0..args.number {
                    starting.server(&Role::Node).await?;
                }
                self.servers.iter().map(Server::url).collect()
            }
        };
        self.urls = urls;
        Ok(())
    }

    fn first_port(&self) -> u16 {
        self.servers.first().map_or(FIRST_PORT, |server| server.port)
    }

    /// Says it when a server has ended, and returns when none is left.
    async fn watch(&mut self, as_json: bool) -> Failure {
        loop {
            while let Ok(ended) = self.reports.try_recv() {
                self.servers.retain(|server| server.port != ended.port);
                stderr::warn("node_ended", &ended, as_json);
                self.folder.remove(ended.port);
                if self.servers.is_empty() {
                    return Failure::internal(&"no node is left");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends all servers, and waits until they have.
    async fn end(self) {
        let LocalNodes { servers, folder, reports, .. } = self;
        // Each of them ends when nobody holds the other end of its pipe.
        drop(servers);
        let last = spawn_blocking(move || while reports.recv_timeout(PATIENCE).is_ok() {});
        // A failure would be a panic in there.
        let _ = last.await;
        folder.remove_all();
    }
}

/// Servers, started one after the other.
struct Starting<'a> {
    nodes: &'a mut LocalNodes,
    plan: &'a Plan,
    report: Sender<Ended>,
    /// The user has chosen the ports.
    is_fixed: bool,
}

impl Starting<'_> {
    /// Starts one at the next port that is free. Its port.
    async fn server(&mut self, role: &Role) -> Result<u16, String> {
        loop {
            let port = self.nodes.next;
            self.nodes.next = port.checked_add(1).ok_or("there are not so many free ports")?;
            let report = self.report.clone();
            match Server::start(self.plan, &self.nodes.folder, port, role, report).await {
                Ok(server) => {
                    self.nodes.servers.push(server);
                    return Ok(port);
                }
                Err(server::Failed::PortTaken) if !self.is_fixed => {}
                Err(server::Failed::PortTaken) => {
                    let bus = role.bus(port).map(|bus| format!(", or {bus} beside it,"));
                    let bus = bus.unwrap_or_default();
                    return Err(format!("port {port}{bus} is taken: choose another with --port"));
                }
                Err(server::Failed::Other(error)) => return Err(error),
            }
        }
    }
}

/// A port that other programs rarely use.
const FIRST_PORT: u16 = 7701;

/// Interval of checks for servers that have ended.
const LOOK: Duration = Duration::from_millis(100);

/// Limit of the time for a server's end.
const PATIENCE: Duration = Duration::from_secs(5);

const NOTES: &str = "\
The nodes keep their data in a temporary folder, and end with this command, even if it is killed.";
