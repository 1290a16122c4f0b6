//! Waiters in order, and the first one vanishes.
//!
//! The recipe has tickets: each waiter blocks until the one before it leaves, like ZooKeeper's recipe built in
//! Redis. ZooKeeper ends the session of a client that vanished, and wakes its watcher; Redis does not. So the
//! watcher waits for ever, though the lock is free; and a holder that vanished holds on. In dlock's queue a waiter stays as long as its connection, and so does an
//! EPHEMERAL holder. EPHEMERAL also decides when a waiter vanishes at the moment of its grant. Without it the
//! lock is then held until the lease is over.
//!
//! Vanished means that the server sees the connection end, as when a process crashes. Where a network fails
//! in silence, TCP's keep-alive detects it, and only the end of the lease is sure.

use std::time::{Duration, Instant};

use harness::{
    Client, Kind, Proxy, Server, Way, apply, on_every_server, on_one_server, on_two_servers,
};

#[apply(on_one_server)]
fn the_watcher_of_a_waiter_that_vanishes_waits_for_ever(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let mut alice = server.client();
    let alices = take_ticket(&mut alice);
    assert_eq!(in_front(&mut alice, alices), None, "alice holds");
    let (bob, bobs) = watch(&server, alices);
    let (mut carol, carols) = watch(&server, bobs);
    let (mut dave, daves) = watch(&server, carols);

    bob.close();
    server.until_blocked(2);
    leave(&mut alice, alices);
    // The lock is free; the remaining clients wait, and so do new ones.
    let (mut erin, _) = watch(&server, daves);
    for waiter in [&mut carol, &mut dave, &mut erin] {
        assert_eq!(waiter.recv_within(Duration::from_millis(100)), None);
    }
    server.until_blocked(3);
    assert_eq!(server.run("ZRANGE job:queue 0 0").items()[0].text(), bobs.to_string());
}

#[apply(on_every_server)]
fn a_waiter_that_vanishes_delays_no_other(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let [bob, mut carol, mut dave] =
        ["bob", "carol", "dave"].map(|name| server.waiter(&wait_as(name)));
    let last = server.run("DLOCK.CHECK job alice").int();
    bob.close();
    server.until_blocked(2);
    assert_eq!(server.waiters("job"), ["carol", "dave"]);

    server.run("DLOCK.RELEASE job alice");
    // The grant is part of the release: it is there already.
    assert_eq!(server.holders("job"), ["carol"]);
    assert!(carol.recv().int() > last);
    assert!(!dave.has_answer());
    server.run("DLOCK.RELEASE job carol");
    assert!(dave.recv().int() > last);
}

/// The server reads the release before the end of the waiter's connection.
#[apply(on_two_servers)]
fn an_ephemeral_waiter_that_vanishes_in_the_moment_of_the_release_delays_no_other(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let (network, bob) = waiter_through_a_network(&server, "bob 60000 WAIT 0 EPHEMERAL");
    let mut carol = server.waiter(&wait_as("carol"));
    network.keep_back(Way::Up);
    bob.close();
    server.run("DLOCK.RELEASE job alice");
    assert_eq!(server.holders("job"), ["bob"]);
    network.pass();
    assert!(carol.recv().int() > 0);
    assert_eq!(server.holders("job"), ["carol"]);
}

/// The limit: the same without EPHEMERAL.
#[test]
fn a_waiter_that_vanishes_in_the_moment_of_the_release_holds_for_its_lease() {
    let server = Server::start(Kind::Valkey91);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let (network, bob) = waiter_through_a_network(&server, "bob 1000 WAIT 0");
    let mut carol = server.waiter(&wait_as("carol"));
    network.keep_back(Way::Up);
    bob.close();
    let released = Instant::now();
    server.run("DLOCK.RELEASE job alice");
    network.pass();
    assert!(carol.recv().int() > 0);
    assert!(released.elapsed() >= Duration::from_millis(1000), "{:?}", released.elapsed());
}

fn waiter_through_a_network(server: &Server, words: &str) -> (Proxy, Client) {
    let network = Proxy::start(server.port());
    let mut client = Client::connect(network.port()).expect("it listens");
    server.block(&mut client, &format!("DLOCK.ACQUIRE job {words}"));
    (network, client)
}

#[apply(on_one_server)]
fn a_ticket_outlives_a_holder_that_vanishes(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let mut alice = server.client();
    let alices = take_ticket(&mut alice);
    let (mut bob, _) = watch(&server, alices);
    let id = alice.id();
    vanish(&server, id, alice);
    assert_eq!(bob.recv_within(Duration::from_millis(300)), None);
    assert_eq!(server.run("ZRANGE job:queue 0 0").items()[0].text(), alices.to_string());
    assert_eq!(server.run("TTL job:queue").int(), -1, "this will not end");
}

#[apply(on_two_servers)]
fn an_ephemeral_holder_that_vanishes_hands_over(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    let fence = alice.run("DLOCK.ACQUIRE job alice 600000 EPHEMERAL").int();
    let [mut bob, mut carol] = ["bob", "carol"].map(|name| server.waiter(&wait_as(name)));
    let id = alice.id();
    vanish(&server, id, alice);
    assert!(bob.recv().int() > fence, "an hour before the lease would have ended");
    assert_eq!(server.holders("job"), ["bob"]);
    assert_eq!(server.waiters("job"), ["carol"]);
    assert!(!carol.has_answer());
}

fn wait_as(name: &str) -> String {
    format!("DLOCK.ACQUIRE job {name} 60000 WAIT 0")
}

fn vanish(server: &Server, id: i64, client: Client) {
    client.close();
    server.until_gone(id);
}

// --- each watches the one before it, like ZooKeeper's recipe ----------------------------------

/// Takes a ticket. The client with the lowest one holds the lock.
fn take_ticket(client: &mut Client) -> i64 {
    let ticket = client.run("INCR job:tickets").int();
    client.run(&format!("ZADD job:queue {ticket} {ticket}"));
    ticket
}

/// The ticket before this one: its client is to be watched.
fn in_front(client: &mut Client, ticket: i64) -> Option<i64> {
    let range = format!("ZRANGE job:queue ({ticket} -inf BYSCORE REV LIMIT 0 1");
    let range = client.run(&range);
    range.items().first().map(|before| before.text().parse().expect("a ticket is a number"))
}

/// A new waiter, blocked until the one before it leaves.
fn watch(server: &Server, before: i64) -> (Client, i64) {
    let mut client = server.client();
    let ticket = take_ticket(&mut client);
    assert_eq!(in_front(&mut client, ticket), Some(before));
    server.block(&mut client, &format!("BLPOP job:gone:{before} 0"));
    (client, ticket)
}

/// Returns the ticket, and wakes the next waiter.
fn leave(client: &mut Client, ticket: i64) {
    client.run(&format!("ZREM job:queue {ticket}"));
    client.run(&format!("RPUSH job:gone:{ticket} 1"));
}
