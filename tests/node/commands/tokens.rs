//! Tokens are secrets: a user that has one can release the lock. A user with read access alone cannot see
//! them. DLOCK.TOKENS shows them, and needs a right of its own.

use harness::{Client, Kind, Server, Value, apply, on_every_server, on_one_server, on_two_servers};

const SECRETS: [&str; 2] = ["secret-of-the-holder", "secret-of-the-waiter"];

fn login(server: &Server, rights: &str) -> Client {
    let made = server.run(&format!("ACL SETUSER app reset on >secret ~* &* {rights}"));
    assert_eq!(made.text(), "OK");
    let mut client = server.client();
    assert_eq!(client.run("AUTH app secret").text(), "OK");
    client
}

/// A lock of each kind, held and waited for.
fn with_locks(kind: Kind) -> (Server, Vec<Client>) {
    let server = Server::start(kind);
    let mut waiters = Vec::new();
    for (key, mode) in [("job", ""), ("book", "SHARED"), ("pool", "LIMIT 1")] {
        server.run(&format!("DLOCK.ACQUIRE {key} {} 60000 {mode}", SECRETS[0]));
        let wait = format!("DLOCK.ACQUIRE {key} {} 60000 WAIT 0", SECRETS[1]);
        waiters.push(server.waiter(&wait));
    }
    (server, waiters)
}

fn tells_a_secret(reply: &Value) -> bool {
    match reply {
        Value::Array(items) => items.iter().any(tells_a_secret),
        Value::Map(pairs) => pairs.iter().any(|(k, v)| tells_a_secret(k) || tells_a_secret(v)),
        Value::Bulk(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            SECRETS.iter().any(|secret| text.contains(secret))
        }
        _ => false,
    }
}

#[apply(on_every_server)]
fn a_user_that_may_read_everything_learns_no_token_and_no_path(kind: Kind) {
    let (server, _waiters) = with_locks(kind);
    // Redis 7.0 has no categories for the commands of a module: there they are named.
    let rights = if kind == Kind::Redis70 { "+@read +dlock.inspect" } else { "+@read" };
    let mut reader = login(&server, rights);
    for key in ["job", "book", "pool"] {
        let lock = reader.run(&format!("DLOCK.INSPECT {key}"));
        assert_eq!((lock.at("holding").int(), lock.at("waiting").int()), (1, 1), "{key}");
        assert!(!tells_a_secret(&lock), "{lock:?}");
        assert_eq!(reader.run(&format!("DLOCK.TOKENS {key}")).code(), "NOPERM");
    }
    assert_eq!(reader.run("DLOCK.NODE").code(), "NOPERM");
    assert_eq!(reader.run("DLOCK.BREAK job").code(), "NOPERM");
}

#[apply(on_two_servers)]
fn tokens_and_the_node_are_rights_of_their_own(kind: Kind) {
    let (server, _waiters) = with_locks(kind);
    let mut operator = login(&server, "-@all +dlock.tokens");
    for key in ["job", "book", "pool"] {
        let lock = operator.run(&format!("DLOCK.TOKENS {key}"));
        for (list, secret) in [("holders", SECRETS[0]), ("waiters", SECRETS[1])] {
            assert_eq!(lock.at(list).items()[0].at("token").text(), secret);
        }
    }
    assert_eq!(operator.run("DLOCK.INSPECT job").code(), "NOPERM");
    let mut node = login(&server, "-@all +dlock.node");
    assert!(!node.run("DLOCK.NODE").at("node-id").text().is_empty());
    let mut all_but_dangerous = login(&server, "+@all -@dangerous");
    assert!(!all_but_dangerous.run("DLOCK.NODE").is_error());
    if kind != Kind::Redis70 {
        assert_eq!(all_but_dangerous.run("DLOCK.TOKENS job").code(), "NOPERM");
    }
}

#[apply(on_one_server)]
fn tokens_shows_what_inspect_shows_and_the_tokens(kind: Kind) {
    let (server, _waiters) = with_locks(kind);
    for key in ["job", "book", "pool"] {
        let [shown, told] =
            ["INSPECT", "TOKENS"].map(|word| server.run(&format!("DLOCK.{word} {key}")));
        assert_eq!(Vec::from_iter(shown.map().keys()), Vec::from_iter(told.map().keys()));
        for list in ["holders", "waiters"] {
            let [mut shown, told] = [&shown, &told].map(|lock| lock.at(list).items()[0].map());
            assert_eq!(shown["id"], told["id"]);
            shown.insert("token".to_owned(), told["token"].clone());
            assert_eq!(Vec::from_iter(shown.keys()), Vec::from_iter(told.keys()));
        }
    }
    server.run("SET text any");
    assert_eq!(server.run("DLOCK.TOKENS text").at("mode").text(), "foreign");
    assert!(server.run("DLOCK.TOKENS free").is_null());
}
