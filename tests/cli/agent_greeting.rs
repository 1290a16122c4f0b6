//! `dlock agent`: the first requests of clients.

use harness::{Kind, Value, apply, on_one_server};

use crate::agent;

/// The greetings of clients, from their sources, and the beginning of each reply.
const GREETINGS: [(&str, &[(&str, &str)]); 9] = [
    (
        "redis-py",
        &[
            ("HELLO 3", "map"),
            ("CLIENT SETINFO LIB-NAME redis-py", "OK"),
            ("CLIENT SETINFO LIB-VER 8.1.0", "OK"),
            ("SELECT 0", "OK"),
        ],
    ),
    (
        "go-redis",
        &[
            ("HELLO 3", "map"),
            ("CLIENT SETINFO LIB-NAME go-redis(,go1.22)", "OK"),
            ("CLIENT MAINT_NOTIFICATIONS ON handshake", "error"),
        ],
    ),
    ("jedis", &[("CLIENT SETINFO lib-name jedis", "OK"), ("CLIENT SETINFO lib-ver 5", "OK")]),
    ("lettuce", &[("HELLO 3", "map"), ("CLIENT SETINFO lib-name Lettuce", "OK"), ("PING", "PONG")]),
    ("phpredis", &[("SELECT 0", "OK"), ("PING", "PONG")]),
    ("redis-rb", &[("CLIENT SETNAME worker", "OK"), ("PING", "PONG")]),
    (
        "StackExchange.Redis",
        &[
            ("HELLO 3 SETNAME app", "map"),
            ("CLIENT ID", "int"),
            ("CONFIG GET timeout", "error"),
            ("INFO replication", "# Server"),
            ("CLUSTER NODES", "error"),
            ("ECHO tracer", "tracer"),
            ("SUBSCRIBE __Booksleeve_MasterChanged", "push"),
        ],
    ),
    ("ioredis", &[("INFO", "# Server"), ("CLIENT SETINFO LIB-NAME ioredis", "OK")]),
    ("redis-cli", &[("HELLO 3", "map"), ("COMMAND DOCS", "error"), ("COMMAND", "error")]),
];

#[apply(on_one_server)]
fn every_client_gets_the_greeting_that_it_expects(kind: Kind) {
    let (_servers, agent) = agent(kind);
    for (name, requests) in GREETINGS {
        let mut client = agent.client();
        for (request, expected) in requests {
            let said = client.run(request);
            let kind = match &said {
                Value::Map(_) => "map".to_owned(),
                Value::Error(_) => "error".to_owned(),
                Value::Int(_) => "int".to_owned(),
                Value::Push(_) => "push".to_owned(),
                other => other.text(),
            };
            assert!(kind.starts_with(expected), "{name}: {request}: {said:?}");
        }
        assert!(client.run("DLOCK.CHECK job t").is_null(), "{name} goes on");
    }
}

#[apply(on_one_server)]
fn hello_changes_the_protocol_and_names_the_version(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    let hello = client.run("HELLO");
    assert!(matches!(hello, Value::Array(_)));
    assert_eq!(hello.at("proto"), Value::Int(2));
    assert!(client.run("HELLO 4").text().starts_with("NOPROTO"));
    assert_eq!(client.run("HELLO 3").at("proto"), Value::Int(3));
    assert!(matches!(client.run("DLOCK.NODE"), Value::Map(_)));
    assert_eq!(client.run("HELLO 2").at("proto"), Value::Int(2));
    assert!(matches!(client.run("DLOCK.NODE"), Value::Array(_)));
    assert_eq!(client.run("RESET"), Value::Simple("RESET".into()));
    assert_eq!(client.run("QUIT"), Value::Simple("OK".into()));
    assert!(client.is_closed_by_server());
}

#[apply(on_one_server)]
fn a_subscriber_of_the_old_protocol_is_in_a_mode_of_its_own(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    client.run("SUBSCRIBE dlock:lost");
    assert!(client.run("DLOCK.CHECK job t").text().starts_with("ERR only (UN)SUBSCRIBE"));
    assert_eq!(client.run("PING").items()[0].text(), "pong");
    assert_eq!(client.run("UNSUBSCRIBE").items()[2], Value::Int(0));
    assert_eq!(client.run("DLOCK.CHECK job t"), Value::Null);
    let mut client = agent.client().resp3();
    assert!(matches!(client.run("SUBSCRIBE dlock:lost"), Value::Push(_)));
    assert_eq!(client.run("DLOCK.CHECK job t"), Value::Null);
}
