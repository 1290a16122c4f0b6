//! `dlock bench` with nodes that cannot be measured, or that it may not ask for everything.

use harness::{Kind, Quorum, Server, program};
use serde_json::Value;

use crate::bench::{PARTS, traces};
use crate::bench_report::{Report, assert_contended, number};
use crate::running::{Running, dlock};
use crate::{address, addresses, dlock_at, servers};

/// All that it needs, as the README says.
const ENOUGH: &str =
    "~dlock-bench:* -@all +dlock.acquire +dlock.release +dlock.extend +dlock.node +ping";

/// The reason for which a node was not measured.
#[track_caller]
fn reason(line: &Value) -> String {
    for figure in ["acquire_us", "release_us", "ping_us", "cycles_per_s"] {
        assert!(line.get(figure).is_none_or(Value::is_null), "{line}");
    }
    line["error"].as_str().unwrap_or_else(|| panic!("no reason: {line}")).to_owned()
}

/// A server that has crashed and starts again grants nothing for a while.
fn in_quarantine() -> Server {
    let mut server = Server::start(Kind::Redis82);
    assert!(server.run("DLOCK.ACQUIRE long alice 60000").is_int());
    server.kill();
    server.start_again();
    server
}

#[test]
fn a_node_that_cannot_be_measured_is_a_row_with_the_reason() {
    let mut good = servers(Kind::Valkey91, 4);
    let replica = Server::build(Kind::Valkey91).replica_of(&good[0]).start();
    good[0].until_followed_by(&replica);
    let bad = [in_quarantine(), Server::build(Kind::Redis82).without_module().start(), replica];
    // One that nobody listens to is down.
    let mut nodes = addresses(&good);
    nodes.extend(addresses(&bad));
    good[3].kill();
    let all: Vec<&Server> = good[..3].iter().chain(&bad[..1]).collect();
    let before = traces(all.iter().copied());

    // Three of five are good.
    for (others, words) in [
        ([nodes[3].clone(), nodes[4].clone()], ["refused", "QUARANTINE"]),
        ([nodes[5].clone(), nodes[6].clone()], ["module is not loaded", "replica"]),
    ] {
        let set = [&nodes[..3], &others].concat();
        let said = dlock_at(&set, &["bench", "--json", "--time", "300ms", "--node-timeout", "10s"]);
        let said = said.with_code(0);
        assert_eq!(said.err, "");
        let report = Report::read(&said);
        let of: Vec<&str> = report.cycles.iter().filter_map(|line| line["node"].as_str()).collect();
        assert_eq!(of, set, "in the given order");
        for (line, word) in report.cycles[3..].iter().zip(words) {
            let reason = reason(line).to_lowercase();
            assert!(reason.contains(&word.to_lowercase()), "no {word:?}: {reason}");
        }
        assert!(report.cycles[..3].iter().all(|line| number(line, "acquire_us/p50") > 0.0));
        assert!(report.quorum.is_some());
        assert_contended(report.contended(), 5, 16, 5.0);

        let shown = dlock_at(&set, &["bench", "--time", "100ms", "--only", "cycle"]);
        let shown = shown.with_code(0);
        assert_eq!(shown.err, "");
        for (node, word) in others.iter().zip(words) {
            let about = |line: &str| {
                line.contains(node) && line.to_lowercase().contains(&word.to_lowercase())
            };
            assert!(shown.out.lines().any(about), "no {node}: … {word}: {}", shown.out);
        }
    }
    assert_eq!(traces(all), before);
}

#[test]
fn no_majority_is_no_measurement() {
    let mut quorum = Quorum::start(3);
    let nodes = addresses_of(&quorum);
    quorum[0].kill();
    quorum[2].network().refuse();
    for only in ["cycle", "quorum", "contended", "cycle,quorum,contended"] {
        let said = dlock(&quorum, &["bench", "--json", "--time", "100ms", "--only", only]);
        let said = said.with_code(69);
        assert!(!said.err.is_empty(), "it says why");
        let report = Report::read(&said);
        for (line, node) in report.cycles.iter().zip(&nodes) {
            assert_eq!(line["node"], **node);
        }
        assert!(report.quorum.is_none() && report.contended.is_none(), "{said:#?}");
    }
    let said = dlock(&quorum, &["bench", "--time", "100ms"]).with_code(69);
    assert!(said.err.contains(&nodes[0]) || said.out.contains(&nodes[0]), "{said:#?}");
    assert_eq!(quorum[1].traces().keys, 0);
    assert_eq!(quorum[1].info_number("dlock", "dlock_grants"), 0, "it had no load");
    let nowhere = ["127.0.0.1:1".to_owned()];
    dlock_at(&nowhere, &["bench", "--time", "100ms"]).with_code(69);
}

#[test]
fn one_node_with_two_names_is_refused_before_any_load() {
    let quorum = Quorum::start(1);
    let nodes = [quorum.urls(), quorum.direct_urls()].concat();
    for only in PARTS {
        let said = dlock_at(&nodes, &["bench", "--time", "100ms", "--only", only]).with_code(64);
        assert!(said.err.contains("the same node"), "{}", said.err);
    }
    assert_eq!(quorum[0].info_number("dlock", "dlock_grants"), 0);
}

#[test]
fn a_node_that_takes_no_more_clients_is_said_with_how_many_it_took() {
    let server = Server::start(Kind::Redis82);
    server.run("CONFIG SET maxclients 30");
    let options = ["bench", "--only", "contended", "--clients", "100", "--time", "2s"];
    let said = dlock_at(&[address(&server)], &options).with_code(69);
    let (connected, _) = said.err.split_once(" of 100 clients connected").expect(&said.err);
    let connected: u32 = connected.rsplit(' ').next().unwrap_or_default().parse().expect(connected);
    assert!((1..30).contains(&connected), "{}", said.err);
    assert_eq!(server.info_number("dlock", "dlock_grants"), 0);
}

fn addresses_of(quorum: &Quorum) -> Vec<String> {
    quorum.urls().iter().map(|url| url.replace("redis://", "")).collect()
}

#[test]
fn a_deaf_node_costs_no_more_than_its_time_out() {
    let quorum = Quorum::start(3);
    quorum[1].network().swallow();
    let mut command = program::command(&quorum.urls());
    command.args(["bench", "--node-timeout", "400ms", "--json", "--time", "200ms"]);
    let said = Running::of(command).ended().with_code(0);
    let report = Report::read(&said);
    assert!(reason(&report.cycles[1]).contains("400 ms"), "{}", report.cycles[1]);
    assert_contended(report.contended(), 3, 16, 5.0);
    quorum[1].network().pass();
    quorum.until_released();
}

/// A user `app` with these rights on every node, and the URLs with which it logs in.
#[track_caller]
fn with_rights(servers: &[Server], rights: &str) -> Vec<String> {
    for server in servers {
        let made = server.run(&format!("ACL SETUSER app reset on >sesame {rights}"));
        assert_eq!(made.text(), "OK");
    }
    servers.iter().map(|server| format!("redis://app:sesame@{}", address(server))).collect()
}

#[test]
fn an_ordinary_user_with_five_commands_and_its_keys_may_measure() {
    let servers = servers(Kind::Redis82, 3);
    let urls = with_rights(&servers, ENOUGH);
    let said = dlock_at(&urls, &["bench", "--json", "--time", "300ms"]).with_code(0);
    assert_eq!(said.err, "");
    let report = Report::read(&said);
    assert!(report.cycles.iter().all(|line| number(line, "ping_us/p50") > 0.0), "{said:#?}");
    assert!(report.quorum.is_some());
    assert_contended(report.contended(), 3, 16, 5.0);
    assert_eq!(report.contended()["failures"], 0);
    for node in addresses(&servers) {
        assert!(report.cycles.iter().any(|line| line["node"] == *node), "without the password");
    }
    // Connections begin with what their library is, and do without the right to say so.
    let refused = servers[0].run("ACL LOG");
    let needless = |entry: &harness::Value| entry.at("object").text() == "client|setinfo";
    assert!(refused.items().iter().all(needless), "{refused:?}");
}

#[test]
fn a_user_who_may_not_ping_sees_no_ping() {
    let servers = servers(Kind::Valkey81, 3);
    let urls = with_rights(&servers, &format!("{ENOUGH} -ping"));
    let said = dlock_at(&urls, &["bench", "--json", "--time", "200ms"]).with_code(0);
    let report = Report::read(&said);
    for line in report.cycles.iter().chain(&report.quorum) {
        for path in ["/ping_us/p50", "/ping_all_us/p50", "/to_ping"] {
            assert!(line.pointer(path).is_none_or(Value::is_null), "{line}");
        }
        assert!(number(line, "acquire_us/p50") > 0.0, "{line}");
    }
    assert_contended(report.contended(), 3, 16, 5.0);
    let said = dlock_at(&urls, &["bench", "--time", "300ms"]).with_code(0);
    assert_eq!(said.err, "");
    assert!(!said.out.contains("NaN"), "{}", said.out);
}

#[test]
fn a_user_without_rights_to_a_node_is_told_so() {
    let servers = servers(Kind::Redis82, 3);
    let urls = with_rights(&servers, ENOUGH);
    with_rights(&servers[1..2], &format!("{ENOUGH} -dlock.acquire"));
    let said = dlock_at(&urls, &["bench", "--json", "--time", "100ms"]).with_code(0);
    let report = Report::read(&said);
    assert!(reason(&report.cycles[1]).contains("NOPERM"), "{said:#?}");
    with_rights(&servers, &format!("{ENOUGH} resetkeys ~other:*"));
    let said = dlock_at(&urls, &["bench", "--json", "--time", "100ms"]).with_code(69);
    assert!(format!("{said:?}").contains("NOPERM"), "{said:#?}");
}
