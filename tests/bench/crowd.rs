//! Many clients that pass one thing round: each waits for it, has it, gives it on, and waits again. One
//! thread does it for all of them, the same for both sides of a comparison, so that the server is nearly all
//! that is measured.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::Server;
use harness::client::request;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::load::{Pipe, Random, TTL, Tally, key};

/// The requests that the clients send.
pub struct Words {
    /// Waits for the thing; one request for each client.
    pub takes: Vec<Vec<u8>>,
    /// Gives it on; one request for each client.
    pub gives: Vec<Vec<u8>>,
    /// The lines of the answer to the first.
    pub lines: usize,
}

impl Words {
    /// The requests of clients that pass a lock round.
    pub fn locks(size: usize) -> Words {
        let (mut random, key) = (Random::new(3), key(0));
        let words = (0..size).map(|_| {
            let token = random.token();
            let take = request(&["DLOCK.ACQUIRE", &key, &token, TTL, "WAIT", "0"]);
            (take, request(&["DLOCK.RELEASE", &key, &token]))
        });
        let (takes, gives) = words.unzip();
        Words { takes, gives, lines: 1 }
    }

    /// The requests of clients that pass a token round through a list.
    pub fn list(size: usize) -> Words {
        Words {
            takes: vec![request(&["BLPOP", "bench:list", "0"]); size],
            gives: vec![request(LIST_TOKEN); size],
            // An array of two strings.
            lines: 5,
        }
    }
}

/// Puts the token into the list.
pub const LIST_TOKEN: &[&str] = &["LPUSH", "bench:list", "token"];

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

    /// Passes the thing round for this long, until every client has nothing to do. Returns how often it was
    /// passed on in a second.
    pub fn pass_round(&mut self, words: &Words, time: Duration) -> f64 {
        let size = self.clients.len();
        for (client, take) in self.clients.iter_mut().zip(&words.takes) {
            client.begin(Doing::Waiting, take);
        }
        let (mut count, mut elapsed) = (0, Duration::ZERO);
        let mut busy = size;
        let start = Instant::now();
        let mut events = vec![EpollEvent::empty(); size.min(512)];
        let mut buffer = [0; 4096];
        while busy > 0 {
            let patience = EpollTimeout::from(5000_u16);
            let ready = self.epoll.wait(&mut events, patience).expect("sockets can be awaited");
            assert!(ready > 0, "nobody got an answer for five seconds");
            // Answers that have come in when the time is found to be over still count.
            let counts = elapsed < time;
            if counts {
                elapsed = start.elapsed();
            }
            let over = elapsed >= time;
            for event in &events[..ready] {
                let number = event.data() as usize;
                let client = &mut self.clients[number];
                client.read(&mut buffer);
                match client.doing {
                    Doing::Waiting if client.tally.lines == words.lines => {
                        client.begin(Doing::Giving, &words.gives[number]);
                        count += u64::from(counts);
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
        count as f64 / elapsed.as_secs_f64()
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
