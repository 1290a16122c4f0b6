//! A blocking connection. Requests and answers are apart, so that a client can wait for a lock while
//! the test goes on: [`Client::send`] it, and [`Client::recv`] the grant later.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::stuck;
use crate::value::Value;
use crate::wait::{PATIENCE, uninterrupted};

/// One connection to one server.
pub struct Client {
    reader: BufReader<Stream>,
    /// The server's address.
    at: String,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { reader: BufReader::new(Stream::Tcp(stream)), at: format!("port {port}") })
    }

    /// Connects to a unix socket.
    pub fn connect_unix(path: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let at = path.display().to_string();
        Ok(Client { reader: BufReader::new(Stream::Unix(stream)), at })
    }

    /// Changes to RESP3.
    pub fn resp3(mut self) -> Client {
        let hello = self.run("HELLO 3");
        assert!(!hello.is_error(), "HELLO 3 was answered {hello:?}");
        self
    }

    /// Sends a request, given as words between spaces, and reads its answer.
    #[track_caller]
    pub fn run(&mut self, words: &str) -> Value {
        self.send(words);
        self.recv()
    }

    /// Sends a request of any bytes and reads its answer.
    #[track_caller]
    pub fn run_args<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.send_args(args);
        self.recv()
    }

    /// Leaves so many locks done that this user has room for this many more. A long name counts for many.
    #[track_caller]
    pub fn fill_done(&mut self, name: &str, room: usize) {
        let mut left = MAX_DONE - room;
        for length in (9..15).rev().map(|power| 1 << power) {
            while left > length / BYTES_PER_UNIT {
                let width = length - name.len() - left.to_string().len();
                self.leave_done(&format!("{name}{}", "x".repeat(width)), left);
                left -= length / BYTES_PER_UNIT + 1;
            }
        }
        (0..left).for_each(|n| self.leave_done(name, n));
    }

    #[track_caller]
    fn leave_done(&mut self, name: &str, n: usize) {
        assert!(self.run(&format!("DLOCK.ACQUIRE {name}{n} t 60000")).is_int());
        assert_eq!(self.run(&format!("DLOCK.RELEASE {name}{n} t DONE 600000")).int(), 1);
    }

    /// Sends a request, given as words between spaces, and does not wait for an answer.
    #[track_caller]
    pub fn send(&mut self, words: &str) {
        let args: Vec<&str> = words.split_whitespace().collect();
        self.send_args(&args);
    }

    /// Sends a request of any bytes and does not wait for an answer.
    #[track_caller]
    pub fn send_args<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.send_raw(&request(args));
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let sent = self.try_send_raw(bytes);
        sent.unwrap_or_else(|error| panic!("cannot send to {}: {error}", self.at));
    }

    /// Sends bytes as they are, or returns the connection's error.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads the next answer.
    #[track_caller]
    pub fn recv(&mut self) -> Value {
        self.try_recv().unwrap_or_else(|error| {
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                stuck::tell();
            }
            panic!("no answer from {}: {error}", self.at)
        })
    }

    /// Reads the next answer, or returns the connection's error.
    pub fn try_recv(&mut self) -> io::Result<Value> {
        Value::read(&mut self.reader)
    }

    /// Reads the next answer if it begins within this time.
    #[track_caller]
    pub fn recv_within(&mut self, limit: Duration) -> Option<Value> {
        let begun = self.begins_within(limit);
        begun.then(|| self.recv())
    }

    /// Reads the next answer if it begins within this time, or returns the connection's error.
    pub fn try_recv_within(&mut self, limit: Duration) -> io::Result<Option<Value>> {
        if self.try_begins_within(limit)? { self.try_recv().map(Some) } else { Ok(None) }
    }

    /// Reads this many bytes of answers, as they came.
    #[track_caller]
    pub fn recv_raw(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.reader.read_exact(&mut bytes);
        read.unwrap_or_else(|error| panic!("no answer from {}: {error}", self.at));
        bytes
    }

    /// True if an answer has arrived. It means something only after a later answer to another client.
    #[track_caller]
    pub fn has_answer(&mut self) -> bool {
        self.begins_within(Duration::from_millis(1))
    }

    /// True if the server has ended the connection, or does so soon.
    pub fn is_closed_by_server(&mut self) -> bool {
        match self.reader.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// The server's number for this connection.
    #[track_caller]
    pub fn id(&mut self) -> i64 {
        self.run("CLIENT ID").int()
    }

    /// Asserts that requests and answers are still in step.
    #[track_caller]
    pub fn assert_in_step(&mut self) {
        let words = "in step?";
        let echo = self.run_args(&["ECHO", words]);
        assert_eq!(echo, Value::Bulk(words.into()), "the answers are off");
    }

    /// Ends the connection at once.
    pub fn close(self) {
        let _ = match self.reader.get_ref() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    #[track_caller]
    fn begins_within(&mut self, limit: Duration) -> bool {
        let begun = self.try_begins_within(limit);
        begun.unwrap_or_else(|error| panic!("no answer from {}: {error}", self.at))
    }

    fn try_begins_within(&mut self, limit: Duration) -> io::Result<bool> {
        self.set_read_timeout(limit);
        let begun = uninterrupted(|| self.reader.fill_buf().map(|bytes| bytes.len()));
        self.set_read_timeout(PATIENCE);
        match begun {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn set_read_timeout(&mut self, limit: Duration) {
        let set = match self.reader.get_ref() {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(limit)),
        };
        set.expect("a time-out above zero can be set");
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}

/// A request as it is sent.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The most done locks of one user, and the bytes of a name that count for one more.
const MAX_DONE: usize = 100_000;
const BYTES_PER_UNIT: usize = 512;
