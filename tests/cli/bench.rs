//! `dlock bench` where nothing goes wrong: what it says, and that it leaves nothing behind.
//!
//! How fast anything is depends on the machine, so no test here says it. What can be said is what
//! follows from the rules: a lock that is held cannot be granted, and a slow network is not fast.

use std::io;
use std::time::Duration;

use harness::locks::Traces;
use harness::program;
use harness::quorum::Node;
use harness::{Kind, Quorum, Server, apply, eventually, on_one_server};

use crate::bench_report::{Report, assert_contended, assert_cycle, assert_quorum, number};
use crate::running::{Running, dlock};
use crate::{addresses, servers};

/// The state that a bench must leave as it was, of every server.
pub fn traces<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<Traces> {
    let but_fences = |server: &Server| Traces { fence: 0, ..server.traces() };
    servers.into_iter().map(but_fences).collect()
}

/// Asserts that nothing had to be left to the end of its lease.
#[track_caller]
fn assert_all_given_back(server: &Server) {
    assert_eq!(server.info_number("dlock", "dlock_expiries"), 0);
    assert_eq!(server.info_number("dlock", "dlock_breaks"), 0);
}

/// Starts a bench with these nodes.
pub fn start(quorum: &Quorum, arguments: &[&str]) -> Running {
    let mut command = program::command(&quorum.urls());
    command.args(["bench", "--node-timeout", "2s"]).args(arguments);
    Running::of(command)
}

/// Waits until clients of a contended part wait for their lock, and gives its key.
#[track_caller]
pub fn until_contended(node: &Node) -> String {
    let mut contended = None;
    eventually("clients of a bench wait", || {
        let keys = node.run("SCAN 0 COUNT 1000 TYPE dlock-key");
        let keys = keys.items()[1].items().iter().map(|key| key.text());
        let mut own =
            keys.filter(|key| key.strip_prefix(PREFIX).is_some_and(|rest| rest.len() > 4));
        contended = own.find(|key| !node.waiters(key).is_empty());
        contended.is_some()
    });
    contended.expect("it was just found")
}

/// The parts of a bench.
pub const PARTS: [&str; 3] = ["cycle", "quorum", "contended"];

/// The beginning of all keys of a bench, before their random part.
pub const PREFIX: &str = "dlock-bench:";

#[apply(on_one_server)]
fn every_part_is_measured_and_nothing_is_left(kind: Kind) {
    let servers = servers(kind, 3);
    let nodes = addresses(&servers);
    let before = traces(&servers);
    let arguments = ["bench", "--json", "--time", "100ms", "--clients", "4"];
    let said = crate::dlock(&servers, &arguments).with_code(0);
    assert_eq!(traces(&servers), before);
    servers.iter().for_each(assert_all_given_back);
    assert_eq!(said.err, "");

    let parts: Vec<String> = said.json().iter().map(|line| line["part"].to_string()).collect();
    let expected = ["cycle", "cycle", "cycle", "quorum", "contended"];
    assert_eq!(parts, expected.map(|part| format!("{part:?}")));
    let report = Report::read(&said);
    report.cycles.iter().zip(&nodes).for_each(|(line, node)| assert_cycle(line, node));
    assert_quorum(report.quorum.as_ref().expect("a line"), 3);
    assert_contended(report.contended(), 3, 4, 5.0);
    assert_eq!(report.contended()["failures"], 0, "{said:#?}");
}

#[test]
fn a_contended_lock_is_held_for_as_long_as_it_was_told_and_by_one() {
    for (hold, hold_ms) in [("20ms", 20.0), ("0.5ms", 0.5)] {
        let quorum = Quorum::start(1);
        let options = ["--only", "contended", "--clients", "4", "--time", "400ms", "--hold", hold];
        let said = dlock(&quorum, &[&["bench", "--json"], &options[..]].concat()).with_code(0);
        let report = Report::read(&said);
        let line = report.contended();
        assert_contended(line, 1, 4, hold_ms);
        // All ask at the beginning, and the last of them waits for the holds of the others. A client
        // may be late by one of them.
        assert!(number(line, "wait_ms/max") >= 2.0 * hold_ms, "{line}");
        let of_server = |field: &str| quorum[0].info("dlock")[field].clone();
        // The server has one bucket for all times that differ by less than a hundredth.
        let held: f64 = of_server("dlock_hold_p50_ms").parse().expect("a number");
        assert!(held >= 0.99 * hold_ms, "half were held for {held} ms at most: {line}");
        let granted: f64 = of_server("dlock_grants").parse().expect("a number");
        assert!(granted >= number(line, "grants"), "the server granted {granted}: {line}");
        assert_eq!(of_server("dlock_expiries"), "0");
    }
}

#[test]
fn clients_that_have_not_waited_for_all_others_are_not_measured_yet() {
    let quorum = Quorum::start(1);
    // At the beginning there is nobody before the first, one before the second, and so on.
    let options = ["--only", "contended", "--clients", "8", "--time", "100ms", "--hold", "30ms"];
    let said = dlock(&quorum, &[&["bench", "--json"], &options[..]].concat()).with_code(0);
    let report = Report::read(&said);
    assert!(report.cycles.is_empty() && report.quorum.is_none(), "nobody asked for them");
    let line = report.contended();
    assert_contended(line, 1, 8, 30.0);
    assert_eq!((&line["cold"], &line["unserved"]), (&0.into(), &0.into()), "{line}");
    assert!(number(line, "wait_ms/p50") >= 0.99 * 7.0 * 30.0, "{line}");
}

#[test]
fn figures_are_of_the_network_to_the_nodes() {
    let quorum = Quorum::start(3);
    quorum[1].network().delay(Duration::from_millis(10));
    let said = dlock(&quorum, &["bench", "--json", "--time", "600ms", "--only", "cycle,quorum"]);
    let report = Report::read(&said.with_code(0));
    assert!(report.contended.is_none(), "nobody asked for it");
    let far = &report.cycles[1];
    for path in ["acquire_us/p50", "release_us/p50", "ping_us/p50"] {
        assert!(number(far, path) >= 19_900.0, "{path}: {far}");
    }
    // The mean is below what all but a hundredth stay below, since there are no hundred.
    let longest = number(far, "acquire_us/p99") + number(far, "release_us/p99");
    let per_second = number(far, "cycles_per_s");
    assert!(per_second >= 0.99 * 1e6 / longest, "a cycle has no PING in it: {far}");
    assert!(per_second <= 25.1, "{far}");
    let line = report.quorum.as_ref().expect("a line");
    assert_quorum(line, 3);
    assert!(number(line, "ping_all_us/p50") >= 19_900.0, "it waits for all: {line}");
}

#[test]
fn a_network_slower_than_a_part_is_not_said_to_be_fast() {
    let quorum = Quorum::start(1);
    quorum[0].network().delay(Duration::from_millis(40));
    let said = dlock(&quorum, &["bench", "--json", "--time", "100ms", "--only", "cycle,quorum"]);
    let report = Report::read(&said.with_code(0));
    for line in [&report.cycles[0], report.quorum.as_ref().expect("a line")] {
        assert!(number(line, "acquire_us/p50") >= 79_900.0, "{line}");
    }
    quorum.until_released();
}

#[apply(on_one_server)]
fn people_see_tables(kind: Kind) {
    let servers = servers(kind, 3);
    let said = crate::dlock(&servers, &["bench", "--time", "100ms", "--clients", "3"]);
    let out = said.clone().with_code(0).out;
    assert_eq!(said.err, "");
    for node in addresses(&servers) {
        assert!(out.contains(&node), "{out}");
    }
    let version = servers[0].node("version").text();
    for word in [&version[..], "p50", "p99", "ms", "3 clients", "5 ms"] {
        assert!(out.contains(word), "no {word}: {out}");
    }
    assert!(out.lines().all(|line| !line.ends_with(' ')), "{out}");
    for word in ["NaN", "inf", "\r", "\x1b", "{"] {
        assert!(!out.contains(word), "{word:?}: {out}");
    }
}

#[test]
fn each_part_is_announced_with_verbose_and_printed_when_it_is_done() {
    let quorum = Quorum::start(1);
    let options = ["--verbose", "--json", "--time", "300ms", "--clients", "2"];
    let mut running = start(&quorum, &options);
    running.until_it_prints("\"quorum\"");
    assert!(!running.has_ended());
    assert!(!running.out().contains("\"contended\""));
    let said = running.ended().with_code(0);
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, part) in lines.iter().zip(["cycle", "quorum", "contended"]) {
        assert_eq!(*line, format!(r#"{{"event":"measuring","part":"{part}"}}"#));
    }
    assert!(!said.err.contains(['\r', '\x1b']), "it is no terminal: {:?}", said.err);
    Report::read(&said);
}

#[test]
fn locks_that_look_like_the_bench_s_are_left_alone() {
    let quorum = Quorum::start(1);
    let node = &quorum[0];
    node.run("DLOCK.ACQUIRE dlock-bench: alice 60000");
    node.run("DLOCK.ACQUIRE dlock-bench:me:x alice 60000");
    node.run("SET dlock-bench:mine a-string");
    let mut waiter = node.waiter("DLOCK.ACQUIRE dlock-bench: bob 60000 WAIT 0");
    let running = start(&quorum, &["--time", "200ms", "--json"]);
    // A neighbour of the bench's own.
    let neighbour = format!("{}:mine", until_contended(node));
    node.run(&format!("DLOCK.ACQUIRE {neighbour} alice 60000"));
    running.ended().with_code(0);
    for key in ["dlock-bench:", "dlock-bench:me:x", &neighbour] {
        assert_eq!(node.holders(key), ["alice"], "{key}");
    }
    assert_eq!(node.run("GET dlock-bench:mine").text(), "a-string");
    assert_eq!(node.waiters("dlock-bench:"), ["bob"]);
    assert!(!waiter.has_answer());
    assert_eq!(node.run("DBSIZE").int(), 4);
}

#[test]
fn two_at_once_do_not_meet() {
    let quorum = Quorum::start(3);
    let contended = ["--json", "--only", "contended", "--time", "800ms", "--clients", "3"];
    let both = [start(&quorum, &contended), start(&quorum, &contended)];
    eventually("each has a lock of its own", || {
        let keys = quorum[0].run("SCAN 0 COUNT 1000 TYPE dlock-key");
        let keys = keys.items()[1].items();
        keys.len() == 2 && keys.iter().all(|key| key.text().starts_with(PREFIX))
    });
    for one in both {
        let said = one.ended().with_code(0);
        let report = Report::read(&said);
        let line = report.contended();
        assert_contended(line, 3, 3, 5.0);
        assert_eq!(line["failures"], 0, "{line}");
        assert!(number(line, "least") >= 1.0, "{line}");
    }
    quorum.until_released();
}

#[test]
fn a_reader_of_its_output_that_goes_away_is_no_reason_to_leave_anything() {
    let quorum = Quorum::start(1);
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    drop(reader);
    let mut command = program::command(&quorum.urls());
    let said = program::run(command.args(["bench", "--time", "100ms", "--json"]).stdout(writer));
    assert!(!said.err.contains("panicked"), "{said:#?}");
    assert!(said.code.is_some(), "{said:#?}");
    quorum.until_released();
}
