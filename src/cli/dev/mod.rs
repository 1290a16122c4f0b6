//! `dlock dev`: local servers with the module, to try it out.
//!
//! [`find`] looks for the module and the server's program, [`server`] starts one and makes sure
//! that it ends, and [`tour`] has commands to type.

mod find;
mod server;
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
use server::{Ended, Plan, Server, ServersFolder};

/// Start local servers with the module, to try it out
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Number of nodes
    #[arg(short, long, default_value_t = 3, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=99))]
    number: u16,

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
}

impl Args {
    /// Starts the servers, and ends them when a signal comes.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        // From here on a signal ends the servers in order.
        let mut signals = Signals::listen()?;
        let module = find::module(self.module.as_deref()).map_err(Failure::usage)?;
        let program = find::server(self.server.as_deref()).map_err(Failure::usage)?;
        let plan = Plan { module, program };
        let folder = ServersFolder::make().map_err(|error| Failure::internal(&error))?;
        let (report, reports) = channel();
        let mut nodes = LocalNodes { servers: Vec::new(), folder, reports };
        let started = tokio::select! {
            started = nodes.start(&self, &plan, report) => {
                started.map(|()| None).map_err(|error| Failure::internal(&error))
            }
            signal = signals.next_that_ends() => Ok(Some(Exit::Signal(signal))),
        };
        let end = match started {
            Ok(None) => {
                nodes.show(&plan, global.json);
                tokio::select! {
                    failure = nodes.watch(global.json) => Err(failure),
                    _ = signals.next_that_ends() => Ok(Exit::OK),
                }
            }
            Ok(Some(exit)) => Ok(exit),
            Err(failure) => Err(failure),
        };
        nodes.end().await;
        end
    }
}

/// The servers that run, and the reports of those that have ended.
struct LocalNodes {
    servers: Vec<Server>,
    folder: ServersFolder,
    reports: Receiver<Ended>,
}

impl LocalNodes {
    async fn start(
        &mut self,
        args: &Args,
        plan: &Plan,
        report: Sender<Ended>,
    ) -> Result<(), String> {
        let mut ports = args.port.unwrap_or(FIRST_PORT)..=u16::MAX;
        while self.servers.len() < usize::from(args.number) {
            let port = ports.next().ok_or("there are not so many free ports")?;
            match Server::start(plan, &self.folder, port, report.clone()).await {
                Ok(server) => self.servers.push(server),
                Err(server::Failed::PortTaken) if args.port.is_none() => {}
                Err(server::Failed::PortTaken) => {
                    return Err(format!("port {port} is taken: choose another with --port"));
                }
                Err(server::Failed::Other(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Prints the addresses. The nodes stay even if the reader has gone.
    fn show(&self, plan: &Plan, as_json: bool) {
        let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
        let _ = match as_json {
            true => stdout::json(&json!({ "nodes": urls })),
            false => stdout::print(tour::text(&urls, &self.servers, &plan.program)),
        };
    }

    /// Reports each server that has ended, and returns when none is left.
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

    /// Ends all servers, and waits for their ends.
    async fn end(self) {
        let LocalNodes { servers, folder, reports, .. } = self;
        // Each ends when the other end of its pipe is closed.
        drop(servers);
        let last = spawn_blocking(move || while reports.recv_timeout(PATIENCE).is_ok() {});
        // A failure would be a panic in there.
        let _ = last.await;
        folder.remove_all();
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
