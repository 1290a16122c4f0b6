//! The view of the server's own tools: COMMAND, ACL, SCAN and TYPE.

use std::collections::BTreeSet;

use harness::{Kind, Server, Value, apply, on_every_server, on_two_servers};

const WITH_KEY: [&str; 7] = [
    "DLOCK.ACQUIRE job alice 1000 WAIT 5",
    "DLOCK.RELEASE job alice",
    "DLOCK.EXTEND job alice 1000 FENCE 5",
    "DLOCK.CHECK job alice",
    "DLOCK.INSPECT job",
    "DLOCK.BREAK job alice",
    "DLOCK.TOKENS job",
];

fn flags(server: &Server, command: &str) -> BTreeSet<String> {
    let info = server.run(&format!("COMMAND INFO {command}"));
    let flags = &info.items()[0].items()[2];
    flags.items().iter().map(Value::text).collect()
}

#[apply(on_two_servers)]
fn every_command_is_listed(kind: Kind) {
    let server = Server::start(kind);
    let list = server.run("COMMAND LIST FILTERBY MODULE dlock");
    let names: BTreeSet<String> = list.items().iter().map(|n| n.text().to_lowercase()).collect();
    let expected = [
        "acquire", "release", "extend", "check", "fenced", "mark", "inspect", "tokens", "break",
        "hot", "node", "help", "apply", "promise", "probe",
    ];
    let expected: BTreeSet<String> = expected.iter().map(|n| format!("dlock.{n}")).collect();
    assert_eq!(names, expected);
}

#[apply(on_two_servers)]
fn key_accesses_are_declared(kind: Kind) {
    let server = Server::start(kind);
    for (request, access) in [
        (WITH_KEY[0], "RW"),
        (WITH_KEY[1], "RW"),
        (WITH_KEY[2], "RW"),
        (WITH_KEY[3], "RO"),
        (WITH_KEY[4], "RO"),
        (WITH_KEY[5], "RW"),
        (WITH_KEY[6], "RO"),
    ] {
        let keys = server.run(&format!("COMMAND GETKEYSANDFLAGS {request}"));
        let key = &keys.items()[0];
        assert_eq!(key.items()[0].text(), "job");
        let flags: Vec<String> = key.items()[1].items().iter().map(Value::text).collect();
        assert!(flags.iter().any(|flag| flag == access), "{request}: {flags:?}");
    }
}

#[apply(on_two_servers)]
fn flags_are_as_documented(kind: Kind) {
    let server = Server::start(kind);
    for (command, expected) in [
        ("ACQUIRE", &["write", "denyoom", "fast", "blocking"][..]),
        ("RELEASE", &["write", "fast"]),
        ("EXTEND", &["write", "fast"]),
        ("CHECK", &["readonly", "fast"]),
        ("INSPECT", &["readonly", "fast"]),
        ("TOKENS", &["readonly", "admin"]),
        ("BREAK", &["write", "admin"]),
        ("HOT", &["readonly"]),
        ("APPLY", &["write", "admin"]),
        ("PROMISE", &["write", "admin"]),
        ("PROBE", &["write", "admin", "fast"]),
    ] {
        let mut flags = flags(&server, &format!("DLOCK.{command}"));
        for other in ["module", "movablekeys"] {
            flags.remove(other);
        }
        let expected: BTreeSet<String> = expected.iter().map(|f| f.to_string()).collect();
        assert_eq!(flags, expected, "{command}");
    }
}

#[apply(on_two_servers)]
fn command_docs_describe_every_command(kind: Kind) {
    let server = Server::start(kind);
    for (command, arguments) in [
        ("ACQUIRE", &["key", "token", "ttl-ms"][..]),
        ("RELEASE", &["key", "token"]),
        ("EXTEND", &["key", "token", "ttl-ms"]),
        ("CHECK", &["key", "token"]),
        ("INSPECT", &["key"]),
        ("TOKENS", &["key"]),
        ("BREAK", &["key", "token"]),
        ("NODE", &[]),
        ("HELP", &[]),
    ] {
        let docs = server.run(&format!("COMMAND DOCS DLOCK.{command}"));
        let (_, doc) = docs.map().pop_first().expect("a description");
        assert!(!doc.at("summary").text().is_empty(), "{command}");
        let described = doc.map().remove("arguments");
        let described = described.map_or(Vec::new(), |list| list.items().to_vec());
        let names: Vec<String> = described.iter().map(|one| one.at("name").text()).collect();
        assert!(names.starts_with(&arguments.iter().map(|a| a.to_string()).collect::<Vec<_>>()));
        if arguments.first() == Some(&"key") {
            assert_eq!(described[0].at("type").text(), "key", "{command}");
        }
    }
}

#[apply(on_every_server)]
fn an_acl_pattern_guards_locks_as_any_key(kind: Kind) {
    let server = Server::start(kind);
    let commands = "+dlock.acquire +dlock.release +dlock.check +dlock.inspect";
    server.run(&format!("ACL SETUSER app on >secret ~app:* {commands}"));
    server.run(&format!("ACL SETUSER viewer on >secret %R~app:* {commands}"));

    let mut app = server.client();
    app.run("AUTH app secret");
    assert!(app.run("DLOCK.ACQUIRE app:1 alice 60000").int() > 0);
    for request in [
        "DLOCK.ACQUIRE other alice 60000",
        "DLOCK.ACQUIRE other alice 60000 WAIT 0",
        "DLOCK.RELEASE other alice",
        "DLOCK.CHECK other alice",
        "DLOCK.INSPECT other",
        "DLOCK.BREAK app:1",
    ] {
        assert_eq!(app.run(request).code(), "NOPERM", "{request}");
    }

    let mut viewer = server.client();
    viewer.run("AUTH viewer secret");
    assert!(viewer.run("DLOCK.CHECK app:1 alice").int() > 0);
    assert_eq!(viewer.run("DLOCK.INSPECT app:1").at("mode").text(), "exclusive");
    let write = viewer.run("DLOCK.ACQUIRE app:2 bob 60000");
    assert_eq!(write.code(), "NOPERM");
    let write = viewer.run("DLOCK.RELEASE app:1 alice");
    assert_eq!(write.code(), "NOPERM");
    assert_eq!(server.holders("app:1"), ["alice"]);
}

#[apply(on_every_server)]
fn commands_are_in_acl_categories_where_the_server_has_them(kind: Kind) {
    let server = Server::start(kind);
    if kind == Kind::Redis70 {
        // Redis 7.0 has no way for a module to say so: its users name the commands.
        assert!(server.run("COMMAND INFO DLOCK.ACQUIRE").items()[0].items().len() > 6);
        return;
    }
    for (category, commands) in [
        ("write", &["acquire", "release", "extend", "break"][..]),
        ("read", &["check", "inspect"]),
        ("fast", &["acquire", "release", "extend", "check", "inspect"]),
        ("blocking", &["acquire"]),
        ("admin", &["break", "apply", "tokens"]),
        ("dangerous", &["break", "apply", "tokens"]),
    ] {
        let listed = server.run(&format!("ACL CAT {category}"));
        let listed: BTreeSet<String> = listed.items().iter().map(Value::text).collect();
        for command in commands {
            let name = format!("dlock.{command}");
            assert!(listed.contains(&name), "{name} is not in @{category}");
        }
    }
}

#[apply(on_two_servers)]
fn scan_lists_locks_by_their_type(kind: Kind) {
    let server = Server::start(kind);
    for job in 0..30 {
        server.run(&format!("DLOCK.ACQUIRE lock{job} alice 60000"));
        server.run(&format!("SET text{job} value"));
    }
    assert_eq!(server.run("TYPE lock0").text(), "dlock-key");
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let page = server.run(&format!("SCAN {cursor} TYPE dlock-key COUNT 10"));
        found.extend(page.items()[1].items().iter().map(Value::text));
        cursor = page.items()[0].text();
        if cursor == "0" {
            break;
        }
    }
    let expected: BTreeSet<String> = (0..30).map(|job| format!("lock{job}")).collect();
    assert_eq!(found, expected);
}

#[apply(on_two_servers)]
fn a_lock_knows_how_much_memory_it_takes(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let plain = server.run("MEMORY USAGE job").int();
    assert!(plain > 0);
    let mut client = server.client();
    let meta = "m".repeat(1024);
    client.run_args(&["DLOCK.ACQUIRE", "job2", "alice", "60000", "META", &meta]);
    assert!(server.run("MEMORY USAGE job2").int() > plain + 1000);
}
