//! A Sentinel that watches a primary, and promotes a replica when the primary does not answer.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client::Client;
use crate::scratch;
use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;
use crate::{ports, process};

/// What it calls the primary.
const NAME: &str = "watched";

/// A running Sentinel. Dropping it kills the process.
pub struct Sentinel {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Sentinel {
    /// Starts one beside a primary and its replicas, and waits until it knows them all. It decides
    /// alone, a second after the primary's last answer.
    #[track_caller]
    pub fn start(primary: &Server, replicas: usize) -> Sentinel {
        let folder = scratch::folder(false);
        let port = ports::free();
        let config = folder.path().join("sentinel.conf");
        fs::write(&config, config_text(port, primary)).expect("the folder can be written");
        let log = File::create(log_file(&folder)).expect("the folder can be written");
        let mut command = Command::new(primary.kind().executable());
        command
            .arg(config)
            .arg("--sentinel")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log);
        let child = process::spawn(command).expect("a Sentinel can be started");
        let sentinel = Sentinel { child, port, folder };
        eventually("Sentinel knows the primary and its replicas", || {
            sentinel.knows(replicas).unwrap_or(false)
        });
        sentinel
    }

    /// The port of the server that it takes for the primary.
    #[track_caller]
    pub fn primary(&self) -> u16 {
        let mut client = Client::connect(self.port).expect("Sentinel listens");
        let address = client.run(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
        address.items()[1].text().parse().expect("a port")
    }

    fn knows(&self, replicas: usize) -> Option<bool> {
        let mut client = Client::connect(self.port).ok()?;
        let state = client.run(&format!("SENTINEL MASTER {NAME}"));
        let followers = client.run(&format!("SENTINEL REPLICAS {NAME}"));
        let is_up = |replica: &Value| {
            let state = replica.map();
            state["flags"].text() == "slave" && state["master-link-status"].text() == "ok"
        };
        let up = followers.items().iter().filter(|replica| is_up(replica)).count();
        Some(state.at("flags").text() == "master" && up == replicas)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(log_file(&self.folder)).unwrap_or_default();
            eprintln!("--- Sentinel, port {}:\n{log}---", self.port);
        }
    }
}

fn config_text(port: u16, primary: &Server) -> String {
    [
        "bind 127.0.0.1".to_owned(),
        format!("port {port}"),
        format!("sentinel monitor {NAME} 127.0.0.1 {} 1", primary.port()),
        format!("sentinel down-after-milliseconds {NAME} 1000"),
        format!("sentinel failover-timeout {NAME} 10000"),
    ]
    .join("\n")
        + "\n"
}

fn log_file(folder: &TempDir) -> PathBuf {
    folder.path().join("sentinel.log")
}
