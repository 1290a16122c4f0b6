//! Very many leases end in the same moment, while another client uses the server.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Kind, Server};

use crate::cycle::Recipe;
use crate::load::Pipe;
use crate::measure::percentile;
use crate::memory::hold;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const LEASES: u64 = 200_000;
/// The time from the making of the leases to their end: usually enough to make them all, and some
/// calm.
const AHEAD: Duration = Duration::from_millis(1500);
/// A slow machine gets more time, up to this much.
const FAR_AHEAD: Duration = Duration::from_secs(24);
/// At least this much of it is left, to measure the machine while nothing happens.
const CALM: Duration = Duration::from_millis(100);
/// The other client asks for something this often.
const EVERY: Duration = Duration::from_micros(500);

/// The leases end this many times, and the calmest counts: the server does the same each time, but now and
/// then another program has the machine.
const TIMES: usize = 3;

/// Measures PINGs while leases end, and while keys expire.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let times = if options.quick { 1 } else { TIMES };
    report.attempt("200,000 leases end", |report| {
        let ours: Vec<Expiries> =
            (0..times).map(|_| Expiries::new(kind, &Recipe::Module)).collect();
        let theirs = Expiries::new(kind, &Recipe::DelIfEq);
        let mut add = |what: &str, figure: fn(&Expiries) -> f64, target: Target| {
            let calmest = ours.iter().map(figure).fold(f64::INFINITY, f64::min);
            let row = Row::alone(what, "ms", calmest, target);
            report.add(kind, row.beside("keys that expire", figure(&theirs)));
        };
        add("200,000 leases end: worst PING", Expiries::worst, Target::AtMost(10.0));
        add("200,000 leases end: p99 of PING", Expiries::p99, Target::None);
        add("200,000 leases end: until all have", |expiries| expiries.length, Target::None);
        add("nothing happens: worst PING", |expiries| expiries.calm, Target::None);
    });
}

/// The latencies of PINGs while the leases end, in milliseconds.
struct Expiries {
    latencies: Vec<f64>,
    /// The worst latency before it began: the machine's own.
    calm: f64,
    /// The time from its beginning to its end.
    length: f64,
}

impl Expiries {
    fn new(kind: Kind, recipe: &Recipe) -> Expiries {
        let (server, mut pipe, begin) = Expiries::gather(kind, recipe);
        let ping = |pipe: &mut Pipe, due: Instant| {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            pipe.exchange(b"PING\r\n", 1);
            // Counted from its due time: it may have had to wait for the one before.
            due.elapsed().as_secs_f64() * 1e3
        };
        let mut calm: f64 = 0.0;
        let mut due = Instant::now() + EVERY;
        while due < begin - Duration::from_millis(50) {
            calm = calm.max(ping(&mut pipe, due));
            due += EVERY;
        }
        let mut latencies = Vec::new();
        let mut due = begin - Duration::from_millis(20);
        loop {
            latencies.push(ping(&mut pipe, due));
            due += EVERY;
            if latencies.len() % 16 == 0 {
                if server.run("DBSIZE").int() == 0 {
                    break;
                }
                due = due.max(Instant::now());
            }
        }
        Expiries { latencies, calm, length: begin.elapsed().as_secs_f64() * 1e3 }
    }

    /// A server with all the leases, which end at the same moment, before that moment has come.
    fn gather(kind: Kind, recipe: &Recipe) -> (Server, Pipe, Instant) {
        let mut ahead = AHEAD;
        while ahead <= FAR_AHEAD {
            let server = Server::start(kind);
            let begin = Instant::now() + ahead;
            let mut pipe = Pipe::new(&server);
            hold(&mut pipe, recipe, 0..LEASES, |_| {
                let left = begin.saturating_duration_since(Instant::now());
                (left.as_millis() + 1).to_string()
            });
            if Instant::now() + CALM < begin {
                return (server, pipe, begin);
            }
            ahead *= 2;
        }
        panic!("this machine does not make {LEASES} leases in {FAR_AHEAD:?}");
    }

    fn worst(&self) -> f64 {
        self.latencies.iter().copied().fold(0.0, f64::max)
    }

    fn p99(&self) -> f64 {
        percentile(self.latencies.clone(), 0.99)
    }
}
