//! A client that sends many requests in one write.

use harness::Server;

use crate::load::{Pipe, Random};
use crate::measure::cpu_micros;

/// The number of operations in one write: the cost is then the commands'.
const DEPTH: usize = 64;
/// The number of different writes.
const BATCHES: usize = 32;

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
