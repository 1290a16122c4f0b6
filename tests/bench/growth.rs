//! Whether a command takes longer when there is much of everything.

use harness::{Kind, Server};

use crate::crowd::{LIST_TOKEN, Words};
use crate::cycle::{Pipelined, Recipe};
use crate::load::{Pipe, Random};
use crate::measure::{Compared, Side, cpu_micros, in_turns};
use crate::memory::hold;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const FEW_LOCKS: u64 = 1000;
const MANY_LOCKS: u64 = 1_000_000;
const FEW_WAITERS: usize = 10;
const MANY_WAITERS: usize = 10_000;
/// So many clients are handed the lock in one write. Fewer than wait in the smaller queue.
const RELEASES: usize = 8;
/// So many writes are one figure.
const WRITES: usize = 40;

/// A cycle among many held locks, and a hand-over with a long queue.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let target = Target::AtMost(1.5);
    let figures = cycle(kind, options, |_| Recipe::Module);
    let (what, few) = ("cycle, 1,000,000 locks held", "1,000 locks held");
    report.add(kind, Row::compared(what, few, "µs", figures, target));
    let figures = cycle(kind, options, Recipe::script);
    let what = "SET NX PX + EVALSHA, 1,000,000 locks held";
    report.add(kind, Row::compared(what, few, "µs", figures, Target::None));

    let figures = release(kind, options, Words::lock);
    let (what, few) = ("RELEASE to the next of 10,000 waiters", "of 10 waiters");
    report.add(kind, Row::compared(what, few, "µs", figures, target));
    let figures = release(kind, options, Words::list);
    let what = "LPUSH to the next of 10,000 in BLPOP";
    report.add(kind, Row::compared(what, few, "µs", figures, Target::None));
}

/// Leases of all lengths, so that those that come and go have their places among the others.
fn any_ttl(random: &mut Random) -> String {
    (600_000 + random.below(3_000_000)).to_string()
}

fn cycle(kind: Kind, options: &Options, recipe: impl Fn(&Server) -> Recipe) -> Compared {
    let with = |locks: u64| {
        let server = Server::start(kind);
        let recipe = recipe(&server);
        // Those that come and go have the numbers below.
        hold(&mut Pipe::new(&server), &recipe, 10_000..10_000 + locks, any_ttl);
        let pipelined = Pipelined::with_ttl(&server, &recipe, any_ttl);
        (server, pipelined)
    };
    let ((large, mut among_many), (small, mut among_few)) = (with(MANY_LOCKS), with(FEW_LOCKS));
    let [figures] = in_turns(options.rounds(24), |side| match side {
        Side::Ours => [among_many.cpu(&large, 80)],
        Side::Theirs => [among_few.cpu(&small, 80)],
    });
    figures
}

fn release(kind: Kind, options: &Options, words: impl Fn(usize) -> Words) -> Compared {
    let line = |waiters: usize| Line::new(kind, words(waiters + 1), waiters);
    let (mut long, mut short) = (line(MANY_WAITERS), line(FEW_WAITERS));
    let [figures] = in_turns(options.rounds(16), |side| match side {
        Side::Ours => [long.release()],
        Side::Theirs => [short.release()],
    });
    figures
}

/// Clients that wait for one thing, and one that gives it on for all of them.
struct Line {
    server: Server,
    control: Pipe,
    words: Words,
    /// In the order in which they wait.
    clients: Vec<Pipe>,
    /// Who has it. All others wait.
    head: usize,
}

impl Line {
    fn new(kind: Kind, words: Words, waiters: usize) -> Line {
        let server = Server::build(kind).config("maxclients 12000").start();
        // For the first of them to take, where it is a list.
        server.run(&LIST_TOKEN.join(" "));
        let clients: Vec<Pipe> = (0..=waiters).map(|_| Pipe::new(&server)).collect();
        let mut line = Line { control: Pipe::new(&server), server, words, clients, head: 0 };
        line.line_up(0);
        line.clients[0].receive(line.words.lines);
        for place in 1..=waiters {
            line.line_up(place);
        }
        line.server.until_blocked(waiters as i64);
        line
    }

    fn line_up(&mut self, place: usize) {
        self.clients[place].send(&self.words.takes[place]);
    }

    /// What the server spends on a hand-over: that it is given on, and that the next one is told.
    fn release(&mut self) -> f64 {
        let size = self.clients.len();
        let mut sum = 0.0;
        for _ in 0..WRITES {
            let places: Vec<usize> = (0..RELEASES).map(|step| (self.head + step) % size).collect();
            let requests = places.iter().map(|place| self.words.gives[*place].as_slice());
            let requests: Vec<u8> = requests.collect::<Vec<_>>().concat();
            let nothing = cpu_micros(&self.server, 1, || self.control.exchange(PINGS, RELEASES));
            sum += cpu_micros(&self.server, 1, || {
                self.control.exchange(&requests, RELEASES);
                for place in &places {
                    self.clients[(place + 1) % size].receive(self.words.lines);
                }
            });
            sum -= nothing;
            self.head = (self.head + RELEASES) % size;
            for place in places {
                self.line_up(place);
            }
            self.server.until_blocked(size as i64 - 1);
        }
        sum / (WRITES * RELEASES) as f64
    }
}

/// As many requests that do nothing: what it costs to look at the server's account is taken off.
const PINGS: &[u8] = b"PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n";
