//! Two thousand waiters on one key, and two thousand keys with a waiter each: whatever makes a lock
//! free, all who can have it have it in the same moment, and in the order in which they came.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, Kind, Server, Value, apply, eventually, on_one_server};

const MANY: usize = 2000;

// --- one key -----------------------------------------------------------------------------------

#[apply(on_one_server)]
fn a_queue_of_thousands_passes_a_lock_on_in_order_whatever_ends_a_hold(kind: Kind) {
    let server = Server::start(kind);
    let mut last = server.run("DLOCK.ACQUIRE job first 60000").int();
    // The way in which a hold ends goes by its number.
    let ask = |n: usize| match n % 4 {
        0 | 1 => format!("DLOCK.ACQUIRE job t{n} 600000 WAIT 0"),
        2 => format!("DLOCK.ACQUIRE job t{n} 600000 WAIT 0 EPHEMERAL"),
        _ => format!("DLOCK.ACQUIRE job t{n} 2 WAIT 0"),
    };
    let line = server.line(MANY, ask);
    assert_eq!(server.node("waiters").int(), MANY as i64);
    assert_eq!(server.waiters("job"), (0..100).map(|n| format!("t{n}")).collect::<Vec<_>>());

    let mut operator = server.client();
    assert_eq!(operator.run("DLOCK.RELEASE job first").int(), 1);
    for (number, mut client) in line.into_iter().enumerate() {
        let fence = client.recv().int();
        assert!(fence > last, "{number}: {fence} after {last}");
        last = fence;
        let next = number + 1;
        // In one transaction with the end of the hold, the next one has it already.
        let end = match number % 4 {
            0 => format!("DLOCK.RELEASE job t{number}"),
            1 => "DLOCK.BREAK job".to_owned(),
            2 => {
                client.close();
                continue;
            }
            _ => continue,
        };
        let check = format!("DLOCK.CHECK job t{next}");
        let answers = operator.pipeline(["MULTI".to_owned(), end, check, "EXEC".to_owned()]);
        let [ended, held] = answers[3].items() else { panic!("{answers:?}") };
        assert_eq!(ended.int(), 1, "{number}");
        assert!(held.int() > last, "{number}: {held:?}");
    }
    eventually("the last lease ends", || server.run("DBSIZE").int() == 0);
    let handovers = server.info_number("dlock", "dlock_handovers");
    assert_eq!(handovers, MANY as i64);
}

#[apply(on_one_server)]
fn thousands_of_readers_follow_a_writer_and_let_others_through(kind: Kind) {
    let server = Server::start(kind);
    let mut readers = server.clients(MANY);
    for end in ["DLOCK.RELEASE book writer", "DLOCK.BREAK book"] {
        server.run("DLOCK.ACQUIRE book writer 60000");
        for (n, reader) in readers.iter_mut().enumerate() {
            reader.send(&format!("DLOCK.ACQUIRE book t{n} 60000 SHARED WAIT 0"));
        }
        server.until_blocked(MANY as i64);
        let said = server.client().pipeline([end, "DLOCK.NODE"].map(str::to_owned));
        assert_eq!(said[0].int(), 1);
        assert!(said[1].at("waiters").int() >= MANY as i64 - 64, "all at once: {end}");
        eventually("they are in", || server.node("waiters").int() == 0);
        assert_eq!(server.node("leases").int(), MANY as i64, "{end}");
        assert!(readers.iter_mut().all(|reader| reader.recv().int() > 0), "{end}");
        assert_eq!(server.run("DLOCK.BREAK book").int(), MANY as i64);
    }
}

#[apply(on_one_server)]
fn thousands_of_readers_have_a_lock_as_soon_as_the_writer_before_them_gives_up(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE book holder 600000 SHARED");
    let mut readers = server.clients(MANY);
    // The time in which all of them wait, on this machine.
    let mut lined_up = Duration::ZERO;
    for way in ["killed", "disconnected", "withdrawn", "its time is over"] {
        let mut writer = server.client();
        let id = writer.id();
        let wait = if way == "its time is over" { 500 + 4 * lined_up.as_millis() } else { 0 };
        let begun = Instant::now();
        server.block(&mut writer, &format!("DLOCK.ACQUIRE book writer 60000 WAIT {wait}"));
        for (n, reader) in readers.iter_mut().enumerate() {
            reader.send(&format!("DLOCK.ACQUIRE book t{n} 60000 SHARED WAIT 0"));
        }
        server.until_blocked(MANY as i64 + 1);
        lined_up = lined_up.max(begun.elapsed());
        match way {
            "killed" => assert_eq!(server.run(&format!("CLIENT KILL ID {id}")).int(), 1),
            "disconnected" => writer.close(),
            "withdrawn" => assert_eq!(server.run("DLOCK.RELEASE book writer").int(), 0),
            _ => assert_eq!(writer.recv(), Value::Null),
        }
        eventually(way, || server.node("waiters").int() == 0);
        assert!(readers.iter_mut().all(|reader| reader.recv().int() > 0), "{way}");
        assert_eq!(server.node("leases").int(), 1 + MANY as i64, "{way}");
        for (n, reader) in readers.iter_mut().enumerate() {
            reader.send(&format!("DLOCK.RELEASE book t{n}"));
        }
        assert!(readers.iter_mut().all(|reader| reader.recv().int() == 1), "{way}");
    }
}

#[apply(on_one_server)]
fn permits_that_come_back_go_to_the_first_of_thousands(kind: Kind) {
    let server = Server::start(kind);
    let mut operator = server.client();
    let held =
        operator.pipeline((0..10).map(|n| format!("DLOCK.ACQUIRE pool h{n} 60000 LIMIT 10")));
    assert!(held.iter().all(|fence| fence.int() > 0));
    let ask = |n: usize| format!("DLOCK.ACQUIRE pool t{n} 60000 LIMIT 10 WAIT 0");
    let mut line = server.line(MANY, ask);
    let tokens: Vec<String> =
        (0..10).map(|n| format!("h{n}")).chain((0..MANY).map(|n| format!("t{n}"))).collect();
    let mut last = 0;
    for number in 0..MANY {
        let answers = operator.pipeline([
            format!("DLOCK.RELEASE pool {}", tokens[number]),
            format!("DLOCK.CHECK pool {}", tokens[number + 10]),
        ]);
        assert_eq!(answers[0].int(), 1, "{number}");
        assert!(answers[1].int() > last, "{number}: {answers:?}");
        last = answers[1].int();
        assert_eq!(line[number].recv().int(), last, "{number}");
    }
    assert_eq!(server.holders("pool"), tokens[MANY..]);
}

#[apply(on_one_server)]
fn a_writer_before_thousands_has_the_lock_as_soon_as_the_last_reader_leaves(kind: Kind) {
    let server = Server::start(kind);
    let mut leaving = server.client();
    server.run("DLOCK.ACQUIRE book one 60000 SHARED");
    leaving.run("DLOCK.ACQUIRE book two 60000 SHARED EPHEMERAL");
    let mut writer = server.waiter("DLOCK.ACQUIRE book writer 60000 WAIT 0");
    let mut crowd = server.crowd(MANY, |n| format!("DLOCK.ACQUIRE book t{n} 60000 SHARED WAIT 0"));
    server.run("DLOCK.RELEASE book one");
    assert!(!writer.has_answer());
    leaving.close();
    assert!(writer.recv().int() > 0);
    assert_eq!(server.holders("book"), ["writer"]);
    assert_eq!(server.node("waiters").int(), MANY as i64);
    assert_eq!(server.run("DLOCK.RELEASE book writer").int(), 1);
    eventually("they are in", || server.node("leases").int() == MANY as i64);
    assert!(crowd.iter_mut().all(|reader| reader.recv().int() > 0));
}

#[apply(on_one_server)]
fn thousands_that_wait_for_a_lock_that_is_removed_are_told_and_let_others_through(kind: Kind) {
    let server = Server::start(kind);
    let mut waiters = server.clients(MANY);
    for removal in ["DEL book", "SET book text", "RENAME book other"] {
        server.run("DEL book");
        server.run("DLOCK.ACQUIRE book holder 60000");
        for (n, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(&format!("DLOCK.ACQUIRE book t{n} 60000 WAIT 0"));
        }
        server.until_blocked(MANY as i64);
        let said = server.client().pipeline([removal, "DLOCK.NODE"].map(str::to_owned));
        assert!(!said[0].is_error(), "{removal}");
        assert!(said[1].at("waiters").int() >= MANY as i64 - 64, "all at once: {removal}");
        assert!(waiters.iter_mut().all(|waiter| waiter.recv().code() == "UNBLOCKED"), "{removal}");
        assert_eq!(server.node("waiters").int(), 0, "{removal}");
    }
}

// --- as many keys ------------------------------------------------------------------------------

#[apply(on_one_server)]
fn thousands_of_keys_are_handed_over_in_the_moment_they_become_free(kind: Kind) {
    let server = Server::start(kind);
    let mut waiters = server.clients(MANY);
    // The time in which all of them wait, on this machine.
    let mut lined_up = Duration::ZERO;
    for way in ["release", "break", "expire", "disconnect"] {
        let mut holder = server.client();
        let (lease, more) = match way {
            "expire" => (1000 + 4 * lined_up.as_millis() as u64, ""),
            "disconnect" => (600_000, " EPHEMERAL"),
            _ => (600_000, ""),
        };
        let begun = Instant::now();
        // They end in the same moment.
        let left = |since: Instant| lease.saturating_sub(since.elapsed().as_millis() as u64).max(1);
        let held = holder.pipeline(
            (0..MANY).map(|n| format!("DLOCK.ACQUIRE k{n} holder {}{more}", left(begun))),
        );
        assert!(held.iter().all(|fence| fence.int() > 0), "{way}");
        for (n, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(&format!("DLOCK.ACQUIRE k{n} t{n} 600000 WAIT 0"));
        }
        if way != "expire" {
            server.until_blocked(MANY as i64);
            lined_up = lined_up.max(begun.elapsed());
        }
        match way {
            "release" => commands(&mut holder, |n| format!("DLOCK.RELEASE k{n} holder")),
            "break" => commands(&mut holder, |n| format!("DLOCK.BREAK k{n}")),
            "expire" => {
                thread::sleep(Duration::from_millis(lease).saturating_sub(begun.elapsed()));
            }
            _ => holder.close(),
        }
        eventually(way, || {
            let node = server.run("DLOCK.NODE");
            let free = server.info_number("clients", "blocked_clients") == 0;
            free && node.at("waiters").int() == 0 && node.at("leases").int() == MANY as i64
        });
        let fences: Vec<Value> = waiters.iter_mut().map(Client::recv).collect();
        assert!(fences.iter().all(|fence| fence.int() > held[MANY - 1].int()), "{way}");
        let mut operator = server.client();
        commands(&mut operator, |n| format!("DLOCK.RELEASE k{n} t{n}"));
    }
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_one_server)]
fn thousands_of_queue_heads_that_give_up_at_once_let_the_next_through(kind: Kind) {
    let server = Server::start(kind);
    let mut operator = server.client();
    commands(&mut operator, |n| format!("DLOCK.ACQUIRE k{n} holder 600000 SHARED"));
    // The time in which as many wait, on this machine.
    let begun = Instant::now();
    drop(server.crowd(MANY, |n| format!("DLOCK.ACQUIRE k{n} writer 60000 WAIT 0")));
    eventually("the rehearsal is over", || server.node("waiters").int() == 0);
    let end = Duration::from_secs(1) + 6 * begun.elapsed();

    let begun = Instant::now();
    let mut heads = server.crowd(MANY, |n| {
        let left = end.saturating_sub(begun.elapsed()).as_millis();
        format!("DLOCK.ACQUIRE k{n} writer 60000 WAIT {}", left.max(1))
    });
    let mut next = server.crowd(MANY, |n| format!("DLOCK.ACQUIRE k{n} t{n} 60000 SHARED WAIT 0"));
    thread::sleep(end.saturating_sub(begun.elapsed()));
    eventually("everybody who can have a lock has it", || server.node("waiters").int() == 0);
    assert!(heads.iter_mut().all(|head| head.recv() == Value::Null));
    assert!(next.iter_mut().all(|reader| reader.recv().int() > 0));
    assert_eq!(server.node("leases").int(), 2 * MANY as i64);
}

/// Runs a command for each key.
fn commands(client: &mut Client, words: impl Fn(usize) -> String) {
    let answers = client.pipeline((0..MANY).map(words));
    assert!(answers.iter().all(|answer| answer.int() > 0), "{answers:?}");
}
