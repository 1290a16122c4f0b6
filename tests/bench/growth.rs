//! The cost of a command when there is much of everything.

use std::time::{Duration, Instant};

use harness::{Kind, Server};

use crate::crowd::{LIST_TOKEN, Words};
use crate::cycle::{Recipe, pipelined};
use crate::load::{Pipe, Random};
use crate::measure::{Compared, Side, cpu_micros, in_turns};
use crate::memory::hold;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const FEW_LOCKS: u64 = 1000;
const MANY_LOCKS: u64 = 1_000_000;
const FEW_WAITERS: usize = 10;
const MANY_WAITERS: usize = 10_000;
/// One write hands the lock to this many clients. The smaller queue has more.
const RELEASES: usize = 8;
/// This many writes are one figure, or as many as fit into hardly more than this: some servers look at all
/// waiters for each grant.
const WRITES: usize = 40;
const TURN: Duration = Duration::from_millis(400);

/// A cycle among many held locks, and a hand-over with a long queue.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let mut row = |what: &str, few, target, measure: &dyn Fn() -> Compared| {
        report.attempt(what, |report| {
            report.add(Row::compared(what, few, "µs", measure(), target));
        });
    };
    let (target, few) = (Target::AtMost(1.5), "1,000 locks held");
    row("cycle, 1,000,000 locks held", few, target, &|| cycle(kind, options));

    let line = |words: fn(usize) -> Words, waiters| Line::new(kind, words, waiters);
    let few = "of 10 waiters";
    row("RELEASE to the next of 10,000 waiters", few, target, &|| {
        let locks = [MANY_WAITERS, FEW_WAITERS].map(|waiters| line(Words::locks, waiters));
        release(options.rounds(12), locks)
    });
    if options.quick {
        return;
    }
    row("LPUSH to the next of 10,000 in BLPOP", few, Target::None, &|| {
        let lists = [MANY_WAITERS, FEW_WAITERS].map(|waiters| line(Words::list, waiters));
        release(options.rounds(4), lists)
    });
}

/// Leases of all lengths, so that new ones have their places among the others.
fn any_ttl(random: &mut Random) -> String {
    (600_000 + random.below(3_000_000)).to_string()
}

fn cycle(kind: Kind, options: &Options) -> Compared {
    let with = |locks: u64| {
        let server = Server::start(kind);
        // The new ones have the numbers below.
        hold(&mut Pipe::new(&server), &Recipe::Module, 10_000..10_000 + locks, any_ttl);
        let pipelined = pipelined(&server, &Recipe::Module, any_ttl);
        (server, pipelined)
    };
    let ((large, mut among_many), (small, mut among_few)) = (with(MANY_LOCKS), with(FEW_LOCKS));
    in_turns(options.rounds(24), |side| match side {
        Side::Ours => among_many.cpu(&large, 80),
        Side::Theirs => among_few.cpu(&small, 80),
    })
}

fn release(rounds: usize, [mut long, mut short]: [Line; 2]) -> Compared {
    in_turns(rounds, |side| match side {
        Side::Ours => long.release(),
        Side::Theirs => short.release(),
    })
}

/// Clients that wait, and one that releases for all of them.
struct Line {
    server: Server,
    control: Pipe,
    words: Words,
    /// The clients in the order of service.
    clients: Vec<Pipe>,
    /// The client that has the lock, and releases next.
    head: usize,
}

impl Line {
    fn new(kind: Kind, words: fn(usize) -> Words, waiters: usize) -> Line {
        let server = Server::build(kind).config("maxclients 12000").start();
        // For the first of them to take, where it is a list.
        server.run(&LIST_TOKEN.join(" "));
        let size = waiters + 1;
        let clients: Vec<Pipe> = (0..size).map(|_| Pipe::new(&server)).collect();
        let (control, words) = (Pipe::new(&server), words(size));
        let mut line = Line { server, control, words, clients, head: 0 };
        line.line_up(0);
        line.clients[0].receive(line.words.lines);
        (1..size).for_each(|place| line.line_up(place));
        line.server.until_blocked(waiters as i64);
        line
    }

    fn line_up(&mut self, place: usize) {
        self.clients[place].send(&self.words.takes[place]);
    }

    /// The server's CPU time for a hand-over: the release and the next grant.
    fn release(&mut self) -> f64 {
        let size = self.clients.len();
        let mut figures = Vec::new();
        let start = Instant::now();
        while figures.len() < WRITES && start.elapsed() < TURN {
            let places: Vec<usize> = (0..RELEASES).map(|step| (self.head + step) % size).collect();
            let requests = places.iter().map(|place| self.words.gives[*place].as_slice());
            let requests: Vec<u8> = requests.collect::<Vec<_>>().concat();
            let nothing = cpu_micros(&self.server, 1, || self.control.exchange(PINGS, RELEASES));
            let releases = cpu_micros(&self.server, 1, || {
                self.control.exchange(&requests, RELEASES);
                for place in &places {
                    self.clients[(place + 1) % size].receive(self.words.lines);
                }
            });
            figures.push((releases - nothing) / RELEASES as f64);
            self.head = (self.head + RELEASES) % size;
            for place in places {
                self.line_up(place);
            }
            self.server.until_blocked((size - 1) as i64);
        }
        figures.iter().sum::<f64>() / figures.len() as f64
    }
}

/// As many requests that do nothing: the cost of reading the server's account is subtracted.
const PINGS: &[u8] = b"PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n";
