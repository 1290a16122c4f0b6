//! DLOCK.APPLY and DLOCK.PROMISE: a server's messages to its replicas and its append-only log. A client may
//! not send them, not even word for word.

use std::fs;

use harness::{Client, Kind, Server, Value, apply, eventually, on_every_server, on_two_servers};

/// A command, word by word.
type Words = Vec<Vec<u8>>;

/// The commands that servers send to each other, in today's form, from a replica's log.
fn overheard(kind: Kind) -> Vec<Words> {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).config("appendonly yes").start();
    primary.until_streaming_to(&replica);
    let mut owner = primary.client();
    for words in [
        "DLOCK.ACQUIRE job alice 60000 META m",
        "DLOCK.RELEASE job alice",
        "DLOCK.ACQUIRE job alice 60000 EPHEMERAL",
        "DLOCK.BREAK job",
        "DLOCK.ACQUIRE job alice 60000 SHARED",
        "DLOCK.BREAK job",
        "DLOCK.ACQUIRE job alice 60000 LIMIT 2",
        "DLOCK.ACQUIRE job short 1 LIMIT 2",
    ] {
        assert!(owner.run(words).int() > 0, "{words}");
    }
    let mut found = Vec::new();
    eventually("the replica has heard a grant, an end and a promise", || {
        // The replica begins a new log when it has everything from the primary.
        let Ok(log) = fs::read(replica.append_only_log()) else { return false };
        found = internal(&log);
        let begins = |start: &[u8]| found.iter().any(|words| words.join(&b' ').starts_with(start));
        [&b"DLOCK.APPLY job +"[..], b"DLOCK.APPLY job -", b"DLOCK.PROMISE "].into_iter().all(begins)
    });
    found
}

/// The commands in a log that no client may send.
fn internal(log: &[u8]) -> Vec<Words> {
    let (mut rest, mut found) = (log, Vec::new());
    while let Ok(command) = Value::read(&mut rest) {
        let words: Words = command.items().iter().map(|word| word.bytes().to_vec()).collect();
        if [&b"DLOCK.APPLY"[..], b"DLOCK.PROMISE"].contains(&&words[0][..]) {
            found.push(words);
        }
    }
    found
}

/// Replayed commands, and forged ones in the right form: a lock for the attacker, the end of another
/// client's lock, all fences and a quarantine of months.
fn forgeries(kind: Kind) -> Vec<Words> {
    let mut all = overheard(kind);
    let forged: [&[&str]; 8] = [
        &["DLOCK.APPLY", "job", "-bob"],
        &["DLOCK.APPLY", "job", "+86400000 9007199254740991 x bob"],
        &["DLOCK.APPLY", "job", "+86400000 9007199254740991 x mallory", "meta"],
        &["DLOCK.APPLY", "other", "+86400000 9007199254740991 s mallory"],
        &["DLOCK.APPLY", "other", "+86400000 9007199254740991 3e mallory"],
        &["dlock.apply", "other", "+1 1 x mallory"],
        &["DLOCK.PROMISE", "9007199254740991", "8589934592", "9007199254740991", "8589934592"],
        &["dlock.promise", "0", "0", "0", "0"],
    ];
    let bytes = |words: &&[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    all.extend(forged.iter().map(bytes));
    all
}

/// A server with a lock that bob holds, and its state before an attack.
struct Victim {
    server: Server,
    before: Vec<String>,
}

impl Victim {
    fn new(kind: Kind) -> Victim {
        let server = Server::build(kind).with_caller().config("appendonly yes").start();
        assert!(server.run("DLOCK.ACQUIRE job bob 600000").int() > 0);
        // The promise for this lease is written, so that nothing moves by itself.
        eventually("the lease is covered", || server.node("lease-bound-ms").int() >= 600_000);
        let before = picture(&server);
        Victim { server, before }
    }

    #[track_caller]
    fn assert_untouched(&self, by: &Words) {
        assert_eq!(picture(&self.server), self.before, "{}", shown(by));
    }
}

/// Everything that these commands could change, with the log and the stream to replicas.
fn picture(server: &Server) -> Vec<String> {
    let node = server.run("DLOCK.NODE");
    let fields =
        ["fence", "fence-reserved", "lease-bound-ms", "quarantine-ms", "leases", "waiters"];
    let mut all: Vec<String> =
        fields.iter().map(|field| format!("{field} {:?}", node.at(field))).collect();
    let log = fs::read(server.append_only_log()).expect("it keeps a log");
    all.push(format!("log {}", internal(&log).len()));
    all.push(format!("keys {}", server.run("DBSIZE").int()));
    all.push(format!("holders {:?}", server.holders("job")));
    all.push(format!("data {}", server.digest()));
    all
}

#[track_caller]
fn assert_refused(answer: &Value, words: &Words) {
    let name = String::from_utf8_lossy(&words[0]).to_uppercase();
    let wanted = format!("{name} is only for replication and the AOF");
    assert_eq!(answer.code(), "ERR", "{}: {answer:?}", shown(words));
    assert!(answer.error().contains(&wanted), "{}: {answer:?}", shown(words));
}

fn shown(words: &Words) -> String {
    words.join(&b' ').escape_ascii().to_string()
}

#[apply(on_every_server)]
fn what_servers_say_to_each_other_is_refused_from_a_client_a_script_and_another_module(kind: Kind) {
    let victim = Victim::new(kind);
    let mut client = victim.server.client();
    for words in forgeries(kind) {
        assert_refused(&client.run_args(&words), &words);
        assert_refused(&in_transaction(&mut client, &words), &words);
        assert_refused(&in_script(&mut client, &words), &words);
        let called = [&[b"CALLER.CALL".to_vec(), b"!E".to_vec()], &words[..]].concat();
        assert_refused(&client.run_args(&called), &words);
        victim.assert_untouched(&words);
    }
}

fn in_transaction(client: &mut Client, words: &Words) -> Value {
    client.run("MULTI");
    assert_eq!(client.run_args(words).text(), "QUEUED");
    client.run("EXEC").items()[0].clone()
}

fn in_script(client: &mut Client, words: &Words) -> Value {
    let script: &[u8] = b"return redis.call(unpack(ARGV))";
    let keys: &[u8] = b"0";
    let call: Words = [b"EVAL".to_vec(), script.to_vec(), keys.to_vec()].into();
    client.run_args(&[&call[..], &words[..]].concat())
}

/// A replica carries these commands out for its primary alone.
#[apply(on_two_servers)]
fn it_is_refused_by_a_replica_that_its_clients_may_write_to(kind: Kind) {
    let forgeries = forgeries(kind);
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).config("replica-read-only no").start();
    primary.until_streaming_to(&replica);
    primary.run("DLOCK.ACQUIRE job bob 600000");
    primary.until_followed_by(&replica);
    let before = (replica.digest(), replica.traces());
    let mut client = replica.client();
    for words in forgeries {
        assert_refused(&client.run_args(&words), &words);
        assert_refused(&in_transaction(&mut client, &words), &words);
        assert_refused(&in_script(&mut client, &words), &words);
    }
    primary.assert_agrees_with(&replica);
    assert_eq!((replica.digest(), replica.traces()), before);
}
