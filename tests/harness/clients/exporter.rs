//! `dlock exporter`, and its responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{process, program};

/// The program, and its address.
pub struct Exporter {
    child: Child,
    /// Host and port.
    pub at: String,
}

/// An HTTP response of the exporter.
#[derive(Debug)]
pub struct Answer {
    /// 0: it has closed the connection.
    pub status: u16,
    /// The headers, in small letters.
    pub head: String,
    /// The body, after the headers.
    pub body: String,
}

impl Exporter {
    /// Starts it with these nodes at a free port, unless the arguments say `--listen`.
    #[track_caller]
    pub fn start(nodes: &[String], arguments: &[&str]) -> Exporter {
        let mut command = program::command(nodes);
        command.args(["--node-timeout", program::PATIENT, "exporter", "--json"]).args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        Exporter::of(command)
    }

    #[track_caller]
    fn of(mut command: Command) -> Exporter {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = process::spawn(command).expect("it can be started");
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is a pipe"));
        out.read_line(&mut said).expect("it prints text");
        let said: Value = serde_json::from_str(&said).expect("it says where it is");
        let url = said["url"].as_str().expect("it says where it is");
        let at = url.split_once("://").expect("it is a URL").1.to_owned();
        Exporter { child, at }
    }

    /// Requests a path.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.at))
    }

    /// Sends a request as it is.
    #[track_caller]
    pub fn send(&self, request: &str) -> Answer {
        Answer::to(request, self.connect())
    }

    /// A connection.
    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        let port = self.at.rsplit(':').next().expect("it has a port");
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
        stream
    }

    /// The lines of `/metrics`.
    #[track_caller]
    pub fn metrics(&self) -> Vec<String> {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.body.lines().map(str::to_owned).collect()
    }

    /// The value of the only series with this beginning of name and labels.
    #[track_caller]
    pub fn metric(&self, begin: &str) -> Option<f64> {
        let lines = self.metrics();
        let mut found = lines.iter().filter(|line| line.starts_with(begin));
        let line = found.next()?;
        assert!(found.next().is_none(), "{begin} is not the only one");
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Asks it to end, and returns its exit code.
    #[track_caller]
    pub fn end(mut self) -> Option<i32> {
        process::signal(&self.child, Signal::SIGTERM);
        self.child.wait().expect("it is ours").code()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// The reply to a request for a path, from any server of metrics.
    #[track_caller]
    pub fn of(at: &str, path: &str) -> Answer {
        let connection = TcpStream::connect(at).expect("it listens");
        Answer::to(&format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n"), connection)
    }

    /// The answer to a request, over a connection of any kind.
    #[track_caller]
    pub fn to(request: &str, mut connection: impl Read + Write) -> Answer {
        let mut bytes = Vec::new();
        // The exporter may close the connection of a malformed request.
        let _ = connection.write_all(request.as_bytes());
        let _ = connection.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("it is UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}
