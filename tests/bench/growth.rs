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
            report.add(kind, Row::compared(what, few, "µs", measure(), target));
        });
    };
    let (target, few) = (Target::AtMost(1.5), "1,000 locks held");
    row("cycle, 1,000,000 locks held", few, target, &|| cycle(kind, options, |_| Recipe::Module));
    let what = "SET NX PX + EVALSHA, 1,000,000 locks held";
    row(what, few, Target::None, &|| cycle(kind, options, Recipe::script));

    let line = |locks, waiters| Line::new(kind, Words::locks, locks, waiters);
    let few = "of 10 waiters";
    row("RELEASE to the next of 10,000 waiters", few, target, &|| {
        release(options.rounds(12), line(1, MANY_WAITERS), line(1, FEW_WAITERS))
    });
    if options.quick {
        return;
    }
    row("RELEASE to one of 10, at 1,000 locks", few, Target::None, &|| {
        // As many clients, and short queues: the difference is the queue's length.
        let spread = line(MANY_WAITERS / FEW_WAITERS, FEW_WAITERS);
        release(options.rounds(8), spread, line(1, FEW_WAITERS))
    });
    row("LPUSH to the next of 10,000 in BLPOP", few, Target::None, &|| {
        let list = |waiters| Line::new(kind, |size, _| Words::list(size), 1, waiters);
        release(options.rounds(4), list(MANY_WAITERS), list(FEW_WAITERS))
    });
}

/// Leases of all lengths, so that new ones have their places among the others.
fn any_ttl(random: &mut Random) -> String {
    (600_000 + random.below(3_000_000)).to_string()
}

fn cycle(kind: Kind, options: &Options, recipe: impl Fn(&Server) -> Recipe) -> Compared {
    let with = |locks: u64| {
        let server = Server::start(kind);
        let recipe = recipe(&server);
        // The new ones have the numbers below.
        hold(&mut Pipe::new(&server), &recipe, 10_000..10_000 + locks, any_ttl);
        let pipelined = pipelined(&server, &recipe, any_ttl);
        (server, pipelined)
    };
    let ((large, mut among_many), (small, mut among_few)) = (with(MANY_LOCKS), with(FEW_LOCKS));
    let [figures] = in_turns(options.rounds(24), |side| match side {
        Side::Ours => [among_many.cpu(&large, 80)],
        Side::Theirs => [among_few.cpu(&small, 80)],
    });
    figures
}

fn release(rounds: usize, mut long: Line, mut short: Line) -> Compared {
    let [figures] = in_turns(rounds, |side| match side {
        Side::Ours => [long.release()],
        Side::Theirs => [short.release()],
    });
    figures
}

/// Clients that wait, and one that releases for all of them.
struct Line {
    server: Server,
    control: Pipe,
    words: Words,
    /// The clients in the order of service. Clients that wait for the same lock are as far apart as there are
    /// locks.
    clients: Vec<Pipe>,
    locks: usize,
    /// The client that releases next. It has its lock, and so have the clients after it, one for each lock.
    head: usize,
}

impl Line {
    fn new(
        kind: Kind,
        words: impl Fn(usize, usize) -> Words,
        locks: usize,
        waiters: usize,
    ) -> Line {
        let server = Server::build(kind).config("maxclients 12000").start();
        // For the first of them to take, where it is a list.
        server.run(&LIST_TOKEN.join(" "));
        let size = locks * (waiters + 1);
        let clients: Vec<Pipe> = (0..size).map(|_| Pipe::new(&server)).collect();
        let (control, words) = (Pipe::new(&server), words(size, locks));
        let mut line = Line { server, control, words, clients, locks, head: 0 };
        for place in 0..size {
            line.line_up(place);
            if place < locks {
                line.clients[place].receive(line.words.lines);
            }
        }
        line.server.until_blocked((locks * waiters) as i64);
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
                    self.clients[(place + self.locks) % size].receive(self.words.lines);
                }
            });
            figures.push((releases - nothing) / RELEASES as f64);
            self.head = (self.head + RELEASES) % size;
            for place in places {
                self.line_up(place);
            }
            self.server.until_blocked((size - self.locks) as i64);
        }
        figures.iter().sum::<f64>() / figures.len() as f64
    }
}

/// As many requests that do nothing: the cost of reading the server's account is subtracted.
const PINGS: &[u8] = b"PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n";
