//! A web request that runs for longer than its lock lasts, in PHP, where no thread can renew the lock
//! meanwhile. Today's recipe takes the longest imaginable time as the expiry time, and every client waits
//! that long when a request crashes. With a shorter one, two are at work. The agent renews the lock while the
//! connection is open, and releases it with it.

use std::time::Duration;

use harness::{Agent, Kind, Server, Value, apply, eventually, on_one_server};

/// The lock lasts this long, and the request longer.
const LEASE: Duration = Duration::from_millis(500);
/// Where the agent renews it, on a machine that may be busy.
const LONGER: Duration = Duration::from_millis(6_000);

#[apply(on_one_server)]
fn a_request_is_longer_than_its_lock(kind: Kind) {
    let server = Server::start(kind);
    // Alice's request goes on, and Bob gets the lock.
    let take = |name: &str| {
        let taken = server.run(&format!("SET report {name} NX PX {}", LEASE.as_millis()));
        !taken.is_null()
    };
    assert!(take("alice") && !take("bob"));
    eventually("two are at work", || take("bob"));
}

#[apply(on_one_server)]
fn the_agent_renews_it_as_long_as_the_request_lives(kind: Kind) {
    let server = Server::start(kind);
    let agent = Agent::start(&[format!("127.0.0.1:{}", server.port())]);
    let ttl = LONGER.as_millis();
    let mut alice = agent.client();
    alice.run(&format!("DLOCK.ACQUIRE report alice {ttl} EPHEMERAL RENEW")).int();
    let bob = |options: &str| agent.run(&format!("DLOCK.ACQUIRE report bob {ttl} {options}"));
    let held = || server.holder("report")["held-ms"].int();
    eventually("it was held for longer than its lease", || {
        held() > LONGER.as_millis() as i64 + 500
    });
    assert_eq!(bob(""), Value::Null);
    assert!(alice.run("DLOCK.CHECK report alice").is_int());
    // The request crashes, and no client waits for a lease to end.
    alice.close();
    bob("WAIT 0").int();
}
