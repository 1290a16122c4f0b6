//! The memory of the server that a held lock and a waiting client take.

use harness::client::request;
use harness::{Kind, Server};

use crate::cycle::Recipe;
use crate::load::{Pipe, Random, TTL, key};
use crate::measure::Compared;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const LOCKS: u64 = 100_000;
const WAITERS: usize = 1000;

/// Bytes a lock, and a waiter with its connection.
pub fn run(kind: Kind, _: &Options, report: &mut Report) {
    let what = "memory of a held lock";
    report.attempt(what, |report| {
        let figures =
            Compared::once(per_lock(kind, &Recipe::Module), per_lock(kind, &Recipe::DelIfEq));
        let most = Target::AtMost(1.4);
        report.add(Row::compared(what, "SET NX PX", "B", figures, most));
    });

    let what = "memory of a waiter and its connection";
    report.attempt(what, |report| {
        let mut random = Random::new(4);
        let wait = || request(&["DLOCK.ACQUIRE", "bench:lock", &random.token(), TTL, "WAIT", "0"]);
        let ours = per_waiter(kind, "DLOCK.ACQUIRE bench:lock holder 60000", wait);
        let theirs = per_waiter(kind, "PING", || request(&["BLPOP", "bench:list", "0"]));
        let figures = Compared::once(ours, theirs);
        report.add(Row::compared(what, "BLPOP", "B", figures, Target::None));
    });
}

fn per_lock(kind: Kind, recipe: &Recipe) -> f64 {
    let server = Server::start(kind);
    // Connected before and after, so that its buffers do not count.
    let mut pipe = Pipe::new(&server);
    hold(&mut pipe, recipe, 0..1000, |_| TTL.to_owned());
    let before = used_memory(&server);
    hold(&mut pipe, recipe, 1000..1000 + LOCKS, |_| "600000".to_owned());
    (used_memory(&server) - before) as f64 / LOCKS as f64
}

/// Takes locks, one for each number, and keeps them.
pub fn hold(
    pipe: &mut Pipe,
    recipe: &Recipe,
    numbers: std::ops::Range<u64>,
    ttl: impl Fn(&mut Random) -> String,
) {
    let mut random = Random::new(numbers.start);
    let (start, end) = (numbers.start, numbers.end);
    for first in (start..end).step_by(100) {
        let mut requests = Vec::new();
        let last = (first + 100).min(end);
        for number in first..last {
            let (token, ttl) = (random.token(), ttl(&mut random));
            recipe.take(&mut requests, &key(number), &token, &ttl);
        }
        pipe.exchange(&requests, (last - first) as usize);
    }
}

fn per_waiter(kind: Kind, first: &str, mut wait: impl FnMut() -> Vec<u8>) -> f64 {
    let server = Server::start(kind);
    server.run(first);
    let before = used_memory(&server);
    let connect = |_| {
        let mut pipe = Pipe::new(&server);
        pipe.send(&wait());
        pipe
    };
    let _waiting: Vec<Pipe> = (0..WAITERS).map(connect).collect();
    server.until_blocked(WAITERS as i64);
    (used_memory(&server) - before) as f64 / WAITERS as f64
}

/// The memory that the server uses, in bytes.
pub fn used_memory(server: &Server) -> i64 {
    server.info_number("memory", "used_memory")
}
