//! The bound on the memory that locks take: a client that asks for more is refused, and no other client is.

use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers};

const MOST: i64 = 16 << 20;

/// A server with little memory.
fn small(kind: Kind) -> Server {
    Server::build(kind).config(&format!("maxmemory {MOST}")).start()
}

fn info(server: &Server, field: &str) -> i64 {
    server.info_number("dlock", &format!("dlock_{field}"))
}

/// Takes further locks until one is refused. Returns their number.
fn take_all(client: &mut Client, options: impl Fn(usize) -> String) -> usize {
    let meta = "m".repeat(1000);
    for batch in 0..100 {
        let number = |n| batch * 500 + n;
        let take = |n| format!("DLOCK.ACQUIRE {} META {meta}", options(number(n)));
        let answers = client.pipeline((0..500).map(take));
        if let Some(taken) = answers.iter().position(|answer| !answer.is_int()) {
            for refused in &answers[taken..] {
                assert_eq!(refused.code(), "TOOMANY", "{refused:?}");
            }
            return number(taken);
        }
    }
    panic!("there is no end of it");
}

/// One holder makes room, and thousands of readers have their turn after it.
#[apply(on_one_server)]
fn waiters_for_their_turn_are_bounded_as_well(kind: Kind) {
    let limits = ["maxmemory 64mb", "dlock.max-memory-percent 10"];
    let server = limits.into_iter().fold(Server::build(kind), |server, limit| server.config(limit));
    let server = server.start();
    let most = info(&server, "memory_most");
    let mut client = server.client();
    client.pipeline((0..5).map(|key| format!("DLOCK.ACQUIRE k{key} holder 600000")));
    let meta = "m".repeat(400);
    for key in 0..4 {
        let ask = |n| format!("DLOCK.ACQUIRE k{key} t{n} 60000 SHARED KEEP 60000 META {meta}");
        let answers = client.pipeline((0..9_000).map(ask));
        let full = info(&server, "memory") >= most;
        assert!(answers.iter().all(|answer| match full {
            true => answer.code() == "TOOMANY",
            false => answer.is_null(),
        }));
        server.run(&format!("DLOCK.RELEASE k{key} holder"));
        eventually("all have had their turn", || server.node("places").int() == 0);
    }
    let places = 9_000 * 700;
    let used = info(&server, "memory");
    assert!((most..most + places).contains(&used), "{used} of {most}");
    // A client that takes a lock after another of the same size is not affected.
    let mut waiter = server.waiter("DLOCK.ACQUIRE k4 next 600000 WAIT 0");
    server.run("DLOCK.RELEASE k4 holder");
    assert!(waiter.recv().int() > 0);
}

#[apply(on_one_server)]
fn released_locks_make_room(kind: Kind) {
    let server = small(kind);
    let mut client = server.client();
    let taken = take_all(&mut client, |n| format!("k{n} t 600000"));
    assert_eq!(server.run("DLOCK.ACQUIRE other t 600000").code(), "TOOMANY");
    assert_eq!(server.run("DLOCK.ACQUIRE other t 600000 WAIT 0").code(), "TOOMANY");
    // Reserved places, and the turns of clients that have one, are not bounded here.
    let mut waiter = server.waiter("DLOCK.ACQUIRE k7 next 600000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE k7 t").int(), 1);
    assert!(waiter.recv().int() > 0);
    server.run("DLOCK.RELEASE k8 t");
    server.run("DLOCK.RELEASE k9 t");
    assert!(server.run("DLOCK.ACQUIRE other t 600000").int() > 0);
    client.pipeline((0..taken).map(|n| format!("DLOCK.BREAK k{n}")));
    server.run("DLOCK.BREAK other");
    assert_eq!((info(&server, "memory"), info(&server, "leases")), (0, 0));
}

#[apply(on_one_server)]
fn the_bound_follows_its_settings(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("CONFIG GET dlock.max-memory-percent").items()[1].text(), "50");
    assert_eq!(info(&server, "memory_most"), 0);
    server.run("CONFIG SET maxmemory 100mb");
    assert_eq!(info(&server, "memory_most"), (50 << 20) / 100 * 100);
    server.run("DLOCK.ACQUIRE job alice 600000");
    let used = info(&server, "memory");
    assert!((100..1000).contains(&used), "{used}");
    server.run("CONFIG SET dlock.max-memory-percent 1");
    assert_eq!(info(&server, "memory_most"), 1 << 20);
    server.run("CONFIG SET maxmemory 0");
    assert_eq!(info(&server, "memory_most"), 0);
    for bad in ["0", "101"] {
        assert_eq!(server.run(&format!("CONFIG SET dlock.max-memory-percent {bad}")).code(), "ERR");
    }
}

#[apply(on_two_servers)]
fn what_locks_take_is_counted_by_whatever_way_they_come_and_go(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    let mut client = server.client();
    let long = "k".repeat(300);
    let locks = ["a t 600000", "b t 600000 SHARED", "c t 600000 LIMIT 3 META m"];
    let locks = locks.map(str::to_owned).into_iter().chain([format!("{long} t 600000 META m")]);
    let locks: Vec<String> = locks.map(|lock| format!("DLOCK.ACQUIRE {lock}")).collect();
    client.pipeline(locks.clone());
    client.run("DLOCK.ACQUIRE b u 600000 SHARED META mm");
    let all = info(&server, "memory");
    for round in ["DEBUG RELOAD", "SWAPDB 0 0"] {
        assert_eq!(server.run(round).text(), "OK");
        assert_eq!(info(&server, "memory"), all, "{round}");
    }
    server.restart();
    assert_eq!(info(&server, "memory"), all);
    server.run("DLOCK.RELEASE b u");
    assert!(info(&server, "memory") < all);
    for end in ["DEL a", "RENAME b d", "SET c text", &format!("DLOCK.RELEASE {long} t")] {
        server.run(end);
    }
    assert_eq!((info(&server, "leases"), info(&server, "memory")), (0, 0));
}
