//! DLOCK.RELEASE … DONE: a lock that is done for a while, and DLOCK.ACQUIRE … AGAIN.
//!
//! In reading order:
//! - [`release`]: the holder alone leaves a lock done, and an error leaves it held;
//! - [`told`]: every waiter and every request gets DONE until the record expires;
//! - [`commands`]: the effects of other commands on it;
//! - [`fences`]: the next grant's fence is larger, and AGAIN;
//! - [`kept`]: the record is data, and its end a moment of the wall clock;
//! - [`payload`]: RESTORE brings a sound record, or is refused;
//! - [`limits`]: the records of a user, and memory.

mod commands;
mod fences;
mod kept;
mod limits;
mod payload;
mod release;
mod told;

use std::collections::BTreeMap;

use harness::{Client, Server, Value};

/// Alice takes a lock, and leaves it done with these options. Returns her fence.
#[track_caller]
fn leave_done(client: &mut Client, key: &str, options: &str) -> i64 {
    let fence = client.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    let released = client.run(&format!("DLOCK.RELEASE {key} alice DONE {options}"));
    assert_eq!(released, Value::Int(1), "{key}");
    fence
}

/// The numbers of an error `DONE left fence …`.
#[track_caller]
fn read(answer: &Value) -> (i64, i64) {
    let numbers = || {
        let mut words = answer.error().strip_prefix("DONE ")?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    numbers().unwrap_or_else(|| panic!("expected a DONE error, got {answer:?}"))
}

/// The moment when the lock is free again, and the client that has left it done.
#[track_caller]
fn record(server: &Server, key: &str) -> (i64, BTreeMap<String, Value>) {
    let mut client = server.client();
    let mut lock = client.run(&format!("DLOCK.INSPECT {key}")).map();
    assert_eq!(lock["mode"].text(), "done", "{lock:?}");
    lock.retain(|field, _| ["id", "fence", "meta"].contains(&&**field));
    assert_eq!(lock.len(), 3, "{lock:?}");
    (client.run(&format!("PEXPIRETIME {key}")).int(), lock)
}

/// Asserts that the lock is done by the holder with this fence, whatever else the node refuses.
#[track_caller]
fn assert_done(server: &Server, key: &str, fence: i64) {
    let (left, by) = read(&server.run(&format!("DLOCK.ACQUIRE {key} late 60000")));
    assert!(by == fence && left > 0, "{left} ms left, by {by}, not {fence}");
}
