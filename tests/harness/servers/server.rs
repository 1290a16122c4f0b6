//! A server process: started on a free port in a temporary folder, ended with the test.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::builder::Builder;
use crate::client::Client;
use crate::kind::Kind;
use crate::stuck::{self, Tells};
use crate::value::Value;
use crate::wait::{PATIENCE, eventually};
use crate::{module_file, power, process, scratch, wall_clock};

/// A failed test shows this many lines of a log.
const LOG_LINES: usize = 60;

/// A test that waits for too long shows this many locks of a server.
const LOCKS: usize = 20;

/// A running server, or one that the test has stopped. Dropping it kills the process.
pub struct Server {
    builder: Builder,
    /// Its disk, if that forgets what was not synced. It goes before its folder.
    pub(crate) power: Option<power::Disk>,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
    /// The connection behind [`Server::run`].
    own_client: Mutex<Option<Client>>,
    _told: Arc<Tells>,
}

impl Server {
    /// Starts a server with the module and nothing special.
    #[track_caller]
    pub fn start(kind: Kind) -> Server {
        Server::build(kind).start()
    }

    /// A builder of a server.
    pub fn build(kind: Kind) -> Builder {
        Builder::new(kind)
    }

    pub(crate) fn new(builder: Builder, port: u16) -> Result<Server, String> {
        let folder = scratch::folder();
        let power = builder.forgets.then(|| power::Disk::mount(folder.path())).transpose();
        let power =
            power.map_err(|error| format!("a disk that forgets (as root, with FUSE): {error}"))?;
        let kind = builder.kind;
        let told = stuck::part(move || {
            told(kind, port).unwrap_or_else(|e| format!("{kind:?}, port {port}: {e}"))
        });
        let own_client = Mutex::new(None);
        let mut server =
            Server { builder, power, folder, port, child: None, own_client, _told: told };
        server.try_start_again()?;
        Ok(server)
    }

    /// The kind of the server.
    pub fn kind(&self) -> Kind {
        self.builder.kind
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    #[track_caller]
    pub fn process_id(&self) -> u32 {
        self.running().id()
    }

    /// Its working folder, which outlives a restart.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.port)
            .unwrap_or_else(|error| panic!("cannot connect to port {}: {error}", self.port))
    }

    /// A new connection that the server has accepted, and counts.
    #[track_caller]
    pub fn accepted(&self) -> Client {
        let mut client = self.client();
        assert_eq!(client.run("PING").text(), "PONG");
        client
    }

    /// Runs a command on a connection of the server's own, apart from the test's connections.
    #[track_caller]
    pub fn run(&self, words: &str) -> Value {
        let mut kept = self.own_client.lock().unwrap_or_else(|e| e.into_inner());
        kept.get_or_insert_with(|| self.client()).run(words)
    }

    /// Runs commands in one transaction: no lease ends between them, however slow the machine is.
    #[track_caller]
    pub fn at_once(&self, requests: &[&str]) -> Vec<Value> {
        let mut client = self.client();
        client.run("MULTI");
        for request in requests {
            assert_eq!(client.run(request).text(), "QUEUED", "{request}");
        }
        client.run("EXEC").items().to_vec()
    }

    /// The fields of a section of INFO.
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let text = self.run(&format!("INFO {section}")).text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// One number of a section of INFO.
    #[track_caller]
    pub fn info_number(&self, section: &str, field: &str) -> i64 {
        let fields = self.info(section);
        let value = fields.get(field).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no number {field} in INFO {section}: {fields:?}"))
    }

    /// Waits until this many clients are blocked.
    #[track_caller]
    pub fn until_blocked(&self, clients: i64) {
        eventually(&format!("{clients} blocked clients"), || {
            self.info_number("clients", "blocked_clients") == clients
        });
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Empties the log, so that it has only later lines.
    pub fn clear_log(&self) {
        fs::write(self.log_file(), "").expect("the folder can be written");
    }

    /// Adds a line to the configuration file, for the next start.
    pub fn add_config(&mut self, line: &str) {
        self.builder.config.push(line.to_owned());
    }

    /// Leaves the module out, from the next start on.
    pub fn leave_module_out(&mut self) {
        self.builder.module = None;
    }

    /// Loads the module of this tree, from the next start on.
    pub fn take_module_back(&mut self) {
        self.builder.module = Some(module_file::path().to_owned());
    }

    /// Sets the wall clock of the server to this many seconds from the real one.
    pub fn set_wall_clock(&self, seconds: i64) {
        assert!(self.builder.moves_wall_clock, "with_movable_wall_clock");
        wall_clock::set(&self.wall_clock_file(), seconds);
    }

    /// Asks it to end, and waits until it has.
    #[track_caller]
    pub fn stop(&mut self) {
        self.end(Signal::SIGTERM);
    }

    /// Kills it, as a crash would.
    #[track_caller]
    pub fn kill(&mut self) {
        self.end(Signal::SIGKILL);
    }

    /// Pauses it, as a suspended machine would. It does nothing more when this returns.
    #[track_caller]
    pub fn pause(&self) {
        process::signal(self.running(), Signal::SIGSTOP);
        eventually("the server is paused", || process::is_paused(self.running()));
    }

    /// True if there is a process, which may be paused.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Lets it go on.
    pub fn resume(&self) {
        process::signal(self.running(), Signal::SIGCONT);
    }

    /// Stops it and starts it again, on the same port and folder.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Starts it again after it was stopped or killed, on the same port and folder.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.try_start_again()
            .unwrap_or_else(|log| panic!("the server did not start again:\n{log}"));
    }

    /// Starts it again. If it ends at once, returns the exit status and the log.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "it runs already");
        let child = process::spawn(self.command()).expect("a server can be started");
        self.child = Some(child);
        self.wait_until_it_answers()
    }

    /// Starts it again and kills it after that, which may be in the middle of its start.
    #[track_caller]
    pub fn start_again_and_kill_after(&mut self, wait: impl FnOnce(&Server)) {
        assert!(self.child.is_none(), "it runs already");
        let child = process::spawn(self.command()).expect("a server can be started");
        self.child = Some(child);
        wait(self);
        self.kill();
    }

    /// Waits until the process has ended by itself. True if it ended with success.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> bool {
        self.drop_own_client();
        let mut child = self.child.take().expect("it runs");
        let mut status = None;
        eventually("the server ends", || {
            status = child.try_wait().expect("a child can be asked");
            status.is_some()
        });
        status.is_some_and(|status| status.success())
    }

    fn command(&self) -> Command {
        fs::write(self.config_file(), self.builder.config_text(self.folder(), self.port))
            .expect("the folder can be written");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .expect("the folder can be written");

        let executable = self.builder.kind.executable();
        let mut command = match self.builder.wrapper.split_first() {
            None => Command::new(executable),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(executable);
                command
            }
        };
        command
            .arg(self.config_file())
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log);
        if self.builder.moves_wall_clock {
            wall_clock::attach(&mut command, &self.wall_clock_file(), self.builder.faster);
        }
        command
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = self.child.as_mut().expect("it was just started");
            if let Some(status) = child.try_wait().expect("a child can be asked") {
                self.child = None;
                return Err(format!("{status}\n{}", self.log()));
            }
            if self.answers() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("no answer in {PATIENCE:?}\n{}", self.log()));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// True if this process answers at the port, and has loaded its data.
    fn answers(&self) -> bool {
        // The process may end at any moment: it listens before it loads the module.
        let ask = || -> io::Result<(Value, Value)> {
            let mut client = Client::connect(self.port)?;
            client.try_send_raw(b"INFO server\r\nPING\r\n")?;
            Ok((client.try_recv()?, client.try_recv()?))
        };
        let Ok((Value::Bulk(info), Value::Simple(pong))) = ask() else {
            return false;
        };
        let own = format!("process_id:{}\r\n", self.running().id());
        String::from_utf8_lossy(&info).contains(&own) && pong == "PONG"
    }

    #[track_caller]
    fn end(&mut self, signal: Signal) {
        process::signal(self.running(), signal);
        self.wait_for_end();
    }

    #[track_caller]
    fn running(&self) -> &Child {
        self.child.as_ref().expect("it runs")
    }

    /// Replaces the server's own connection, which a client has closed.
    pub fn drop_own_client(&self) {
        *self.own_client.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }

    fn config_file(&self) -> PathBuf {
        self.folder().join("server.conf")
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    fn wall_clock_file(&self) -> PathBuf {
        self.folder().join("wall-clock")
    }
}

impl Server {
    fn show_log_of_a_failed_test(&self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
            eprintln!("--- {:?}, port {}:", self.kind(), self.port);
            eprintln!("{}\n---", tail.join("\n"));
        }
    }
}

/// The server's reports about its locks and clients.
fn told(kind: Kind, port: u16) -> io::Result<String> {
    let mut client = Client::connect(port)?;
    let mut ask = |words: &str| -> io::Result<Value> {
        client.try_send_raw(format!("{words}\r\n").as_bytes())?;
        let answer = client.try_recv_within(Duration::from_secs(2))?;
        Ok(answer.unwrap_or_else(|| Value::Error("no answer".to_owned())))
    };
    let text = |value: Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let mut told = format!("{kind:?}, port {port}:\n");
    for words in ["INFO dlock", "CLIENT LIST"] {
        told.push_str(&text(ask(words)?));
    }
    if let Value::Array(found) = ask("SCAN 0 COUNT 1000")?
        && let [_, Value::Array(keys)] = found.as_slice()
    {
        for key in keys.iter().take(LOCKS) {
            let question = format!("DLOCK.INSPECT {}", text(key.clone()));
            told.push_str(&format!("{question}: {:?}\n", ask(&question)?));
        }
    }
    Ok(told)
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return self.show_log_of_a_failed_test();
        };
        let ended_by_itself = matches!(child.try_wait(), Ok(Some(_)));
        let _ = child.kill();
        let _ = child.wait();
        self.show_log_of_a_failed_test();
        if ended_by_itself && !thread::panicking() {
            panic!("the server ended by itself:\n{}", self.log());
        }
    }
}
