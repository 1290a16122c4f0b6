//! Memory: operations that work when none is left, and no leaks.

use harness::{Client, Kind, Server, apply, on_one_server, on_two_servers};

// --- full ------------------------------------------------------------------------------------

#[apply(on_two_servers)]
fn a_full_server_refuses_new_locks_and_gives_back_old_ones(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.ACQUIRE other alice 60000");
    server.run("DLOCK.ACQUIRE shared alice 60000 SHARED");
    fill(&server);
    let before = server.traces();
    for ask in ["", " WAIT 0", " EPHEMERAL", " SHARED", " LIMIT 3"] {
        let refused = server.run(&format!("DLOCK.ACQUIRE new bob 60000{ask}"));
        assert_eq!(refused.code(), "OOM", "{ask}");
        let refused = server.run(&format!("DLOCK.ACQUIRE job bob 60000{ask}"));
        assert_eq!(refused.code(), "OOM", "{ask}");
    }
    assert_eq!(server.traces(), before);

    assert!(server.run("DLOCK.CHECK job alice").int() > 0);
    assert_eq!(server.run("DLOCK.EXTEND job alice 90000").int(), 1);
    assert!(server.holder("job")["ttl-ms"].int() > 60_000);
    assert_eq!(server.run("DLOCK.EXTEND job alice 90000 FENCE 1").int(), 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE shared alice").int(), 1);
    assert_eq!(server.run("DLOCK.BREAK other").int(), 1);
    assert_eq!(server.node("leases").int(), 0);
}

#[apply(on_two_servers)]
fn a_full_server_hands_over_to_present_waiters(kind: Kind) {
    let server = Server::start(kind);
    let mut ephemeral = server.client();
    server.run("DLOCK.ACQUIRE released alice 60000");
    server.run("DLOCK.ACQUIRE broken alice 60000");
    ephemeral.run("DLOCK.ACQUIRE left alice 60000 EPHEMERAL");
    let wait = |key| server.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    let mut waiters = Vec::from(["released", "broken", "left"].map(wait));
    fill(&server);
    server.run("CONFIG SET maxmemory 0");
    let [_, over, mut patient, mut hasty, _] = server.in_one_turn([
        "DLOCK.ACQUIRE over alice 500",
        "DLOCK.ACQUIRE over bob 60000 WAIT 0",
        "DLOCK.ACQUIRE over carol 60000 WAIT 0",
        "DLOCK.ACQUIRE over dave 60000 WAIT 800",
        "CONFIG SET maxmemory 1000000",
    ]);
    waiters.push(over);
    server.run("DLOCK.RELEASE released alice");
    server.run("DLOCK.BREAK broken");
    ephemeral.close();
    let fences: Vec<i64> = waiters.iter_mut().map(|waiter| waiter.recv().int()).collect();
    assert!(fences.iter().all(|fence| *fence > 0), "{fences:?}");
    assert!(hasty.recv().is_null());
    assert!(!patient.has_answer());
    assert_eq!(server.node("leases").int(), 4);
}

/// Leaves no memory for any request that needs some.
fn fill(server: &Server) {
    let used = server.used_memory();
    server.run(&format!("CONFIG SET maxmemory {}", used + 3_000_000));
    server.run("CONFIG SET maxmemory-policy noeviction");
    let mut client = server.client();
    for number in 0.. {
        let value = "x".repeat(10_000);
        let answer = client.run(&format!("SET fill{number} {value}"));
        if answer.is_error() {
            assert_eq!(answer.code(), "OOM");
            break;
        }
    }
    // Leases that end meanwhile must not make room.
    server.run("CONFIG SET maxmemory 1000000");
}

#[apply(on_two_servers)]
fn the_memory_of_locks_is_what_they_take(kind: Kind) {
    const MANY: i64 = 5_000;
    let server = Server::start(kind);
    let figures = || {
        let counted = server.info_number("dlock", "dlock_memory");
        (server.settled_memory(), counted)
    };
    for (mode, holders) in [("", 1), ("SHARED", 1), ("LIMIT 9", 1), ("LIMIT 9", 4), ("SHARED", 50)]
    {
        server.run("FLUSHALL");
        let before = figures();
        let ask = |n| {
            let (key, token) = (n / holders, n % holders);
            format!("DLOCK.ACQUIRE key{key} token{token} 600000 {mode}")
        };
        server.client().pipeline((0..MANY).map(ask));
        let after = figures();
        let (real, counted) = (after.0 - before.0, after.1 - before.1);
        // Tables grow by doubling.
        assert!(real < counted * 3 / 2 && counted < real * 2, "{mode} {holders}: {real} {counted}");
    }
}

// --- leaks -----------------------------------------------------------------------------------

/// Such a key would be copied and compared again and again.
#[apply(on_two_servers)]
fn a_key_of_megabytes_is_refused_and_leaves_nothing(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let (longest, longer) = ("k".repeat(16_384), "k".repeat(16_385));
    assert!(client.run_args(&["DLOCK.ACQUIRE", &longest, "t", "60000"]).int() > 0);
    assert_eq!(client.run_args(&["DLOCK.RELEASE", &longest, "t"]).int(), 1);
    let before = server.traces();
    for words in [
        &["DLOCK.ACQUIRE", &longer, "t", "60000", "WAIT", "0"][..],
        &["DLOCK.EXTEND", &longer, "t", "60000"],
        &["DLOCK.RELEASE", &longer, "t", "FINAL"],
        &["DLOCK.INSPECT", &longer],
    ] {
        client.run_args(words).assert_error("ERR", "key must be 0 to 16384 bytes long, not 16385");
    }
    assert_eq!(server.traces(), before);
}

#[apply(on_one_server)]
fn fifty_thousand_locks_leave_no_memory_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.accepted();
    assert_leaves_nothing(&server, |part| {
        let cycles = (0..part.of(50_000)).flat_map(|n| {
            let key = n % 1000;
            [format!("DLOCK.ACQUIRE k{key} t{n} 60000"), format!("DLOCK.RELEASE k{key} t{n}")]
        });
        let answers = client.pipeline(cycles);
        assert!(answers.iter().all(|answer| answer.int() > 0));
    });
}

#[apply(on_one_server)]
fn five_thousand_waiters_that_disconnect_leave_no_memory_behind(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 600000");
    assert_leaves_nothing(&server, |part| {
        for batch in 0..part.of(10) {
            let ask = |n| format!("DLOCK.ACQUIRE job t{batch}-{n} 60000 WAIT 0 META {n}");
            server.crowd(500, ask).into_iter().for_each(Client::close);
            server.until_blocked(0);
        }
    });
}

/// The share of the work, in tenths: one tenth brings every table to its size, the whole must not add to it.
#[derive(Clone, Copy)]
struct Part(usize);

impl Part {
    fn of(self, whole: usize) -> usize {
        whole * self.0 / 10
    }
}

/// Does the work twice, and compares the server's memory before and after the second time.
fn assert_leaves_nothing(server: &Server, mut work: impl FnMut(Part)) {
    let leases = server.node("leases").int();
    // These keep past commands on purpose.
    server.run("CONFIG SET slowlog-log-slower-than -1");
    let clients = server.info_number("clients", "connected_clients");
    // A program of another test may have connected just then, to a port that it had once.
    let is_idle = || {
        server.node("leases").int() == leases
            && server.node("waiters").int() == 0
            && server.info_number("clients", "connected_clients") <= clients
            && server.info_number("memory", "lazyfree_pending_objects") == 0
    };
    work(Part(1));
    harness::eventually("the warm-up is over", is_idle);
    let before = server.settled_memory();
    work(Part(10));
    harness::eventually("no lease and no waiter is left", is_idle);

    server.assert_memory_falls_back_to(before);
}
