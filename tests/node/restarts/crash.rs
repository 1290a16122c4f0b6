//! A server that is killed again and again while clients contend for its locks. No two of them hold a lock at
//! the same time, and its fences grow, whatever files the server keeps.
//!
//! Every run differs. `make soak` kills far more often than `make test`.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use dlock_judges::verdict::Promise;
use harness::{
    Builder, History, Kind, Server, append_only, apply, eventually, on_one_server, on_two_servers,
    seed, soak,
};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;

use crate::load::contenders::{Contenders, Plan};

/// `make test` kills a server this often.
const KILLS: u32 = 4;

/// Quarantine lasts as long as the longest lease, and each test waits for it after most kills.
const SHORT: (u64, u64) = (50, 450);

/// A log loses this many bytes, at most.
const MOST_CUT: usize = 4096;

/// A lease outlasts many starts of a server, on a busy machine, too.
const LONG: (u64, u64) = (30_000, 60_000);

/// A server's files, and its fate.
struct Setup {
    config: &'static [&'static str],
    /// A command that changes its files in the background.
    save: Option<&'static str>,
    /// The machine crashes with the server, which loses the end of its log.
    log_is_cut: bool,
    ttls: (u64, u64),
    leases_survive: bool,
}

const NO_FILES: Setup = Setup {
    config: &["appendonly no"],
    save: None,
    log_is_cut: false,
    ttls: SHORT,
    leases_survive: false,
};

/// A save is slow, so that many kills come in the middle of one. Its process then goes on running.
const SNAPSHOTS: Setup =
    Setup { config: &["save 1 1", "rdb-key-save-delay 10000"], save: Some("BGSAVE"), ..NO_FILES };

const LOG_EVERY_SECOND: Setup = Setup {
    config: &["appendonly yes", "appendfsync everysec", "rdb-key-save-delay 10000"],
    save: Some("BGREWRITEAOF"),
    log_is_cut: true,
    ..NO_FILES
};

const LOG_ALWAYS: Setup = Setup {
    config: &["appendonly yes", "appendfsync always", "rdb-key-save-delay 10000"],
    save: Some("BGREWRITEAOF"),
    leases_survive: true,
    ..NO_FILES
};

const NO_QUARANTINE: Setup =
    Setup { config: &["appendonly no", "dlock.quarantine off"], ttls: LONG, ..NO_FILES };

#[apply(on_one_server)]
fn kills_of_a_server_without_files_break_no_promise(kind: Kind) {
    assert_keeps_its_promises(kind, &NO_FILES);
}

#[apply(on_one_server)]
fn kills_of_a_server_with_snapshots_break_no_promise(kind: Kind) {
    assert_keeps_its_promises(kind, &SNAPSHOTS);
}

#[apply(on_two_servers)]
fn kills_of_a_server_with_a_log_written_every_second_break_no_promise(kind: Kind) {
    assert_keeps_its_promises(kind, &LOG_EVERY_SECOND);
}

#[apply(on_two_servers)]
fn kills_of_a_server_with_a_log_written_always_break_no_promise_and_end_no_lease(kind: Kind) {
    assert_keeps_its_promises(kind, &LOG_ALWAYS);
}

/// Without files and quarantine exclusion breaks: this shows that the other tests could fail.
#[apply(on_one_server)]
fn kills_of_a_server_without_files_and_quarantine_break_exclusion(kind: Kind) {
    let (_server, history) = kill_under_load(kind, &NO_QUARANTINE);
    let accused = history.accusations("kills without quarantine");
    assert!(!accused.is_empty(), "no two of {} grants overlap", history.len());
    assert!(accused.iter().all(|one| one.promise == Promise::Exclusion), "{accused:?}");
}

#[track_caller]
fn assert_keeps_its_promises(kind: Kind, setup: &Setup) {
    let (_server, history) = kill_under_load(kind, setup);
    eprintln!("{} grants", history.len());
    history.assert_kept("kills");
}

fn build(kind: Kind, setup: &Setup) -> Builder {
    setup.config.iter().fold(Server::build(kind), |server, line| server.config(line))
}

/// A server that was killed and started again this many times, and its clients' history. A failing test shows
/// the log of a server it still has.
fn kill_under_load(kind: Kind, setup: &Setup) -> (Server, History) {
    let mut rng = seed::rng();
    let mut server = build(kind, setup).start();
    let history = History::default();
    let (least, most) = setup.ttls;
    let plan = Plan { ttls: least..=most, leases_survive: setup.leases_survive, evicts: false };
    let contenders = Contenders::new(server.port(), plan, &history);
    thread::scope(|scope| {
        let stop = contenders.start(scope, &mut rng);
        live_for_a_while(&server, setup, &mut rng);
        for _ in 0..soak::kills(KILLS) {
            crash(&mut server, setup, &mut rng);
            live_for_a_while(&server, setup, &mut rng);
        }
        until_it_grants(&server);
        drop(stop);
        server.kill();
    });
    (server, history)
}

/// Puts a server under load, mostly until long after its quarantine, if it has one.
fn live_for_a_while(server: &Server, setup: &Setup, rng: &mut StdRng) {
    if rng.random_ratio(4, 5) {
        until_it_grants(server);
    }
    thread::sleep(up_to(rng, 250));
    if let Some(save) = setup.save {
        // The server may be saving already.
        server.run(save);
        thread::sleep(up_to(rng, 100));
    }
}

/// Kills a server and starts it again, now and then with another kill meanwhile.
fn crash(server: &mut Server, setup: &Setup, rng: &mut StdRng) {
    server.kill();
    eventually("a process that was just made to save lets go of the port", || {
        TcpListener::bind(("127.0.0.1", server.port())).is_ok()
    });
    if setup.log_is_cut && rng.random() {
        cut_log(server, rng);
    }
    if rng.random_ratio(1, 8) {
        let moment = up_to(rng, 80);
        server.start_again_and_kill_after(|_| thread::sleep(moment));
    }
    server.start_again();
}

/// Cuts the last few commands off the log, as if they had not reached the disk.
fn cut_log(server: &Server, rng: &mut StdRng) {
    let log = server.append_only_log();
    let bytes = fs::read(&log).expect("a log can be read");
    let least = bytes.len().saturating_sub(MOST_CUT);
    let ends = append_only::clean_ends(&bytes);
    let end = ends.range(least..).copied().choose(rng).expect("a log ends");
    fs::write(&log, &bytes[..end]).expect("a log can be written");
}

/// Waits until it has granted a lock since its start.
#[track_caller]
fn until_it_grants(server: &Server) {
    eventually("it grants again", || server.info_number("dlock", "dlock_grants") > 0);
}

fn up_to(rng: &mut StdRng, millis: u64) -> Duration {
    Duration::from_micros(rng.random_range(0..millis * 1000))
}
