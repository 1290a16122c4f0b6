//! One local server, which ends with this program, even if this program is killed.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::operator::Fields;
use redis::{AsyncConnectionConfig, Client, Value, cmd};

use crate::signals;

/// A server to start.
pub struct Plan {
    pub module: PathBuf,
    pub program: PathBuf,
}

/// The folder of all servers.
pub struct ServersFolder(PathBuf);

impl ServersFolder {
    /// A new one, in the folder for temporary files.
    pub fn make() -> Result<ServersFolder, String> {
        let mut name = format!("dlock-dev-{}", process::id());
        loop {
            let path = std::env::temp_dir().join(&name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(ServersFolder(path)),
                // Process 1 of a container that was killed and started again has left one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => name.push('+'),
                Err(error) => {
                    return Err(format!("cannot make the folder {}: {error}", path.display()));
                }
            }
        }
    }

    fn of(&self, port: u16) -> PathBuf {
        self.0.join(port.to_string())
    }

    /// Removes the folder of a server that has ended.
    pub fn remove(&self, port: u16) {
        // The watching shell may have removed it already.
        let _ = fs::remove_dir_all(self.of(port));
    }

    /// Removes everything.
    pub fn remove_all(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server. Dropping it ends it.
pub struct Server {
    pub port: u16,
    /// The watching shell reads the other end, which only ever closes.
    _pipe: ChildStdin,
}

/// Causes of a failed start.
pub enum Failed {
    PortTaken,
    Other(String),
}

impl Server {
    /// Starts one, and waits until it serves.
    pub async fn start(
        plan: &Plan,
        folders: &ServersFolder,
        port: u16,
        report: Sender<Ended>,
    ) -> Result<Server, Failed> {
        if is_taken(port) {
            return Err(Failed::PortTaken);
        }
        let folder = folders.of(port);
        let other = |error: std::io::Error| {
            Failed::Other(format!("cannot start {}: {error}", plan.program.display()))
        };
        fs::create_dir_all(&folder).map_err(other)?;
        let mut child = guarded(plan, &folder, port).spawn().map_err(other)?;
        let pipe = child.stdin.take().ok_or(Failed::PortTaken)?;
        let server = Server { port, _pipe: pipe };
        let deadline = Instant::now() + PATIENCE;
        while !server.serves(&folder).await {
            let has_ended = child.try_wait().map_err(other)?.is_some();
            if has_ended || Instant::now() > deadline {
                let log = tail(&folder);
                folders.remove(port);
                // Another process took the port first, or only checked whether it is free.
                if has_ended && (is_taken(port) || log.contains(IN_USE)) {
                    return Err(Failed::PortTaken);
                }
                let program = plan.program.display();
                return Err(Failed::Other(format!("{program} does not start:\n{log}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
        report_end(child, port, folder, report);
        Ok(server)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns true if this server answers at the port, recognised by its folder. Then it gets the setting that
    /// `dlock doctor` wants: it was 0 for the start.
    async fn serves(&self, folder: &Path) -> bool {
        let ask = async {
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
            let client = Client::open(self.url())?;
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            let node: Value = cmd("DLOCK.NODE").query_async(&mut connection).await?;
            let file = Fields::of(&node).and_then(|fields| fields.text("state-file"));
            let file = file.unwrap_or_default();
            if !Path::new(&file).starts_with(folder.canonicalize()?) {
                return Ok(false);
            }
            let mut set = cmd("CONFIG");
            set.arg("SET").arg("dlock.newborn-quarantine").arg(MAX_TTL_MS);
            let _: Value = set.query_async(&mut connection).await?;
            Ok::<_, redis::RedisError>(true)
        };
        ask.await.unwrap_or(false)
    }
}

fn is_taken(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_err()
}

/// The server under a watching shell, which ends it when the pipe to this program breaks. So the server ends
/// even when this program is killed.
fn guarded(plan: &Plan, folder: &Path, port: u16) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARD, "dlock-dev"])
        .arg(folder)
        .arg(&plan.program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes"])
        .args(["--dir".as_ref(), folder.as_os_str(), "--loadmodule".as_ref(), plan.module.as_ref()])
        // A new node: it has no leases to lose.
        .args(["--dlock.newborn-quarantine", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is for this program, which then ends the servers in order.
        .process_group(0);
    command
}

/// `$1` is the server's folder, the rest is the server. One process waits for the end of the pipe,
/// the other for the end of the server; the first to return tells the other.
const GUARD: &str = r#"
folder=$1; shift
exec 3<&0 </dev/null
"$@" >"$folder/server.log" 2>&1 3<&- &
server=$!
{ read -r nothing <&3; trap '' TERM; kill -KILL "$server"; exit 0; } &
watch=$!
exec 3<&-
wait "$server"; status=$?
kill "$watch" 2>/dev/null
if wait "$watch"; then
    rm -rf "$folder"
    rmdir "${folder%/*}" 2>/dev/null
fi
exit "$status"
"#;

fn report_end(mut child: Child, port: u16, folder: PathBuf, report: Sender<Ended>) {
    thread::spawn(move || {
        signals::hold_off();
        if let Ok(status) = child.wait() {
            // The receiver is gone when this program ends.
            let _ = report.send(Ended { port, status, log: tail(&folder) });
        }
    });
}

/// A server that has ended.
pub struct Ended {
    pub port: u16,
    status: ExitStatus,
    log: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ended { port, status, log } = self;
        write!(f, "the node on port {port} has ended ({status}); the end of its log:\n{log}")
    }
}

/// The end of its log.
fn tail(folder: &Path) -> String {
    let log = fs::read(folder.join("server.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

const LINES: usize = 15;

/// The servers' error when another process has the port.
const IN_USE: &str = "Address already in use";

/// Limit of the time for a server's start.
const PATIENCE: Duration = Duration::from_secs(15);
/// The default of `dlock.max-ttl`: no lease is longer.
const MAX_TTL_MS: u32 = 600_000;

const PAUSE: Duration = Duration::from_millis(10);
