//! The clients' requests: many in one write, or one at a time from each of many clients.

use harness::Server;

use crate::load::{Pipe, Random};
use crate::measure::cpu_micros;

/// The number of operations in one write: the cost is then the commands'.
const DEPTH: usize = 64;
/// The number of different writes.
const BATCHES: usize = 32;
/// The number of clients where each waits for its answer before it sends the next request.
pub const CLIENTS: usize = 50;

/// One client that sends many requests before it reads the answers.
pub struct Pipelined {
    pipe: Pipe,
    batches: Vec<Vec<u8>>,
    /// The number of lines in the answer to an operation.
    lines: usize,
    next: usize,
}

impl Pipelined {
    /// `operation` adds one, with all its requests.
    pub fn new(
        server: &Server,
        lines: usize,
        operation: impl FnMut(&mut Random, &mut Vec<u8>),
    ) -> Pipelined {
        let mut new = Pipelined { pipe: Pipe::new(server), batches: Vec::new(), lines, next: 0 };
        new.renew(operation);
        new
    }

    /// Other operations from now on.
    pub fn renew(&mut self, mut operation: impl FnMut(&mut Random, &mut Vec<u8>)) {
        let mut random = Random::new(1);
        let mut batch = |_| {
            let mut requests = Vec::new();
            (0..DEPTH).for_each(|_| operation(&mut random, &mut requests));
            requests
        };
        self.batches = (0..BATCHES).map(&mut batch).collect();
        self.next = 0;
    }

    /// The server's CPU time for an operation, on average over this many batches.
    pub fn cpu(&mut self, server: &Server, batches: usize) -> f64 {
        cpu_micros(server, batches * DEPTH, || {
            let next = self.batches.iter().cycle().skip(self.next % BATCHES).take(batches);
            self.pipe.keep_busy(next.map(Vec::as_slice), self.lines * DEPTH);
            self.next += batches;
        })
    }
}

/// Many clients, each with one request under way.
pub struct OneByOne {
    pipes: Vec<Pipe>,
    /// The requests that each client sends one after the other, again and again; answers have one
    /// line.
    requests: Vec<Vec<Vec<u8>>>,
}

impl OneByOne {
    /// `operation` gives the requests of the client with this number.
    pub fn new(
        server: &Server,
        mut operation: impl FnMut(&mut Random, usize) -> Vec<Vec<u8>>,
    ) -> OneByOne {
        let mut random = Random::new(2);
        let requests = (0..CLIENTS).map(|client| operation(&mut random, client)).collect();
        OneByOne { pipes: (0..CLIENTS).map(|_| Pipe::new(server)).collect(), requests }
    }

    /// The server's CPU time for an operation, on average over this many of each client.
    pub fn cpu(&mut self, server: &Server, laps: usize) -> f64 {
        let steps = self.requests.first().map_or(0, Vec::len);
        cpu_micros(server, laps * CLIENTS, || {
            for step in (0..steps).cycle().take(laps * steps) {
                for (pipe, requests) in self.pipes.iter_mut().zip(&self.requests) {
                    pipe.send(&requests[step]);
                }
                for pipe in &mut self.pipes {
                    pipe.receive(1);
                }
            }
        })
    }
}
