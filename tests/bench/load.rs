//! The load: requests made beforehand. While the server is measured, they are only sent, and answers counted.

use std::io::{Read, Write};
use std::net::TcpStream;

use harness::Server;
use harness::wait::PATIENCE;

/// Lease lengths and expiries, where a row asks for nothing else.
pub const TTL: &str = "30000";

/// This many batches are under way: few enough for the sockets' buffers.
const BATCHES_AT_HAND: usize = 4;

/// Deletes a lock of the usual recipe if the token is its value.
pub const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then \
     return redis.call('del',KEYS[1]) else return 0 end";

/// The name of a lock, 20 bytes long.
pub fn key(number: u64) -> String {
    format!("bench:lock:{number:09}")
}

/// A pseudo-random sequence of numbers, the same in every run.
pub struct Random(u64);

impl Random {
    /// Another sequence for another seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// A token, 32 bytes long.
    pub fn token(&mut self) -> String {
        format!("{:016x}{:016x}", self.number(), self.number())
    }
}

/// A connection that sends prepared requests and counts the answers.
pub struct Pipe {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Pipe {
    /// A new connection.
    pub fn new(server: &Server) -> Pipe {
        Pipe::to(server.port())
    }

    /// Connects to this port of this machine.
    pub fn to(port: u16) -> Pipe {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes options");
        Pipe { stream, buffer: vec![0; 64 << 10] }
    }

    /// Sends requests, few enough for the sockets' buffers.
    pub fn send(&mut self, requests: &[u8]) {
        self.stream.write_all(requests).expect("the server reads");
    }

    /// Reads this many lines of answers. An error or a null among them ends the benchmark, for it would
    /// measure something else.
    pub fn receive(&mut self, lines: usize) {
        let mut tally = Tally::default();
        while tally.lines < lines {
            self.read(&mut tally);
        }
        assert_eq!(tally.lines, lines, "more answers than requests");
    }

    /// Sends batches of requests, each with this many lines of answers, and reads them all. The server always
    /// has requests: it never sleeps, and is never woken up.
    pub fn keep_busy<'a>(&mut self, batches: impl Iterator<Item = &'a [u8]>, lines: usize) {
        let (mut sent, mut tally) = (0, Tally::default());
        for batch in batches {
            while sent - tally.lines >= BATCHES_AT_HAND * lines {
                self.read(&mut tally);
            }
            self.send(batch);
            sent += lines;
        }
        while tally.lines < sent {
            self.read(&mut tally);
        }
    }

    /// Sends requests and reads as many lines of answers.
    pub fn exchange(&mut self, requests: &[u8], lines: usize) {
        self.send(requests);
        self.receive(lines);
    }

    fn read(&mut self, tally: &mut Tally) {
        let length = self.stream.read(&mut self.buffer).expect("the server answers");
        assert!(length > 0, "the server closed the connection");
        tally.add(&self.buffer[..length]);
    }

    /// Lets another thread read and write.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// Counts lines of answers as they come in.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of complete lines.
    pub lines: usize,
    /// The last bytes that came in ended inside a line.
    inside: bool,
}

impl Tally {
    /// More bytes have come in.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let refused = rest[0] == b'-' || rest.starts_with(b"$-1") || rest.starts_with(b"*-1");
            if !self.inside && refused {
                panic!("a request was refused: {}", rest.escape_ascii());
            }
            match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.lines += 1;
                    self.inside = false;
                    rest = &rest[end + 1..];
                }
                None => {
                    self.inside = true;
                    return;
                }
            }
        }
    }
}
