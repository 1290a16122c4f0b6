//! Servers with renamed or disabled commands: dlock depends on none of them.

use harness::{Kind, Server, apply, eventually, on_every_server};

/// Commands that an operator may disable, and that could do some of dlock's work.
const DISABLED: [&str; 12] = [
    "DEL",
    "UNLINK",
    "RENAMENX",
    "EXPIRE",
    "PEXPIRE",
    "PEXPIREAT",
    "PERSIST",
    "EVAL",
    "EVALSHA",
    "EXISTS",
    "TYPE",
    "CONFIG",
];

fn build(kind: Kind) -> harness::Builder {
    let disable = |builder: harness::Builder, command: &&str| {
        builder.config(&format!("rename-command {command} \"\""))
    };
    DISABLED.iter().fold(Server::build(kind), disable)
}

#[apply(on_every_server)]
fn waiters_are_served_where_commands_are_disabled(kind: Kind) {
    let server = build(kind).start();
    let mut alice = server.client();
    alice.run("DLOCK.ACQUIRE ends alice 100");
    alice.run("DLOCK.ACQUIRE ephemeral alice 60000 EPHEMERAL");
    alice.run("SET foreign old-client PX 100");
    let mut waiters = ["ends", "foreign", "ephemeral"].map(|key| {
        let mut waiter = server.client();
        waiter.send(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
        waiter
    });
    alice.close();
    for waiter in &mut waiters {
        assert!(waiter.recv().int() > 0);
    }
}

#[apply(on_every_server)]
fn replicas_and_the_log_get_everything_where_commands_are_disabled(kind: Kind) {
    let mut primary = build(kind).append_only().config("aof-use-rdb-preamble no").start();
    let replica = build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let mut client = primary.client();
    client.run("SET text any");
    client.run("DLOCK.ACQUIRE job alice 60000");
    client.run("RENAME job other");
    eventually("the renamed key goes", || client.run("RANDOMKEY").text() == "text");

    // All readers leave at once: their leases end while the server does something else.
    let readers = (0..300).map(|n| format!("DLOCK.ACQUIRE book reader{n} 400 SHARED"));
    client.pipeline(readers);
    client.pipeline(["DEBUG SLEEP 0.5".to_owned(), "DLOCK.ACQUIRE book bob 60000".to_owned()]);
    assert_eq!(primary.holders("book"), ["bob"]);

    primary.assert_agrees_with(&replica);

    let before = (primary.digest(), primary.pictures());
    primary.kill();
    primary.start_again();
    assert_eq!((primary.digest(), primary.pictures()), before);
}
