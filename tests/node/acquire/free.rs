//! DLOCK.ACQUIRE without options: the grant, its fence, and the end of its lease.

use std::time::{Duration, Instant, SystemTime};

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

#[apply(on_one_server)]
fn a_fence_is_at_least_the_unix_time_in_microseconds(kind: Kind) {
    let server = Server::start(kind);
    let before = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64;
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let after = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64;
    // A server may read its clock once for many commands.
    let slack = 1_000_000;
    assert!((before - slack..=after).contains(&fence), "{fence}");
}

#[apply(on_two_servers)]
fn a_lease_ends_after_its_ttl_and_not_before(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let asked = Instant::now();
    client.run("DLOCK.ACQUIRE job alice 200");
    eventually("the lease ends", || client.run("DLOCK.CHECK job alice").is_null());
    assert!(asked.elapsed() >= Duration::from_millis(200));
    assert!(client.run("DLOCK.INSPECT job").is_null());
    assert!(client.run("DLOCK.ACQUIRE job bob 60000").int() > 0);
}

#[apply(on_two_servers)]
fn an_ended_lease_leaves_nothing_behind_without_a_request(kind: Kind) {
    let server = Server::start(kind);
    for job in 0..20 {
        server.run(&format!("DLOCK.ACQUIRE job{job} alice 50"));
    }
    eventually("all leases end", || server.run("DBSIZE").int() == 0);
    let traces = server.traces();
    assert_eq!((traces.leases, traces.waiters), (0, 0));
}
