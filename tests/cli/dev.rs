//! `dlock dev`: local servers that end with it, however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use harness::{Client, Kind, apply, eventually, module_file, on_one_server, process, program};
use nix::sys::signal::Signal;

use crate::dlock_at;

/// A running `dlock dev --json`, with the ports of its nodes and their processes.
struct Dev {
    child: Child,
    ports: Vec<u16>,
    servers: Vec<i64>,
}

impl Dev {
    #[track_caller]
    fn start(kind: Kind, number: usize) -> Dev {
        let mut command = command(kind);
        command.args(["--json", "-n", &number.to_string()]).stdout(Stdio::piped());
        // As in a shell: a terminal's signals go to the whole group.
        command.process_group(0);
        let mut child = process::spawn(command).expect("the program can be started");
        let stdout = child.stdout.take().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it prints text");
        let said: serde_json::Value = serde_json::from_str(&line).expect("it prints JSON");
        let port = |url: &serde_json::Value| url.as_str()?.rsplit(':').next()?.parse().ok();
        let ports = said["nodes"].as_array().expect("an array").iter().map(port);
        let ports: Vec<u16> = ports.collect::<Option<_>>().expect("each has a port");
        let servers = ports.iter().map(|port| process_of(*port)).collect();
        Dev { child, ports, servers }
    }

    fn folder(&self) -> PathBuf {
        std::env::temp_dir().join(format!("dlock-dev-{}", self.child.id()))
    }

    fn nodes(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// Waits until no server, no guard process and no folder of it is left.
    #[track_caller]
    fn assert_leaves_nothing(&self) {
        for server in &self.servers {
            eventually("the servers end", || !runs(*server));
        }
        let folder = self.folder();
        eventually("the guards end", || !is_named_by_a_process(&folder.to_string_lossy()));
        eventually("the folder is removed", || !folder.exists());
    }
}

fn command(kind: Kind) -> Command {
    let mut command = program::command(&[]);
    command.arg("dev").arg("--module").arg(module_file::path());
    command.arg("--server").arg(kind.executable());
    command
}

fn process_of(port: u16) -> i64 {
    let info = Client::connect(port).expect("it is ready").run("INFO server").text();
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    line.expect("INFO knows the process").trim().parse().expect("a number")
}

/// True if the process runs: a process that has ended without being waited for has no command line.
fn runs(process: i64) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn is_named_by_a_process(word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    processes
        .map(|entry| entry.path().join("cmdline"))
        .any(|path| fs::read(path).is_ok_and(|line| String::from_utf8_lossy(&line).contains(word)))
}

#[apply(on_one_server)]
fn three_nodes_work_and_end_with_it(kind: Kind) {
    let mut dev = Dev::start(kind, 3);
    let said = dlock_at(&dev.nodes(), &["doctor"]).with_code(0);
    assert_eq!(said.out, "3 nodes, everything checked is in order\n");
    for port in &dev.ports {
        let mut client = Client::connect(*port).expect("it is ready");
        assert!(client.run("DLOCK.ACQUIRE job alice 60000").is_int());
    }
    dlock_at(&dev.nodes(), &["inspect", "job"]).with_code(0);
    process::signal(&dev.child, Signal::SIGTERM);
    assert_eq!(dev.child.wait().expect("it ends").code(), Some(0));
    assert!(dev.servers.iter().all(|server| !runs(*server)), "they end before it does");
    dev.assert_leaves_nothing();
}

#[apply(on_one_server)]
fn they_end_too_when_it_is_killed(kind: Kind) {
    let mut dev = Dev::start(kind, 2);
    process::signal(&dev.child, Signal::SIGKILL);
    dev.child.wait().expect("it ends");
    dev.assert_leaves_nothing();
}

#[test]
fn two_of_them_get_along_and_a_node_that_ends_is_reported() {
    let mut one = Dev::start(Kind::Redis82, 2);
    let mut command = command(Kind::Redis82);
    command.args(["--port", &one.ports[0].to_string()]);
    let said = program::run(&mut command).with_code(70);
    assert!(said.err.contains(&format!("port {} is taken", one.ports[0])), "{said:?}");

    let mut two = Dev::start(Kind::Valkey81, 1);
    assert!(!one.ports.contains(&two.ports[0]));
    let mut client = Client::connect(two.ports[0]).expect("it is ready");
    client.send("SHUTDOWN NOSAVE");
    assert_eq!(two.child.wait().expect("it ends").code(), Some(70), "no node is left");
    two.assert_leaves_nothing();

    let _ =
        Client::connect(one.ports[1]).expect("it is ready").try_send_raw(b"SHUTDOWN NOSAVE\r\n");
    eventually("the folder of the one that ended is removed", || {
        !one.folder().join(one.ports[1].to_string()).exists()
    });
    assert!(runs(one.servers[0]), "the other goes on");
    process::signal(&one.child, Signal::SIGINT);
    assert_eq!(one.child.wait().expect("it ends").code(), Some(0));
    one.assert_leaves_nothing();
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let module = module_file::path().to_str().unwrap();
    let said = dlock_at(&[], &["dev", "--module", "/nowhere/libdlock.so"]).with_code(64);
    assert!(said.err.contains("/nowhere/libdlock.so") && said.err.contains("--module"), "{said:?}");
    let said = dlock_at(&[], &["dev", "--module", module, "--server", "/nowhere"]).with_code(64);
    assert!(said.err.contains("no server found at /nowhere"), "{said:?}");
    let said = dlock_at(&[], &["dev", "--module", module, "--server", "/bin/true"]).with_code(70);
    assert!(said.err.contains("/bin/true does not start"), "{said:?}");
    let program = program::path().to_str().unwrap();
    let server = Kind::Redis82.executable();
    let server = server.to_str().unwrap();
    let said = dlock_at(&[], &["dev", "--module", program, "--server", server]).with_code(70);
    assert!(said.err.contains("Module") && said.err.contains("failed to load"), "{said:?}");
    for arguments in [&["dev", "-n", "0"][..], &["dev", "-n", "100"], &["dev", "--port", "0"]] {
        dlock_at(&[], arguments).with_code(64);
    }
}
