//! The ground under the tests: the harness does with servers what it says.

use harness::{Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers};

#[apply(on_two_servers)]
fn a_server_is_restarted_killed_and_paused(kind: Kind) {
    let mut server = Server::build(kind).without_module().append_only().start();
    let mut client = server.client();
    client.run("SET a 1");
    server.restart();
    assert!(client.is_closed_by_server());
    server.run("SET b 2");
    server.kill();
    server.start_again();
    assert_eq!(server.run("DBSIZE").int(), 2);

    let mut client = server.client();
    server.pause();
    client.send("PING");
    assert!(!client.has_answer());
    server.resume();
    assert_eq!(client.recv().text(), "PONG");
}

#[apply(on_every_server)]
fn a_wall_clock_moves_both_ways(kind: Kind) {
    let server = Server::build(kind).without_module().with_movable_wall_clock().start();
    let now = || {
        let time = server.run("TIME");
        time.items()[0].text().parse::<i64>().unwrap()
    };
    let start = now();
    server.set_wall_clock(3600);
    eventually("the clock is an hour ahead", || now() - start >= 3600);
    server.set_wall_clock(-3600);
    eventually("the clock is an hour behind", || now() - start < -3000);
}

#[apply(on_one_server)]
fn a_server_that_does_not_start_shows_why(kind: Kind) {
    let broken = Server::build(kind).without_module().config("nonsense 1");
    let log = broken.try_start().err().expect("it must not start");
    assert!(log.contains("nonsense"), "{log}");
}
