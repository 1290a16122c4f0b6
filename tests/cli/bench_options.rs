//! The options of `dlock bench`. A wrong one is refused before a node is asked for anything.

use harness::{Kind, Quorum, Server, program};
use serde_json::Value;

use crate::address;
use crate::bench::{start, until_contended};
use crate::bench_report::{Report, assert_contended, number};
use crate::running::dlock;

/// Asserts that it is wrong usage, that the message has one of these in each place, and that no
/// server heard of it.
#[track_caller]
fn assert_refused(server: &Server, arguments: &[&str], words: &[&[&str]]) {
    let connections = || server.info_number("stats", "total_connections_received");
    let before = connections();
    let said = crate::dlock_at(&[address(server)], &[&["bench"], arguments].concat());
    assert_eq!(said.code, Some(64), "{arguments:?}: {said:#?}");
    assert_eq!(said.out, "", "{arguments:?}");
    for any in words {
        let has = any.iter().any(|word| said.err.contains(word));
        assert!(has, "{arguments:?}: none of {any:?} in {}", said.err);
    }
    assert_eq!(connections(), before, "{arguments:?}: it connected");
}

#[test]
fn what_is_out_of_bounds_is_refused_before_anything_is_sent() {
    let server = Server::start(Kind::Redis82);
    let ten_seconds: &[&str] = &["10s", "10 s"];
    let ten_minutes: &[&str] = &["10m", "10 m"];
    let tenth: &[&str] = &["100ms", "100 ms"];
    for (option, value, limit) in [
        ("--clients", "0", &["1"][..]),
        ("--clients", "1001", &["1000"]),
        ("--clients", "99999999999999999999", &["--clients"]),
        ("--clients", "many", &["many"]),
        ("--clients", "1.5", &["1.5"]),
        ("--clients=-1", "", &["--clients"]),
        ("--hold", "10001ms", ten_seconds),
        ("--hold", "1h", ten_seconds),
        ("--hold", "5x", &["5x"]),
        ("--hold=-1ms", "", &["--hold"]),
        ("--time", "99ms", tenth),
        ("--time", "0", tenth),
        ("--time", "601", ten_minutes),
        ("--time", "11m", ten_minutes),
        ("--time", "", &["--time"]),
        ("--ttl", "99ms", tenth),
        ("--ttl", "0", tenth),
        ("--ttl", "soon", &["soon"]),
        ("--ttl", "601", ten_minutes),
        ("--ttl", "1d", ten_minutes),
        ("--only", "speed", &["speed"]),
        ("--only", "cycle,speed", &["speed"]),
        ("--only", "", &["--only"]),
    ] {
        let name = option.split('=').next().unwrap_or(option);
        let arguments = if option.contains('=') { vec![option] } else { vec![option, value] };
        assert_refused(&server, &arguments, &[&[name], limit]);
    }
    assert_refused(&server, &["--only", "speed"], &[&["cycle"], &["quorum"], &["contended"]]);
    assert_refused(&server, &["job"], &[&["job"]]);
    assert_refused(&server, &["--nodes", ""], &[&["node"]]);
    assert_refused(&server, &["--nodes", "http://127.0.0.1:1"], &[&["http"]]);
}

#[test]
fn the_least_of_everything_is_accepted() {
    let quorum = Quorum::start(1);
    let least = ["--clients", "1", "--hold", "0ms", "--time", "100ms"];
    let said = dlock(&quorum, &[&["bench", "--json"], &least[..]].concat()).with_code(0);
    let report = Report::read(&said);
    let line = report.contended();
    assert_contended(line, 1, 1, 0.0);
    assert_eq!(line["least"], line["most"], "{line}");
    assert_eq!(line["grants"], line["most"], "{line}");
    // No wait is any number of times longer than none.
    assert!(line["p99_to_ideal"].is_null(), "{line}");
    let said = dlock(&quorum, &[&["bench"], &least[..]].concat()).with_code(0);
    assert!(!said.out.contains("NaN") && !said.out.contains("inf"), "{}", said.out);
    quorum.until_released();
    // A slow machine may lose so short a lease.
    let said = dlock(&quorum, &[&["bench", "--json", "--ttl", "100ms"], &least[..]].concat());
    assert!(said.code == Some(0) || said.out.contains("its lease was lost"), "{said:#?}");
}

#[test]
fn locks_held_longer_than_a_part_and_their_leases_do_not_prolong_it() {
    let quorum = Quorum::start(1);
    let long = ["--clients", "30", "--hold", "2s", "--time", "100ms", "--ttl", "1500ms"];
    let only = ["bench", "--node-timeout", "5s", "--json", "--only", "contended"];
    let said = program::run(program::command(&quorum.urls()).args(only).args(long)).with_code(0);
    quorum.until_released();
    let warning: Value = serde_json::from_str(said.err.trim_end()).expect("one object");
    assert_eq!((&warning["event"], &warning["kind"]), (&"warning".into(), &"short_time".into()));
    let report = Report::read(&said);
    // On a busy machine nobody gives it back before the end.
    let line = report.contended();
    assert_eq!(line["failures"], 0, "a lease is renewed: {line}");
    assert!(number(line, "unserved") > 0.0, "who waits in vain is not kept quiet: {line}");
    assert!(number(line, "cold") > 0.0, "who has never had it is not kept quiet: {line}");
    // Of those that were cut off, most had waited for longer than those that were served.
    assert!(line["wait_ms"]["p50"].is_null() && line["p99_to_ideal"].is_null(), "{line}");
    assert!(number(line, "wait_at_least_ms/p50") > 1000.0, "{line}");
}

#[test]
fn a_time_that_is_short_for_the_waits_is_said_before_the_load_and_the_figures_say_at_least() {
    let quorum = Quorum::start(1);
    let long = ["--clients", "30", "--hold", "2s", "--time", "100ms", "--ttl", "1500ms"];
    let mut running = start(&quorum, &[&["--only", "contended"], &long[..]].concat());
    until_contended(&quorum[0]);
    assert!(!running.has_ended());
    let said = running.ended().with_code(0);
    for word in ["--time 100 ms", "30 clients", "60 s", "--time 180s"] {
        assert!(said.err.contains(word), "no {word}: {}", said.err);
    }
    for word in ["≥", "not warm", "still waiting at the end", "ONE ROUND", "JAIN"] {
        assert!(said.out.contains(word), "no {word}: {}", said.out);
    }
    // The warning is only about the part that waits.
    let options = ["bench", "--only", "cycle,quorum", "--time", "100ms"];
    assert_eq!(dlock(&quorum, &options).with_code(0).err, "");
}

#[test]
fn one_client_waits_for_nobody() {
    let quorum = Quorum::start(1);
    // The only client holds the lock all the time: nothing is granted, and nobody waits.
    let options = ["--clients", "1", "--time", "100ms", "--hold", "10s", "--only", "contended"];
    let said = dlock(&quorum, &[&["bench", "--json"], &options[..]].concat()).with_code(0);
    let report = Report::read(&said);
    let line = report.contended();
    assert_eq!((&line["grants"], &line["unserved"]), (&0.into(), &0.into()), "{line}");
    assert!(line["wait_ms"]["max"].is_null() && line["jain"].is_null(), "{line}");
    assert!(number(line, "held_share") > 0.9, "{line}");
    quorum.until_released();
}

#[test]
fn many_clients_need_no_more_open_files_than_the_system_gives() {
    let quorum = Quorum::start(3);
    let mut command = program::with_usual_signals("sh");
    command.args(["-c", "ulimit -S -n 1024; exec \"$0\" \"$@\""]).arg(program::path());
    command.env("DLOCK_NODES", quorum.direct_urls().join(","));
    let many = ["--clients", "400", "--hold", "5ms", "--time", "500ms", "--node-timeout", "5s"];
    let said = program::run(command.args(["bench", "--json", "--only", "contended"]).args(many));
    let report = Report::read(&said.with_code(0));
    assert_contended(report.contended(), 3, 400, 5.0);
    quorum.until_released();
}
