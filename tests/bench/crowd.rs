//! Many clients that pass one thing round: each waits for it, has it, gives it on, and waits again. One
//! thread does it for all of them, the same for both sides of a comparison, so that the server is nearly all
//! that is measured.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::Server;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::load::{Pipe, Random, TTL, Tally, key, request};

/// The requests that the clients send.
pub struct Words {
    /// Waits for the thing; one request for each client.
    pub takes: Vec<Vec<u8>>,
    /// Gives it on; one request for each client.
    pub gives: Vec<Vec<u8>>,
    /// The lines of the answer to the first.
    pub lines: usize,
    /// The client that asks first. A lap goes on where the one before was cut off; otherwise the first
    /// clients would have the thing once more in each lap.
    first: usize,
}

impl Words {
    /// The requests of clients that pass locks round: the first client is at the first of them, the
    /// second at the second, and so on, until it is the first lock's turn again.
    pub fn locks(size: usize, locks: usize) -> Words {
        let mut random = Random::new(3);
        let words = (0..size).map(|client| {
            let (key, token) = (key((client % locks) as u64), random.token());
            let take = request(&["DLOCK.ACQUIRE", &key, &token, TTL, "WAIT", "0"]);
            (take, request(&["DLOCK.RELEASE", &key, &token]))
        });
        let (takes, gives) = words.unzip();
        Words { takes, gives, lines: 1, first: 0 }
    }

    /// The requests of clients that pass a token round through a list.
    pub fn list(size: usize) -> Words {
        Words {
            takes: vec![request(&["BLPOP", "bench:list", "0"]); size],
            gives: vec![request(LIST_TOKEN); size],
            // An array of two strings.
            lines: 5,
            first: 0,
        }
    }
}

/// Puts the token into the list.
pub const LIST_TOKEN: &[&str] = &["LPUSH", "bench:list", "token"];

/// The clients' results.
pub struct Lap {
    /// The number of times that each client had the thing.
    pub counts: Vec<u64>,
    /// The length of the lap.
    pub elapsed: Duration,
    /// The number of times that a client had it, until no client wanted it any more.
    pub total: u64,
}

impl Lap {
    /// The number of times that the thing was passed on, in a second.
    pub fn rate(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64 / self.elapsed.as_secs_f64()
    }
}

/// The clients.
pub struct Crowd {
    epoll: Epoll,
    clients: Vec<Member>,
}

struct Member {
    stream: TcpStream,
    doing: Doing,
    tally: Tally,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Waiting,
    Giving,
}

impl Crowd {
    /// Connects this many clients.
    pub fn new(server: &Server, size: usize) -> Crowd {
        let epoll = Epoll::new(EpollCreateFlags::empty()).expect("the kernel has epoll");
        let connect = |number: usize| {
            let stream = Pipe::new(server).into_stream();
            stream.set_nonblocking(true).expect("a socket takes options");
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            epoll.add(&stream, event).expect("a socket can be watched");
            Member { stream, doing: Doing::Nothing, tally: Tally::default() }
        };
        let clients = (0..size).map(connect).collect();
        Crowd { epoll, clients }
    }

    /// Passes the thing round for this long, until every client has nothing to do.
    pub fn pass_round(&mut self, words: &mut Words, time: Duration) -> Lap {
        let size = self.clients.len();
        for number in (words.first..size).chain(0..words.first) {
            self.clients[number].begin(Doing::Waiting, &words.takes[number]);
        }
        let mut lap = Lap { counts: vec![0; size], elapsed: Duration::ZERO, total: 0 };
        let mut busy = size;
        let start = Instant::now();
        let mut events = vec![EpollEvent::empty(); size.min(512)];
        let mut buffer = [0; 4096];
        while busy > 0 {
            let patience = EpollTimeout::from(5000_u16);
            let ready = self.epoll.wait(&mut events, patience).expect("sockets can be awaited");
            assert!(ready > 0, "nobody got an answer for five seconds");
            // Answers that have come in when the time is found to be over still count.
            let counts = lap.elapsed < time;
            if counts {
                lap.elapsed = start.elapsed();
            }
            let over = lap.elapsed >= time;
            for event in &events[..ready] {
                let number = event.data() as usize;
                let client = &mut self.clients[number];
                client.read(&mut buffer);
                match client.doing {
                    Doing::Waiting if client.tally.lines == words.lines => {
                        client.begin(Doing::Giving, &words.gives[number]);
                        lap.total += 1;
                        if counts {
                            lap.counts[number] += 1;
                            words.first = (number + 1) % size;
                        }
                    }
                    Doing::Giving if client.tally.lines == 1 => {
                        if over {
                            client.doing = Doing::Nothing;
                            busy -= 1;
                        } else {
                            client.begin(Doing::Waiting, &words.takes[number]);
                        }
                    }
                    _ => {}
                }
            }
        }
        lap
    }
}

impl Member {
    fn begin(&mut self, doing: Doing, request: &[u8]) {
        self.doing = doing;
        self.tally = Tally::default();
        // Small against the socket's buffer, which is empty.
        self.stream.write_all(request).expect("the server reads");
    }

    fn read(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => panic!("the server closed the connection"),
            Ok(length) => self.tally.add(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("a connection failed: {error}"),
        }
    }
}
