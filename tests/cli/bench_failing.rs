//! `dlock bench` that is interrupted, and nodes that go away in the middle: whatever happens,
//! nothing is left behind, and it ends.

use std::thread;
use std::time::Duration;

use harness::program::{self, Said};
use harness::quorum::Node;
use harness::{Quorum, Server, eventually};
use nix::sys::signal::Signal;

use crate::bench::{PARTS, PREFIX, start, until_contended};
use crate::bench_report::{Report, assert_contended, number};
use crate::running::Running;

/// Longer than any test waits: who ends before has not waited for the end of a part.
const LONG: &str = "10m";

/// Waits until a part does what it measures.
#[track_caller]
fn until_in(part: &str, quorum: &Quorum) {
    match part {
        "contended" => drop(until_contended(&quorum[0])),
        _ => eventually("the load has begun", || {
            let keys = quorum[0].run("SCAN 0 COUNT 1000 TYPE dlock-key");
            let mut keys = keys.items()[1].items().iter().map(|key| key.text());
            keys.any(|key| key.starts_with(PREFIX) && key.ends_with(&format!(":{part}")))
        }),
    }
}

/// Asserts that what it has printed so far are whole lines, none of which is about an unfinished
/// part.
#[track_caller]
fn assert_no_figures_of(part: &str, said: &Said) {
    let about = |line: &serde_json::Value| line["part"] == part && line.get("error").is_none();
    assert!(!said.json().iter().any(about), "{said:#?}");
}

#[test]
fn a_signal_ends_any_part_and_nothing_is_left() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let quorum = Quorum::start(3);
        for part in PARTS {
            let running = start(&quorum, &["--json", "--time", LONG, "--only", part]);
            until_in(part, &quorum);
            running.signal(signal);
            let said = running.ended().with_code(code);
            assert_eq!(said.err, "", "{part}");
            assert_no_figures_of(part, &said);
            quorum.until_released();
            assert!(quorum.iter().all(|node| node.traces().keys == 0), "{part}");
        }
        // Given back, and not left to the end of their leases.
        let expired = |node: &Node| node.info_number("dlock", "dlock_expiries");
        assert!(quorum.iter().all(|node| expired(node) == 0));
    }
}

#[test]
fn a_signal_while_it_still_connects_ends_it() {
    let quorum = Quorum::start(3);
    quorum.iter().for_each(|node| node.network().swallow());
    let mut command = program::command(&quorum.urls());
    command.args(["bench", "--json", "--node-timeout", "10s", "--time", LONG]);
    let running = Running::of(command);
    eventually("it connects", || quorum[0].network().connections() > 0);
    running.signal(Signal::SIGINT);
    let said = running.ended().with_code(130);
    assert_eq!(said.out, "");
}

/// One run for each part, of which all are at work.
#[track_caller]
fn all_parts(quorum: &Quorum, options: &[&str]) -> Vec<(&'static str, Running)> {
    PARTS
        .map(|part| {
            let running = start(quorum, &[&["--json", "--only", part], options].concat());
            until_in(part, quorum);
            (part, running)
        })
        .into()
}

#[test]
fn a_signal_ends_it_soon_although_nodes_have_gone_deaf() {
    let quorum = Quorum::start(3);
    let all = all_parts(&quorum, &["--time", LONG, "--ttl", "1s"]);
    quorum.iter().for_each(|node| node.network().swallow());
    for (_, running) in &all {
        running.signal(Signal::SIGINT);
    }
    for (_, running) in all {
        // The bench waits for answers as long as it has been told to, and gives up.
        running.ended().with_code(130);
    }
    quorum.iter().for_each(|node| node.network().pass());
    quorum.until_empty();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let quorum = Quorum::start(1);
    let mut command = program::command(&quorum.urls());
    command.args(["bench", "--node-timeout", "15s", "--time", LONG, "--only", "contended"]);
    let mut running = Running::of(command);
    until_contended(&quorum[0]);
    quorum[0].network().swallow();
    // Signals that come together count as one.
    for _ in 0..20 {
        if running.has_ended() {
            break;
        }
        running.signal(Signal::SIGINT);
        thread::sleep(Duration::from_millis(100));
    }
    running.ended().with_code(130);
    quorum[0].network().pass();
}

#[test]
fn a_node_that_dies_in_the_middle_of_a_part_does_not_end_it() {
    let mut quorum = Quorum::start(3);
    let all = all_parts(&quorum, &["--time", "1500ms", "--clients", "4"]);
    // Not the first, where the others queue: that one dies below.
    quorum[2].kill();
    for (part, running) in all {
        let said = running.ended().with_code(0);
        let report = Report::read(&said);
        match part {
            "cycle" => {
                let error = report.cycles[2]["error"].as_str();
                let error = error.expect("the reason");
                // The node may have died while its turn had not come.
                let words = ["after", "at first"];
                assert!(words.iter().any(|word| error.contains(word)), "more than {error}");
                assert!(report.cycles[..2].iter().all(|line| line.get("error").is_none()));
            }
            "quorum" => assert!(report.quorum.is_some(), "{said:#?}"),
            _ => assert_contended(report.contended(), 3, 4, 5.0),
        }
    }
    for node in &quorum[..2] {
        assert_nothing_left(node);
    }
}

#[track_caller]
fn assert_nothing_left(node: &Server) {
    let traces = node.traces();
    assert_eq!((traces.leases, traces.waiters, traces.keys), (0, 0, 0));
}

#[test]
fn it_ends_when_no_majority_is_left() {
    let mut quorum = Quorum::start(3);
    let options = ["--time", LONG, "--ttl", "1s", "--clients", "4"];
    let all = all_parts(&quorum, &options);
    quorum[0].kill();
    quorum[2].kill();
    for (part, running) in all {
        if part == "cycle" {
            // Each node is measured by itself, and the one that is left as long as was asked for.
            running.signal(Signal::SIGINT);
            running.ended().with_code(130);
            continue;
        }
        let said = running.ended().with_code(69);
        assert!(!said.err.is_empty(), "{part}: it says why");
        assert_no_figures_of(part, &said);
    }
    eventually("nothing is left", || quorum[1].traces().keys == 0);
    let mut quorum = Quorum::start(3);
    let running = start(&quorum, &["--json", "--time", "500ms", "--only", "cycle"]);
    until_in("cycle", &quorum);
    quorum[0].kill();
    quorum[2].kill();
    let said = running.ended().with_code(69);
    assert_eq!(Report::read(&said).cycles.len(), 3, "{said:#?}");
    assert_nothing_left(&quorum[1]);
}

#[test]
fn a_wait_lasts_through_failures_until_the_grant() {
    let quorum = Quorum::start(1);
    let options = ["--json", "--time", "4s", "--clients", "4", "--only", "contended"];
    let running = start(&quorum, &options);
    until_contended(&quorum[0]);
    let before = quorum[0].info_number("dlock", "dlock_grants");
    // In the first rounds nothing is measured.
    eventually("the clock has begun", || {
        quorum[0].info_number("dlock", "dlock_grants") > before + 40
    });
    quorum[0].run("ACL SETUSER default -dlock.acquire");
    thread::sleep(OUTAGE);
    quorum[0].run("ACL SETUSER default +dlock.acquire");
    let said = running.ended().with_code(0);
    let report = Report::read(&said);
    let line = report.contended();
    assert_contended(line, 1, 4, 5.0);
    // Each of them was told many times that it may not.
    assert!(number(line, "failures") > 8.0, "{line}");
    assert!(number(line, "wait_ms/max") >= 0.9 * OUTAGE.as_secs_f64() * 1e3, "{line}");
}

/// Short enough that there is hope.
const OUTAGE: Duration = Duration::from_millis(1500);

#[test]
fn a_release_that_finds_nothing_is_said_of_the_node() {
    let quorum = Quorum::start(1);
    quorum[0].network().delay(Duration::from_millis(50));
    let running = start(&quorum, &["--json", "--time", LONG, "--only", "cycle"]);
    eventually("its lock is deleted while it is held", || {
        let keys = quorum[0].run("SCAN 0 COUNT 1000 TYPE dlock-key");
        let keys: Vec<String> =
            keys.items()[1].items().iter().map(|key| key.text().to_owned()).collect();
        keys.iter().any(|key| quorum[0].run(&format!("DEL {key}")).int() == 1)
    });
    let said = running.ended().with_code(69);
    let error = Report::read(&said).cycles[0]["error"].to_string();
    assert!(error.contains("lease was lost"), "{said:#?}");
}

#[test]
fn an_operator_who_breaks_or_deletes_its_lock_does_not_end_it() {
    let quorum = Quorum::start(1);
    let options = ["--json", "--time", "5s", "--clients", "4", "--only", "contended"];
    let running = start(&quorum, &options);
    let key = until_contended(&quorum[0]);
    for command in ["DLOCK.BREAK", "DEL", "DLOCK.BREAK", "DEL"] {
        let granted = quorum[0].info_number("dlock", "dlock_grants");
        quorum[0].run(&format!("{command} {key}"));
        eventually("they are served again", || {
            quorum[0].info_number("dlock", "dlock_grants") > granted + 5
        });
    }
    let said = running.ended().with_code(0);
    assert_contended(Report::read(&said).contended(), 1, 4, 5.0);
    quorum.until_released();
}
