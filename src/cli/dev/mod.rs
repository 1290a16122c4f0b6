//! `dlock dev`: local servers with the module, to try it out.
//!
//! [`find`] looks for the module and the server's program, [`server`] starts one and makes sure
//! that it ends, [`tour`] says what to type, and [`demo`] shows it working.

mod demo;
mod find;
mod server;
mod tour;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::args::Global;
use crate::exit::Exit;
use crate::output::{self, complain};
use crate::signals::Signals;
use server::{Ended, Home, Plan, Server};

/// Start local servers with the module, to try it out
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// How many
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

    /// Show a lock at work first
    #[arg(long, conflicts_with = "json")]
    demo: bool,
}

pub async fn main(args: Args, global: &Global) -> Exit {
    // From here on a signal is not the end, but the beginning of it.
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(failure) => return failure.report(global.json),
    };
    let plan = find::module(args.module.as_deref())
        .and_then(|module| Ok(Plan { module, program: find::server(args.server.as_deref())? }));
    match plan {
        Ok(plan) => run(&args, plan, signals, global.json).await,
        Err(error) => {
            complain(error);
            Exit::USAGE
        }
    }
}

async fn run(args: &Args, plan: Plan, mut signals: Signals, as_json: bool) -> Exit {
    let home = match Home::make() {
        Ok(home) => home,
        Err(error) => {
            complain(error);
            return Exit::INTERNAL;
        }
    };
    let (report, reports) = channel();
    let mut nodes = Nodes { servers: Vec::new(), home, reports };
    let exit = tokio::select! {
        started = nodes.start(args.number, args.port, &plan, report) => match started {
            Ok(()) => Exit::OK,
            Err(error) => {
                complain(error);
                Exit::INTERNAL
            }
        },
        signal = signals.next_that_ends() => Exit::by(signal),
    };
    if exit != Exit::OK {
        nodes.end().await;
        return exit;
    }
    let urls = nodes.urls();
    let tour = tour::text(&urls, &plan.program);
    let stay = async {
        if args.demo && demo::show(&urls).await.is_err() {
            return Exit::INTERNAL;
        }
        // Whether anybody reads it or not, they are there.
        let _ = if as_json {
            output::json(&serde_json::json!({ "nodes": urls }))
        } else {
            io::stdout().write_all(tour.as_bytes())
        };
        nodes.watch().await
    };
    let exit = tokio::select! {
        exit = stay => exit,
        _ = signals.next_that_ends() => Exit::OK,
    };
    nodes.end().await;
    exit
}

/// The servers that run, and who reports it when one has ended.
struct Nodes {
    servers: Vec<Server>,
    home: Home,
    reports: Receiver<Ended>,
}

impl Nodes {
    async fn start(
        &mut self,
        number: u16,
        first: Option<u16>,
        plan: &Plan,
        report: Sender<Ended>,
    ) -> Result<(), String> {
        let mut port = first.unwrap_or(FIRST_PORT);
        while self.servers.len() < usize::from(number) {
            match Server::start(plan, &self.home, port, report.clone()).await {
                Ok(server) => self.servers.push(server),
                Err(server::Failed::PortTaken) if first.is_none() => {}
                Err(server::Failed::PortTaken) => {
                    return Err(format!("port {port} is taken: choose another with --port"));
                }
                Err(server::Failed::Other(error)) => return Err(error),
            }
            port = port.checked_add(1).ok_or("there are not so many free ports")?;
        }
        Ok(())
    }

    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    /// Says it when a server has ended, and returns when none is left.
    async fn watch(&mut self) -> Exit {
        loop {
            while let Ok(ended) = self.reports.try_recv() {
                self.servers.retain(|server| server.port != ended.port);
                complain(&ended);
                self.home.remove(ended.port);
                if self.servers.is_empty() {
                    complain("no node is left");
                    return Exit::INTERNAL;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends all servers, and waits until they have.
    async fn end(self) {
        let Nodes { servers, home, reports } = self;
        // Each of them ends when nobody holds the other end of its pipe.
        drop(servers);
        let last = spawn_blocking(move || while reports.recv_timeout(PATIENCE).is_ok() {});
        // A failure would be a panic in there.
        let _ = last.await;
        home.remove_all();
    }
}

/// Where nobody else is likely to be.
const FIRST_PORT: u16 = 7701;

/// How often it is looked whether a server has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

const NOTES: &str = "\
They keep what they have in a temporary folder, and end with this command, also when it is killed.";
