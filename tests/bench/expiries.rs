//! Very many leases end in the same moment, while another client uses the server.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Kind, Server};

use crate::cycle::Recipe;
use crate::load::Pipe;
use crate::memory::hold;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const LEASES: u64 = 200_000;
/// The time from the making of the leases to their end: usually enough to make them all.
const AHEAD: Duration = Duration::from_millis(1500);
/// A slow machine gets more time, up to this much.
const FAR_AHEAD: Duration = Duration::from_secs(24);
/// At least this much of it is left.
const LEFT: Duration = Duration::from_millis(100);
/// The other client asks for something this often.
const EVERY: Duration = Duration::from_micros(500);

/// The leases end this many times, and the calmest counts: the server does the same each time, but now and
/// then another program has the machine.
const TIMES: usize = 3;

/// Measures PINGs while leases end, and while keys expire.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let times = if options.quick { 1 } else { TIMES };
    report.attempt("200,000 leases end", |report| {
        let ours = (0..times).map(|_| worst(kind, &Recipe::Module)).fold(f64::INFINITY, f64::min);
        let row = Row::alone("200,000 leases end: worst PING", "ms", ours, Target::AtMost(10.0));
        report.add(row.beside("keys that expire", worst(kind, &Recipe::DelIfEq)));
    });
}

/// The longest PING while the leases end, in milliseconds.
fn worst(kind: Kind, recipe: &Recipe) -> f64 {
    let (server, mut pipe, begin) = gather(kind, recipe);
    let (mut worst, mut due) = (0.0_f64, begin - Duration::from_millis(20));
    for number in 1.. {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        pipe.exchange(b"PING\r\n", 1);
        // Counted from its due time: it may have had to wait for the one before.
        worst = worst.max(due.elapsed().as_secs_f64() * 1e3);
        due += EVERY;
        if number % 16 == 0 {
            if server.run("DBSIZE").int() == 0 {
                break;
            }
            due = due.max(Instant::now());
        }
    }
    worst
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
        if Instant::now() + LEFT < begin {
            return (server, pipe, begin);
        }
        ahead *= 2;
    }
    panic!("this machine does not make {LEASES} leases in {FAR_AHEAD:?}");
}
