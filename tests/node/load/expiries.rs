//! A hundred thousand leases that end in the same second, and a client that does not notice.
//!
//! What a client waits for is the server's own work, or a machine that is busy with others: with the
//! server, the client, the network between them or a disk waiting for their turn. The kernel counts
//! for how long the server has run, and only that is judged: beside all that it worked meanwhile,
//! on a machine of whatever speed. In that count, a virtual machine that stands still is at work; but
//! it stands still now and then, and work in pieces that are too large comes again and again, or in
//! one.

use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use harness::busy::times;
use harness::{Kind, Server, apply, eventually, on_one_server};

const LEASES: u64 = 100_000;
/// All leases end this long after they were set, at the least.
const END: Duration = Duration::from_secs(2);
/// Before it answers, the server does no more than this part of all its work, but for this many
/// answers.
const PART: u32 = 25;
const BUT: usize = 3;
/// A time that is shorter is not judged.
const SHORT: Duration = Duration::from_millis(10);
/// All of them are gone this soon after their end, if the server has a processor all the time.
const GONE: Duration = Duration::from_secs(5);

#[apply(on_one_server)]
fn very_many_leases_that_end_at_once_keep_nobody_waiting(kind: Kind) {
    end_very_many(&Server::start(kind));
}

/// The server writes each ended lease to its log, and to a replica that follows it.
#[apply(on_one_server)]
fn with_a_replica_and_a_log_they_keep_nobody_waiting(kind: Kind) {
    let server = Server::build(kind).config("appendonly yes").config("appendfsync everysec");
    let server = server.start();
    let replica = Server::build(kind).replica_of(&server).start();
    eventually("the replica is in step", || {
        server.info("replication").get("slave0").is_some_and(|line| line.contains("state=online"))
    });
    end_very_many(&server);
    eventually("the replica has heard of every end", || replica.run("DBSIZE").int() == 0);
    assert_eq!(replica.node("leases").int(), 0);
}

fn end_very_many(server: &Server) {
    acquire_all(server);
    // However long it takes here to set all leases: the last is set long before the first ends. On
    // a machine that has just become slower it was not; then they are taken and set anew.
    let mut end = END.max(set_all(server, Duration::from_secs(600)).expect("ten minutes") * 4);
    let mut begun = Instant::now();
    while set_all(server, end).is_none() {
        server.run("FLUSHALL");
        acquire_all(server);
        end *= 2;
        begun = Instant::now();
    }
    assert_eq!(server.node("leases").int(), LEASES as i64);
    let expired = server.info_number("dlock", "dlock_expiries");

    thread::sleep(end.saturating_sub(begun.elapsed() + Duration::from_millis(100)));
    let (worked, waited) = server.at_work();
    let busy = with_questions(server, || {
        while server.node("leases").int() > 0 {
            assert!(begun.elapsed() < end + 20 * GONE, "they never end");
            // The test's own questions must not disturb the measurement.
            thread::sleep(Duration::from_millis(50));
        }
    });
    let gone = begun.elapsed().saturating_sub(end);
    let (worked, waited) = (server.at_work().0 - worked, server.at_work().1 - waited);
    let seen = format!(
        "{busy}\n\
         all gone {gone:?} after their end, {waited:?} of it without a processor, {worked:?} at work"
    );
    assert!(gone.saturating_sub(waited) < GONE, "{seen}");
    assert!(busy.worst[BUT].worked < SHORT.max(worked / PART), "{seen}");
    assert!(busy.on_the_way > 20, "{seen}");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert_eq!(server.info_number("dlock", "dlock_expiries") - expired, LEASES as i64);
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

/// Sets all leases to end this long from now, within some milliseconds, and says how long it took;
/// nothing if half of the time was over by then.
/// One script would let all end at once, and leave a server that uses the system's allocator with
/// garbage that it needs tens of milliseconds to put in order, in the midst of it.
fn set_all(server: &Server, end: Duration) -> Option<Duration> {
    let mut holder = server.client();
    let begun = Instant::now();
    for first in (0..LEASES).step_by(2000) {
        let left = end.saturating_sub(begun.elapsed());
        if left < end / 2 {
            return None;
        }
        let left = left.as_millis();
        let batch = first..(first + 2000).min(LEASES);
        let answers = holder.pipeline(batch.map(|n| format!("DLOCK.EXTEND k{n} t{n} {left}")));
        assert!(answers.iter().all(|fence| fence.int() > 0));
    }
    Some(begun.elapsed())
}

/// The answers to a client that asks again and again how many leases there are.
#[derive(Default)]
struct Answers {
    count: usize,
    /// The number of answers with some of the leases gone, and some left.
    on_the_way: usize,
    /// Those for which the server worked longest, the longest first.
    worst: [Answer; BUT + 1],
}

/// One of them.
#[derive(Clone, Copy, Default)]
struct Answer {
    took: Duration,
    /// The server at work meanwhile, and not only while its answer waited to be read.
    worked: Duration,
}

/// Asks without a pause for as long as the work takes.
fn with_questions(server: &Server, work: impl FnOnce()) -> Answers {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let answers: ScopedJoinHandle<Answers> = scope.spawn(|| ask_until(server, &over));
        work();
        over.store(true, Ordering::Relaxed);
        answers.join().expect("it does not panic")
    })
}

fn ask_until(server: &Server, over: &AtomicBool) -> Answers {
    let id = server.process_id();
    let thread = format!("/proc/{id}/task/{id}/schedstat");
    // For how long the server has run, and this thread has waited for a processor.
    let look = || (times(&thread).0, times("/proc/thread-self/schedstat").1);
    let mut client = server.client();
    let mut answers = Answers::default();
    let (mut ran, mut waited) = look();
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let left = client.run("DLOCK.NODE").at("leases").int();
        let took = sent.elapsed();
        let (ran_now, waited_now) = look();
        let worked = (ran_now - ran).min(took.saturating_sub(waited_now - waited));
        (ran, waited) = (ran_now, waited_now);
        answers.count += 1;
        answers.on_the_way += usize::from(0 < left && left < LEASES as i64);
        answers.add(Answer { took, worked });
    }
    answers
}

impl Answers {
    fn add(&mut self, answer: Answer) {
        if answer.worked > self.worst[BUT].worked {
            self.worst[BUT] = answer;
            self.worst.sort_by_key(|answer| Reverse(answer.worked));
        }
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers, {} on the way; the server worked", self.count, self.on_the_way)?;
        for Answer { took, worked } in &self.worst {
            write!(f, " {worked:?} of {took:?},")?;
        }
        write!(f, " and less for the others")
    }
}
