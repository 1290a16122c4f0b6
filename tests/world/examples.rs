//! The locks of docs/examples keep the promises of docs/any-client.md, with each client library.

use harness::quarantine::CRASHED;
use harness::{Kind, Proxy, Server, Way, apply, eventually};

use crate::client::{Library, Program};

/// Makes tests of a function of a library and of a server's kind: redis-py on every server, the others
/// on one each. Use it as `#[apply(with_every_library)]`.
macro_rules! with_every_library {
    (fn $name:ident($library:ident: Library, $kind:ident: Kind) $body:block) => {
        fn $name($library: Library, $kind: Kind) $body

        mod $name {
            with_every_library! { $name:
                redis_py_redis_7_0: RedisPy, Redis70;
                redis_py_redis_8_2: RedisPy, Redis82;
                redis_py_valkey_8_1: RedisPy, Valkey81;
                redis_py_valkey_9_1: RedisPy, Valkey91;
                ioredis: Ioredis, Valkey91;
                phpredis: Phpredis, Redis70;
                redis_rb: RedisRb, Valkey81;
            }
        }
    };
    ($name:ident: $($test:ident: $library:ident, $kind:ident;)*) => {$(
        #[test]
        fn $test() {
            super::$name(crate::client::Library::$library, harness::Kind::$kind);
        }
    )*};
}

#[apply(with_every_library)]
fn an_example_runs_as_it_stands(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    let mut example = programs.example();
    match library {
        Library::Phpredis => example.arg("127.0.0.1").arg(server.port().to_string()),
        _ => example.arg(format!("redis://127.0.0.1:{}", server.port())),
    };
    let output = example.output().expect("it can be run");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.starts_with("held with the fence "), "{out}");
    assert_eq!(server.run("GET {job:42}:runs").text(), "1");
    assert_nothing_is_left(&server);
}

#[apply(with_every_library)]
fn the_lock_is_exclusive(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    // Twenty clients that read a counter, sleep and write it.
    let (processes, tasks) = if library.has_tasks() { (4, "5") } else { (20, "1") };
    let count = || programs.start(server.port(), &["count", "job", "5", tasks]);
    let running: Vec<Program> = (0..processes).map(|_| count()).collect();
    for program in running {
        program.end();
    }
    assert_eq!(server.run("GET counter").text(), "100");
    assert_nothing_is_left(&server);
}

#[apply(with_every_library)]
fn the_first_request_is_served_first(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    server.run("DLOCK.ACQUIRE job before 600000");
    let names = ["1", "2", "3", "4", "5"];
    let running: Vec<Program> = names
        .iter()
        .zip(1..)
        .map(|(name, waiting)| {
            let program = programs.start(server.port(), &["turn", "job", name]);
            until_waiting(&server, waiting);
            program
        })
        .collect();
    server.run("DLOCK.RELEASE job before");
    for program in running {
        program.end();
    }
    assert_eq!(order(&server), names);
    assert_nothing_is_left(&server);
}

#[apply(with_every_library)]
fn a_read_time_out_loses_no_place_among_fifty(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    server.run("DLOCK.ACQUIRE job before 600000");
    let mut others: Vec<_> = (0..50).map(|_| server.client()).collect();
    let (ahead, behind) = others.split_at_mut(25);
    for (number, other) in ahead.iter_mut().enumerate() {
        other.send(&format!("DLOCK.ACQUIRE job ahead-{number} 600000 WAIT 0"));
        until_waiting(&server, number as i64 + 1);
    }
    let timeout = [("READ_TIMEOUT", "0.25")];
    let program = programs.start_with(server.port(), &["turn", "job", "program"], &timeout);
    until_waiting(&server, 26);
    for (number, other) in behind.iter_mut().enumerate() {
        other.send(&format!("DLOCK.ACQUIRE job behind-{number} 600000 WAIT 0"));
        until_waiting(&server, number as i64 + 27);
    }
    // The waiter has asked again several times, and keeps its place.
    let asked =
        || calls(&server, "acquire") + server.info_number("stats", "total_connections_received");
    // A request that ends with its connection is not counted as a call.
    let before = asked();
    eventually("it asks again", || asked() >= before + 4);
    server.run("DLOCK.RELEASE job before");
    let mut expected = Vec::new();
    for (name, others) in [("ahead", ahead), ("behind", behind)] {
        for (number, other) in others.iter_mut().enumerate() {
            assert!(other.recv().int() > 0);
            other.run(&format!("RPUSH order {name}-{number}"));
            other.run(&format!("DLOCK.RELEASE job {name}-{number}"));
            expected.push(format!("{name}-{number}"));
        }
        if name == "ahead" {
            expected.push("program".to_owned());
        }
    }
    program.end();
    assert_eq!(order(&server), expected);
}

#[apply(with_every_library)]
fn a_killed_holder_costs_its_lease(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    let mut program = programs.start(server.port(), &["hold", "job", "15"]);
    assert!(program.line().starts_with("held "));
    eventually("it renews", || calls(&server, "extend") >= 1);
    program.kill();
    let left = server.run("DLOCK.INSPECT job").at("holders").items()[0].at("ttl-ms").int();
    assert!(left <= 15_000, "{left}");
    assert!(server.run("DLOCK.ACQUIRE job next 1000 WAIT 0").int() > 0);
}

#[apply(with_every_library)]
fn a_killed_waiter_costs_its_keep(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    server.run("DLOCK.ACQUIRE job before 600000");
    let program = programs.start(server.port(), &["hold", "job", "600"]);
    until_waiting(&server, 1);
    program.kill();
    let mut next = server.client();
    next.send("DLOCK.ACQUIRE job next 1000 WAIT 0");
    server.run("DLOCK.RELEASE job before");
    // A lease of ten minutes would be in the way.
    assert!(next.recv().int() > 0);
}

#[apply(with_every_library)]
fn the_loser_of_the_lock_is_told(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let programs = library.programs();
    let mut program = programs.start(server.port(), &["hold", "job", "15"]);
    assert!(program.line().starts_with("held "));
    assert_eq!(server.run("DLOCK.BREAK job").int(), 1);
    assert_eq!(program.line(), "lost");
    program.end();
}

#[apply(with_every_library)]
fn errors_come_out_as_errors(library: Library, kind: Kind) {
    let mut server = Server::start(kind);
    let programs = library.programs();
    let fails = |server: &Server, key: &str, code: &str| {
        let said = programs.start(server.port(), &["fail", key]).end();
        // redis-py makes a class of some codes.
        let class = if code == "NOPERM" { "NoPermission" } else { code };
        assert!(said.contains(code) || said.contains(class), "{code}: {said}");
    };
    server.run("RPUSH list a");
    fails(&server, "list", "WRONGTYPE");
    server.run("ACL SETUSER default -dlock.acquire");
    fails(&server, "job", "NOPERM");
    server.run("ACL SETUSER default +dlock.acquire");

    // A longer one would keep its own key in quarantine, and not the node.
    server.run("DLOCK.ACQUIRE other before 60000");
    server.kill();
    server.start_again();
    server.assert_in_quarantine(CRASHED);
    fails(&server, "job", "QUARANTINE");
    assert_eq!(server.node("places").int(), 0);
}

#[apply(with_every_library)]
fn a_quarantine_is_waited_for(library: Library, kind: Kind) {
    let mut server = Server::start(kind);
    let programs = library.programs();
    // A longer one would keep its own key in quarantine, and not the node.
    server.run("DLOCK.ACQUIRE other before 60000");
    server.kill();
    server.start_again();
    server.assert_in_quarantine(CRASHED);
    let mut program = programs.start(server.port(), &["hold", "job", "30"]);
    until_waiting(&server, 1);
    server.leave_quarantine();
    assert!(program.line().starts_with("held "));
    program.kill();
}

#[apply(with_every_library)]
fn a_request_that_comes_late_takes_no_lock(library: Library, kind: Kind) {
    let server = Server::start(kind);
    let network = Proxy::start(server.port());
    let programs = library.programs();
    // The first request is on the way when the client asks again, on a new connection: after a time-out, or
    // because the first one was cut.
    network.keep_back_from(Way::Up, "DLOCK.ACQUIRE");
    let is_cut = library == Library::Ioredis;
    let timeout: &[_] = if is_cut { &[] } else { &[("READ_TIMEOUT", "0.25"), ("TOLD", "0.25")] };
    let program = programs.start_with(network.port(), &["turn", "job", "program"], timeout);
    eventually("its request is kept back", || network.has_kept_back(Way::Up));
    if is_cut {
        network.cut();
    }
    program.end();
    assert_eq!(order(&server), ["program"]);
    let asked = calls(&server, "acquire");
    network.pass();
    eventually("the late request arrives", || calls(&server, "acquire") > asked);
    assert!(server.run("DLOCK.INSPECT job").is_null());
}

/// A thousand cancellations around the moment of the grant. Each task that was cancelled has come
/// back, and the lock is free then.
fn no_task_holds_after_a_cancellation(library: Library) {
    let server = Server::start(Kind::Redis82);
    let programs = library.programs();
    let said = programs.start(server.port(), &["cancel", "job", "50", "20"]).end();
    assert!(said.ends_with(" left 0"), "{said}");
    assert_nothing_is_left(&server);
}

#[test]
fn no_task_holds_after_a_cancellation_of_ioredis() {
    no_task_holds_after_a_cancellation(Library::Ioredis);
}

#[test]
fn no_task_holds_after_a_cancellation_of_redis_rb() {
    no_task_holds_after_a_cancellation(Library::RedisRb);
}

#[test]
fn a_child_of_fork_neither_holds_nor_releases() {
    let server = Server::start(Kind::Redis82);
    for library in [Library::RedisPy, Library::RedisRb] {
        let said = library.programs().start(server.port(), &["fork", "job"]).end();
        assert_eq!(said, "child 7 holders 1");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn more_threads_than_connections_get_their_turns() {
    let server = Server::start(Kind::Valkey91);
    let small = [("POOL", "10")];
    let programs = Library::RedisPy.programs();
    programs.start_with(server.port(), &["count", "job", "5", "20"], &small).end();
    assert_eq!(server.run("GET counter").text(), "100");
    assert_nothing_is_left(&server);
}

fn until_waiting(server: &Server, waiting: i64) {
    eventually(&format!("{waiting} wait"), || {
        let found = server.run("DLOCK.INSPECT job");
        !found.is_null() && found.at("waiting").int() == waiting
    });
}

fn order(server: &Server) -> Vec<String> {
    server.run("LRANGE order 0 -1").items().iter().map(|name| name.text()).collect()
}

/// The number of calls of a command so far.
fn calls(server: &Server, command: &str) -> i64 {
    let stats = server.info("commandstats");
    let stats = stats.get(&format!("cmdstat_dlock.{command}")).map(String::as_str);
    let calls = stats.and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[track_caller]
fn assert_nothing_is_left(server: &Server) {
    for count in ["leases", "waiters", "places"] {
        assert_eq!(server.node(count).int(), 0, "{count}");
    }
}
