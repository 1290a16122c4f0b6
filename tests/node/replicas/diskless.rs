//! Replicas with `repl-diskless-load swapdb`: they load a new data set beside the old one, and answer
//! from the old one until the new one is whole.

use std::time::Instant;

use harness::quarantine::{PROMOTED, assert_bound};
use harness::{
    Builder, Client, Kind, Proxy, Server, Value, Way, apply, bytes, eventually, on_every_server,
};

use super::promotion::{promote, times_told, until_told, until_told_more};

const SWAPS: [&str; 2] = [
    "repl-diskless-load swapdb",
    // Clients have their turn after this many bytes.
    "loading-process-events-interval-bytes 1024",
];

fn with(builder: Builder, lines: &[&str]) -> Builder {
    lines.iter().fold(builder, |builder, line| builder.config(line))
}

/// A primary that streams its data set, with some data and locks, and the network of its replicas.
fn primary(kind: Kind) -> (Server, Proxy) {
    let lines = ["repl-diskless-sync yes", "rdbcompression no", "repl-backlog-size 16384"];
    let primary = with(Server::build(kind), &lines).start();
    primary.run("DEBUG POPULATE 600 filler 10000");
    for lock in ["kept alice 60000", "gone alice 60000", "book alice 60000 SHARED"] {
        assert!(primary.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
    }
    let mut there = primary.client();
    there.run("SELECT 1");
    for lock in ["there alice 60000", "pool alice 60000 LIMIT 2"] {
        assert!(there.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
    }
    let network = Proxy::start(primary.port());
    (primary, network)
}

/// A replica behind that network.
fn replica(kind: Kind, network: &Proxy) -> Server {
    let builder = with(Server::build(kind), &SWAPS);
    builder.config(&format!("replicaof 127.0.0.1 {}", network.port())).start()
}

/// The replica loses its place in the stream, and gets another data set of the same history, bit by bit until
/// the network passes everything.
fn change_and_stream_again(primary: &Server, network: &Proxy) {
    network.trickle(Way::Down);
    let mut client = primary.client();
    let long = "x".repeat(20_000);
    let writes = (0..20).map(|n| format!("SET long:{n} {long}"));
    let steps = ["MULTI", "CLIENT KILL TYPE replica"].map(str::to_owned).into_iter().chain(writes);
    let locks = [
        "DLOCK.RELEASE gone alice",
        "DLOCK.ACQUIRE fresh bob 60000",
        "DLOCK.ACQUIRE book bob 60000 SHARED",
        "DLOCK.ACQUIRE pool bob 60000 LIMIT 2",
        "EXEC",
    ];
    let answers = client.pipeline(steps.chain(locks.map(str::to_owned)));
    assert!(!answers.iter().any(Value::is_error), "{answers:?}");
}

/// The locks' state on a server, in its replies.
#[derive(Debug, PartialEq)]
struct Seen {
    kept: Value,
    gone: Value,
    fresh: Value,
    readers: usize,
    leases: i64,
}

const QUESTIONS: [&str; 5] = [
    "DLOCK.INSPECT kept",
    "DLOCK.INSPECT gone",
    "DLOCK.INSPECT fresh",
    "DLOCK.INSPECT book",
    "DLOCK.NODE",
];

impl Seen {
    fn at(server: &Server) -> Seen {
        Seen::read(&server.client().pipeline(QUESTIONS.map(str::to_owned)))
    }

    fn read(answers: &[Value]) -> Seen {
        let [kept, gone, fresh, book, node] = answers else { panic!("{answers:?}") };
        let readers = if book.is_null() { 0 } else { book.at("holders").items().len() };
        let leases = node.at("leases").int();
        let [kept, gone, fresh] = [kept, gone, fresh].map(|lock| match lock {
            Value::Null => Value::Null,
            lock => lock.at("holders").items()[0].at("fence"),
        });
        Seen { kept, gone, fresh, readers, leases }
    }

    /// The locks' state in the middle of a load, and the answer to a request for a lock.
    fn while_loading(client: &mut Client) -> Option<(Seen, Value)> {
        let questions = ["INFO persistence"].into_iter().chain(QUESTIONS);
        let questions = questions.chain(["DLOCK.ACQUIRE free bob 1000", "INFO persistence"]);
        let answers = client.pipeline(questions.map(str::to_owned));
        let [before, seen @ .., acquire, after] = &answers[..] else { panic!("{answers:?}") };
        let loads = |info: &Value| !info.is_error() && info.text().contains("async_loading:1");
        (loads(before) && loads(after)).then(|| (Seen::read(seen), acquire.clone()))
    }
}

/// Asserts that a replica answers from its old data set in the middle of a load.
#[track_caller]
fn assert_reads_go_on(replica: &Server, old: &Seen) {
    let mut client = replica.client();
    let mut seen = None;
    eventually("it loads beside what it has", || {
        seen = Seen::while_loading(&mut client);
        seen.is_some()
    });
    let (seen, acquire) = seen.expect("just seen");
    assert_eq!(seen, *old);
    assert_eq!(acquire.code(), "READONLY");
}

fn until_loaded(replica: &Server) {
    eventually("the load has ended", || {
        let info = replica.info("persistence");
        info.get("async_loading").is_some_and(|is| is == "0") && info["loading"] == "0"
    });
}

#[apply(on_every_server)]
fn a_replica_answers_from_its_old_locks_until_it_has_all_new_ones(kind: Kind) {
    let (primary, network) = primary(kind);
    let replica = replica(kind, &network);
    until_told(&primary, &replica);
    let old = Seen::at(&replica);
    assert_eq!((old.readers, old.leases, old.fresh.is_null()), (1, 5, true));

    let before = times_told(&replica);
    change_and_stream_again(&primary, &network);
    assert_reads_go_on(&replica, &old);
    network.pass();
    until_loaded(&replica);
    until_told_more(&primary, &replica, before);
    let new = Seen::at(&replica);
    assert_eq!(new, Seen::at(&primary));
    assert_eq!((new.readers, new.leases, new.gone.is_null()), (2, 7, true));
    primary.assert_agrees_with(&replica);
    assert!(!replica.log().contains("Skipping diskless"), "{}", replica.log());

    // The new locks end when their time has come, and not before.
    let since = Instant::now();
    primary.pause();
    promote(&replica);
    assert_bound(replica.assert_in_quarantine(PROMOTED), 60_000, since);
    replica.leave_quarantine();
    assert!(replica.run("DLOCK.ACQUIRE fresh eve 1000").is_null());
    assert!(replica.run("DLOCK.ACQUIRE gone eve 1000").int() > 0);
    assert_eq!(replica.run("DLOCK.RELEASE fresh bob").int(), 1);
    assert_eq!(replica.run("DLOCK.RELEASE pool bob").int(), 1);
    eventually("they end", || replica.run("EXISTS fresh pool gone").int() == 0);
    assert_eq!(replica.node("leases").int(), 5);
    // The new locks of another database count.
    replica.run("FLUSHDB");
    assert_eq!(replica.node("leases").int(), 2);
    let mut there = replica.client();
    there.run("SELECT 1");
    there.run("FLUSHDB");
    assert_eq!(replica.node("leases").int(), 0);
}

#[apply(on_every_server)]
fn a_load_that_is_given_up_leaves_everything_as_it_was(kind: Kind) {
    let (primary, network) = primary(kind);
    let replica = replica(kind, &network);
    until_told(&primary, &replica);
    let old = Seen::at(&replica);

    // The replica's link is cut, and there is none for a while.
    let since = Instant::now();
    change_and_stream_again(&primary, &network);
    assert_reads_go_on(&replica, &old);
    network.refuse();
    until_loaded(&replica);
    assert_eq!(Seen::at(&replica), old);

    // The replica keeps its figures: it neither forgets the lease bound, nor assumes the largest.
    promote(&replica);
    assert_bound(replica.assert_in_quarantine(PROMOTED), 60_000, since);
    assert_eq!(Seen::at(&replica), old);
    replica.leave_quarantine();
    assert_eq!(replica.run("DLOCK.RELEASE gone alice").int(), 1);
    eventually("it ends", || replica.run("EXISTS gone").int() == 0);
    assert_eq!(replica.run("DLOCK.RELEASE kept alice").int(), 1);
    assert_eq!(replica.node("leases").int(), 3);
    assert!(replica.run("DLOCK.ACQUIRE fresh eve 60000").int() > 0);
    assert_restored_locks_are_minded(&replica);
    replica.run("CONFIG SET dlock.quarantine auto");

    // And back: the next load is whole.
    network.pass();
    replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    primary.assert_agrees_with(&replica);
    assert_eq!(Seen::at(&replica), Seen::at(&primary));
}

/// Asserts that a loaded lock counts.
#[track_caller]
fn assert_restored_locks_are_minded(server: &Server) {
    let leases = server.node("leases").int();
    let mut client = server.client();
    client.run("DLOCK.ACQUIRE read alice 60000");
    let payload = client.run("DUMP read");
    assert_eq!(client.run("DLOCK.RELEASE read alice").int(), 1);
    let restore = bytes!["RESTORE", "read", "0", payload.bytes()];
    assert_eq!(client.run_args(&restore).text(), "OK");
    assert_eq!(server.node("leases").int(), leases + 1);
    assert_eq!(client.run("DLOCK.RELEASE read alice").int(), 1);
    assert_eq!(server.node("leases").int(), leases);
}
