//! Two hundred thousand leases that end in the same second, and a client that does not notice.
//!
//! What a PING waits for is the server's own work, or that server and client wait for a processor:
//! the kernel counts the latter for each of them, and only the former is judged.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_every_server};

const LEASES: u64 = 200_000;
/// All leases end so long after they were set, at the least.
const END: Duration = Duration::from_secs(2);
const WORST: Duration = Duration::from_millis(10);
/// All of them are gone so soon after their end, if the server has a processor all the time.
const GONE: Duration = Duration::from_secs(5);

#[apply(on_every_server)]
fn a_storm_of_ended_leases_keeps_nobody_waiting(kind: Kind) {
    storm(&Server::start(kind));
}

/// With everything that an ended lease is written to: the log, and a replica that follows it.
#[apply(on_every_server)]
fn a_storm_with_a_replica_and_a_log_keeps_nobody_waiting(kind: Kind) {
    let server = Server::build(kind).config("appendonly yes").config("appendfsync everysec");
    let server = server.start();
    let replica = Server::build(kind).replica_of(&server).start();
    eventually("the replica is in step", || {
        server.info("replication").get("slave0").is_some_and(|line| line.contains("state=online"))
    });
    storm(&server);
    eventually("the replica has heard of every end", || replica.run("DBSIZE").int() == 0);
    assert_eq!(replica.node("leases").int(), 0);
}

fn storm(server: &Server) {
    let idle = with_pings(server, || thread::sleep(Duration::from_secs(1)));

    acquire_all(server);
    // However long it takes here to set all leases: the last is set long before the first ends.
    let end = END.max(set_all(server, Duration::from_secs(600)) * 4);
    let begun = Instant::now();
    set_all(server, end);
    assert_eq!(server.node("leases").int(), LEASES as i64);

    thread::sleep(end.saturating_sub(begun.elapsed() + Duration::from_millis(100)));
    let waited = waited_for_a_processor(server);
    let storm = with_pings(server, || {
        while server.node("leases").int() > 0 {
            assert!(begun.elapsed() < end + 20 * GONE, "they never end");
            // Its own questions must not disturb what is measured.
            thread::sleep(Duration::from_millis(50));
        }
    });
    let gone = begun.elapsed().saturating_sub(end);
    let waited = waited_for_a_processor(server) - waited;
    let seen = format!(
        "{storm}\nidle, before: {idle}\n\
         all gone {gone:?} after their end, {waited:?} of it without a processor"
    );
    assert!(gone.saturating_sub(waited) < GONE, "{seen}");
    assert!(storm.worst.own < WORST, "{seen}");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert_eq!(server.info_number("dlock", "dlock_expiries"), LEASES as i64);
    println!("{seen}");
}

fn acquire_all(server: &Server) {
    let mut holder = server.client();
    for first in (0..LEASES).step_by(2000) {
        let batch = first..(first + 2000).min(LEASES);
        let answers = holder.pipeline(batch.map(|n| format!("DLOCK.ACQUIRE k{n} t{n} 600000")));
        assert!(answers.iter().all(|fence| fence.int() > 0));
    }
}

/// Sets all leases to end so long from now, within some milliseconds, and says how long it took.
/// One script would let all end at once, and leave a server that uses the system's allocator with
/// garbage that it needs tens of milliseconds to put in order, in the midst of the storm.
fn set_all(server: &Server, left: Duration) -> Duration {
    let mut holder = server.client();
    let begun = Instant::now();
    for first in (0..LEASES).step_by(2000) {
        let left = left.saturating_sub(begun.elapsed()).as_millis();
        let batch = first..(first + 2000).min(LEASES);
        let answers = holder.pipeline(batch.map(|n| format!("DLOCK.EXTEND k{n} t{n} {left}")));
        assert!(answers.iter().all(|fence| fence.int() > 0));
    }
    begun.elapsed()
}

/// For how long the server's main thread could have run and had no processor, since its start.
fn waited_for_a_processor(server: &Server) -> Duration {
    let id = server.process_id();
    times(&format!("/proc/{id}/task/{id}/schedstat")).1
}

/// What a client that sends PING again and again has seen.
#[derive(Default)]
struct Pings {
    count: usize,
    /// The one for which the server alone took longest.
    worst: Ping,
    /// The longest of all, whoever was to blame.
    longest: Ping,
}

/// One PING.
#[derive(Clone, Copy, Default)]
struct Ping {
    took: Duration,
    /// Of that: without the time in which server or client could have run and had no processor.
    own: Duration,
    /// Of that: the server at work.
    ran: Duration,
}

/// Sends PING without a pause for as long as the work takes.
fn with_pings(server: &Server, work: impl FnOnce()) -> Pings {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings: ScopedJoinHandle<Pings> = scope.spawn(|| ping_until(server, &over));
        work();
        over.store(true, Ordering::Relaxed);
        pings.join().expect("it does not panic")
    })
}

fn ping_until(server: &Server, over: &AtomicBool) -> Pings {
    let id = server.process_id();
    let server_thread = format!("/proc/{id}/task/{id}/schedstat");
    let own_thread = "/proc/thread-self/schedstat";
    let mut client = server.client();
    let mut pings = Pings::default();
    let (mut ran, mut waited) = times(&server_thread);
    let mut own_waited = times(own_thread).1;
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        client.run("PING");
        let took = sent.elapsed();
        pings.count += 1;
        // Reading the counters takes longer than a PING.
        if took < Duration::from_millis(1) && pings.count % 16 != 0 {
            continue;
        }
        let (ran_now, waited_now) = times(&server_thread);
        let own_waited_now = times(own_thread).1;
        let without = (waited_now - waited) + (own_waited_now - own_waited);
        let ran_since = ran_now - ran;
        // What it ran counts in any case: the waits since the last look may be of other PINGs.
        let own = took.saturating_sub(without).max(took.min(ran_since));
        let ping = Ping { took, own, ran: ran_since };
        (ran, waited, own_waited) = (ran_now, waited_now, own_waited_now);
        if ping.own > pings.worst.own {
            pings.worst = ping;
        }
        if ping.took > pings.longest.took {
            pings.longest = ping;
        }
    }
    pings
}

/// For how long a thread has run, and has waited for a processor.
fn times(schedstat: &str) -> (Duration, Duration) {
    let text = fs::read_to_string(schedstat).expect("the kernel counts what threads wait for");
    let mut numbers = text.split(' ').map(|number| number.trim().parse().expect("a number"));
    let mut next = || Duration::from_nanos(numbers.next().expect("three numbers"));
    (next(), next())
}

impl fmt::Display for Pings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pings { count, worst, longest } = self;
        write!(f, "{count} PINGs, the worst on the server's account {worst}; the longest {longest}")
    }
}

impl fmt::Display for Ping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ping { took, own, ran } = self;
        write!(f, "{own:?} (of {took:?}; the server ran {ran:?} since the last look)")
    }
}
