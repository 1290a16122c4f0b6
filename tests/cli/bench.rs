//! `dlock bench`: its report, and that it leaves nothing behind.
//!
//! Speed depends on the machine, so no test here states it.

use harness::locks::Traces;
use harness::program::{self, Said};
use harness::{Kind, Quorum, Server, apply, eventually, on_one_server};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::{address, dlock, dlock_at, servers};

/// The one line of JSON.
#[track_caller]
fn report(said: Said) -> Value {
    let [line] = <[Value; 1]>::try_from(said.with_code(0).json()).expect("one line");
    line
}

#[track_caller]
fn number(line: &Value, path: &str) -> f64 {
    line.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {line}"))
}

#[apply(on_one_server)]
fn a_free_lock_is_measured_and_nothing_is_left(kind: Kind) {
    let servers = servers(kind, 3);
    let traces = || -> Vec<Traces> {
        servers.iter().map(|server| Traces { fence: 0, ..server.traces() }).collect()
    };
    let before = traces();
    let line = report(dlock(&servers, &["bench", "--json", "--time", "200ms", "--ttl", "10m"]));
    assert_eq!(traces(), before);
    assert_eq!((&line["nodes"], &line["failures"]), (&3.into(), &0.into()));
    let figures = ["/acquire_us/p50", "/acquire_us/p99", "/acquire_us/max"];
    let figures = figures.map(|path| number(&line, path));
    assert!(figures[0] > 0.0 && figures.is_sorted(), "{line}");
    assert!(number(&line, "/release_us/p50") <= number(&line, "/release_us/p99"), "{line}");
    assert!(number(&line, "/ping_all_us/p50") > 0.0, "{line}");
    for server in &servers {
        assert_eq!(server.info_number("dlock", "dlock_expiries"), 0);
    }
}

#[test]
fn no_majority_is_no_measurement() {
    let mut quorum = Quorum::start(3);
    quorum[0].kill();
    quorum[2].network().refuse();
    let said = dlock_at(&quorum.urls(), &["bench", "--json", "--time", "100ms"]).with_code(69);
    assert!(said.out.is_empty() && !said.err.is_empty(), "{said:#?}");
    assert_eq!(quorum[1].info_number("dlock", "dlock_grants"), 0);
    for wrong in [["--time", "99ms"], ["--time", "61s"], ["--ttl", "11m"], ["--only", "cycle"]] {
        dlock_at(&quorum.urls(), &["bench", wrong[0], wrong[1]]).with_code(64);
    }
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let quorum = Quorum::start(3);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let before = quorum[0].info_number("dlock", "dlock_grants");
        let mut command = program::command(&quorum.urls());
        command.args(["bench", "--json", "--time", "1m", "--ttl", "10m"]);
        command.args(["--node-timeout", program::PATIENT]);
        let running = Running::of(command);
        eventually("it measures", || quorum[0].info_number("dlock", "dlock_grants") > before + 3);
        running.signal(signal);
        let said = running.ended().with_code(code);
        assert_eq!((said.out.as_str(), said.err.as_str()), ("", ""));
        quorum.until_released();
        assert_eq!(quorum[0].info_number("dlock", "dlock_expiries"), 0);
    }
}

/// The help page lists the rights that are enough.
#[test]
fn a_user_with_few_rights_is_enough_and_without_ping_no_ping_is_shown() {
    let servers = [Server::start(Kind::Redis82)];
    let help = dlock(&servers, &["bench", "--help"]).with_code(0).out;
    let rights = help.split("needs these rights:\n").nth(1).unwrap().lines().next().unwrap();
    let urls = [format!("redis://bench:secret@{}", address(&servers[0]))];
    servers[0].run(&format!("ACL SETUSER bench on >secret {}", rights.trim()));
    let arguments = ["bench", "--json", "--time", "100ms"];
    let line = report(dlock_at(&urls, &arguments));
    assert!(line["ping_all_us"].is_object(), "{line}");
    servers[0].run("ACL SETUSER bench -ping");
    let line = report(dlock_at(&urls, &arguments));
    assert!(line["ping_all_us"].is_null() && number(&line, "/acquire_us/p50") > 0.0, "{line}");
    let shown = dlock_at(&urls, &["bench", "--time", "100ms"]).with_code(0).out;
    assert!(!shown.contains("NaN") && shown.contains('-'), "{shown}");
    servers[0].run("ACL SETUSER bench resetkeys");
    let said = dlock_at(&urls, &arguments);
    assert!(said.code != Some(0) && said.err.contains("NOPERM"), "{said:#?}");
}
