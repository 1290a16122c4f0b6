//! Times without writes: CLIENT PAUSE, and a SHUTDOWN that waits for replicas. A lease that is over then ends
//! promptly afterwards.

use harness::{Client, Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// Leases and waits of every sort that end within a second.
struct Ending {
    ephemeral: Option<Client>,
    /// Waits for an ephemeral grant, a short lease, a short permit and a foreign lock.
    served: Vec<Client>,
    /// A client that gives up.
    denied: Client,
}

impl Ending {
    /// The last request comes before anything ends. Returns its client, too.
    fn before(server: &Server, last: &str) -> (Ending, Client) {
        let mut ephemeral = server.client();
        ephemeral.run("DLOCK.ACQUIRE eph alice 60000 EPHEMERAL");
        ephemeral.run("DLOCK.ACQUIRE eph2 alice 60000 EPHEMERAL SHARED");
        server.run("DLOCK.ACQUIRE long alice 60000 SHARED");
        let waits = ["eph bob 60000 WAIT 0", "eph2 bob 60000 WAIT 0"];
        let [eph, eph2] = waits.map(|words| server.waiter(&format!("DLOCK.ACQUIRE {words}")));
        let [_, _, _, short, pool, writer, reader, last] = server.in_one_turn([
            "DLOCK.ACQUIRE short alice 500",
            "DLOCK.ACQUIRE pool alice 500 LIMIT 1",
            "DLOCK.ACQUIRE unasked alice 300",
            "DLOCK.ACQUIRE short bob 60000 WAIT 0",
            "DLOCK.ACQUIRE pool bob 60000 LIMIT 1 WAIT 0",
            // A reader behind a writer that gives up.
            "DLOCK.ACQUIRE long writer 60000 WAIT 300",
            "DLOCK.ACQUIRE long reader 60000 SHARED WAIT 0",
            last,
        ]);
        let served = vec![eph, eph2, short, pool, reader];
        (Ending { ephemeral: Some(ephemeral), served, denied: writer }, last)
    }

    /// Asserts that all that can end has ended, as far as clients can see.
    fn passes(&mut self, server: &Server) {
        if let Some(ephemeral) = self.ephemeral.take() {
            ephemeral.close();
        }
        assert!(self.denied.recv().is_null());
        for key in ["short", "pool", "unasked"] {
            eventually("the lease is over", || {
                server.run(&format!("DLOCK.CHECK {key} alice")).is_null()
            });
        }
    }

    #[track_caller]
    fn assert_served(&mut self, server: &Server) {
        for waiter in &mut self.served {
            assert!(waiter.recv().int() > 0);
            waiter.assert_in_step();
        }
        eventually("the rest ends", || server.run("EXISTS unasked").int() == 0);
        for key in ["eph", "eph2", "short", "pool"] {
            assert_eq!(server.holders(key), ["bob"], "{key}");
        }
        assert_eq!(server.holders("long"), ["alice", "reader"]);
        assert_eq!(server.info_number("dlock", "dlock_waiters"), 0);
    }
}

#[apply(on_every_server)]
fn what_ends_while_writes_are_paused_is_handed_over_afterwards(kind: Kind) {
    let server = Server::build(kind).append_only().start();
    let replica = server.replica();
    let (mut ending, _) = Ending::before(&server, "CLIENT PAUSE 600000 WRITE");
    ending.passes(&server);
    assert!(!ending.served.iter_mut().any(Client::has_answer));
    assert_eq!(server.run("EXISTS eph short pool unasked").int(), 4);
    // A request that would write waits for the end of the pause, too.
    let mut late = server.client();
    late.send("DLOCK.ACQUIRE late zed 60000");
    assert!(!late.has_answer());

    server.run("CLIENT UNPAUSE");
    ending.assert_served(&server);
    assert!(late.recv().int() > 0);
    server.assert_agrees_with(&replica);
}

#[apply(on_every_server)]
fn what_ends_while_all_clients_are_paused_is_handed_over_afterwards(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    let (mut ending, _) = Ending::before(&server, "CLIENT PAUSE 900 ALL");
    // A waiter that gives up gets its reply even now.
    if let Some(ephemeral) = ending.ephemeral.take() {
        ephemeral.close();
    }
    assert!(ending.denied.recv().is_null());
    ending.assert_served(&server);
    server.assert_agrees_with(&replica);
}

#[apply(on_two_servers)]
fn a_shutdown_waits_for_a_replica_while_leases_run_out(kind: Kind) {
    let mut server = Server::build(kind).append_only().config("shutdown-timeout 600").start();
    let replica = server.replica();
    replica.pause();
    server.run("SET something new");
    let (mut ending, _asking) = Ending::before(&server, "SHUTDOWN");
    eventually("the shutdown waits", || server.log().contains("aiting for replicas"));
    ending.passes(&server);
    replica.resume();
    assert!(server.wait_for_end());
    assert!(!server.log().contains("crashed"));

    server.start_again();
    assert_eq!(server.holders("eph"), ["alice"]);
    eventually("what was over ends", || server.run("EXISTS short pool unasked").int() == 0);
    replica.run(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    server.assert_agrees_with(&replica);
}

#[apply(on_two_servers)]
fn a_shutdown_that_is_called_off_hands_over_what_ended_meanwhile(kind: Kind) {
    let server = Server::build(kind).config("shutdown-timeout 60").start();
    let replica = server.replica();
    replica.pause();
    server.run("SET something new");
    let (mut ending, mut asking) = Ending::before(&server, "SHUTDOWN");
    eventually("the shutdown waits", || server.log().contains("aiting for replicas"));
    ending.passes(&server);
    assert!(!ending.served.iter_mut().any(Client::has_answer));
    assert_eq!(server.run("SHUTDOWN ABORT").text(), "OK");
    asking.recv().assert_error("ERR", "SHUTDOWN");
    ending.assert_served(&server);
    replica.resume();
    server.assert_agrees_with(&replica);
}
