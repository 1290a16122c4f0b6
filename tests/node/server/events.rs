//! Keyspace events of class `d`: dlock.acquire, dlock.release, dlock.done, dlock.expire, dlock.break.

use harness::{Client, Kind, Server, apply, on_one_server, on_two_servers};

/// A client that gets the events of the first database, as `dlock.<name> <key>`.
struct Listener(Client);

impl Listener {
    fn new(server: &Server) -> Listener {
        server.run("CONFIG SET notify-keyspace-events KEd");
        let mut client = server.client();
        let subscribed = client.run("PSUBSCRIBE __keyevent@0__:*");
        assert_eq!(subscribed.items()[2].int(), 1);
        Listener(client)
    }

    #[track_caller]
    fn next(&mut self) -> String {
        let message = self.0.recv();
        let [_, _, channel, key] = message.items() else { panic!("{message:?}") };
        let channel = channel.text();
        let name = channel.strip_prefix("__keyevent@0__:").expect("an event");
        format!("{name} {}", key.text())
    }

    #[track_caller]
    fn nothing_more(&mut self) {
        assert!(!self.0.has_answer());
    }
}

#[apply(on_one_server)]
fn what_changes_nothing_is_not_told(kind: Kind) {
    let server = Server::start(kind);
    let mut events = Listener::new(&server);
    server.run("DLOCK.ACQUIRE job alice 60000");
    assert_eq!(events.next(), "dlock.acquire job");
    server.run("DLOCK.ACQUIRE job bob 60000");
    server.run("DLOCK.RELEASE job bob");
    server.run("DLOCK.EXTEND job bob 60000");
    server.run("DLOCK.CHECK job alice");
    server.run("DLOCK.INSPECT job");
    server.run("DLOCK.BREAK nothing");
    server.run("DLOCK.ACQUIRE job carol 60000 WAIT 10");
    server.run("DLOCK.RELEASE job alice");
    assert_eq!(events.next(), "dlock.release job");
}

#[apply(on_two_servers)]
fn the_end_of_a_lease_is_told(kind: Kind) {
    let server = Server::start(kind);
    let mut events = Listener::new(&server);
    server.run("DLOCK.ACQUIRE job alice 50");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    bob.recv();
    assert_eq!(events.next(), "dlock.acquire job");
    assert_eq!(events.next(), "dlock.expire job");
    assert_eq!(events.next(), "dlock.acquire job");
    events.nothing_more();
}

#[apply(on_one_server)]
fn a_lock_that_is_left_done_is_told_once(kind: Kind) {
    let server = Server::start(kind);
    let mut events = Listener::new(&server);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    for token in ["bob", "alice", "alice"] {
        server.run(&format!("DLOCK.RELEASE job {token} DONE 60000"));
    }
    assert!(bob.recv().is_null());
    server.run("DLOCK.ACQUIRE job bob 60000");
    server.run("DLOCK.ACQUIRE job bob 60000 AGAIN 9007199254740991");
    server.run("DLOCK.RELEASE job bob DONE 60000");
    for name in ["acquire", "done", "acquire", "done"] {
        assert_eq!(events.next(), format!("dlock.{name} job"));
    }
    events.nothing_more();
}
