//! The command inside DLOCK.FENCED: its rights, its keys, and its limits.

use harness::{Kind, Server, Value, apply, eventually, on_every_server, on_two_servers};

#[apply(on_every_server)]
fn the_callers_rights_decide_on_command_keys_and_channels(kind: Kind) {
    let server = Server::start(kind);
    server.run(
        "ACL SETUSER eve on nopass ~mark ~own:* &own +dlock.fenced +set +get +publish +sort +eval",
    );
    let mut eve = server.client();
    eve.run("AUTH eve x");
    assert_eq!(eve.run("DLOCK.FENCED mark 7 SET own:a 1").text(), "OK");
    assert_eq!(eve.run("DLOCK.FENCED mark 7 PUBLISH own hi").int(), 0);
    for refused in ["SET other 1", "DEL own:a", "PUBLISH other hi", "GET other", "FLUSHALL"] {
        let answer = eve.run(&format!("DLOCK.FENCED mark 8 {refused}"));
        assert_eq!(answer.code(), "NOPERM", "{refused}: {answer:?}");
    }
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
    assert_eq!(server.run("EXISTS other").int(), 0);
}

#[apply(on_every_server)]
fn a_right_to_read_a_key_is_none_to_write_it(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET data 1");
    server.run("ACL SETUSER eve on nopass ~mark %R~data +dlock.fenced +set +get");
    let mut eve = server.client();
    eve.run("AUTH eve x");
    assert_eq!(eve.run("DLOCK.FENCED mark 7 GET data").text(), "1");
    assert_eq!(eve.run("DLOCK.FENCED mark 8 SET data 2").code(), "NOPERM");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
}

#[apply(on_every_server)]
fn a_script_has_its_callers_rights(kind: Kind) {
    let server = Server::start(kind);
    server.run("ACL SETUSER eve on nopass ~mark ~own +dlock.fenced +set +eval");
    let mut eve = server.client();
    eve.run("AUTH eve x");
    let run = |words: &str| format!("return redis.pcall('DLOCK.FENCED','mark','7',{words})");
    let put = |script: &str| ["EVAL", script, "0"].map(str::to_owned);
    assert_eq!(eve.run_args(&put(&run("'SET','own','1'"))).text(), "OK");
    assert_eq!(eve.run_args(&put(&run("'DEL','own'"))).code(), "NOPERM");
    assert_eq!(eve.run_args(&put(&run("'SET','other','1'"))).code(), "NOPERM");
    assert_eq!(server.run("DBSIZE").int(), 2);
}

#[apply(on_every_server)]
fn a_reading_script_cannot_write_through_it(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE lock token 60000");
    for words in [
        "'DLOCK.FENCED','m','7','SET','a','1'",
        "'DLOCK.FENCED','m','7','GET','a'",
        "'DLOCK.FENCED','m','7'",
    ] {
        let script = format!("return redis.call({words})");
        let answer = server.client().run_args(&["EVAL_RO", &script, "0"]);
        assert!(answer.error().contains("Write commands are not allowed"), "{answer:?}");
    }
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_every_server)]
fn paused_writes_hold_it_back_even_for_a_read(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE lock token 60000");
    server.run("CLIENT PAUSE 60000 WRITE");
    let words = ["DLOCK.FENCED mark 7 SET a 1", "DLOCK.FENCED mark 7 GET a"];
    let mut clients: Vec<_> = words
        .iter()
        .map(|words| {
            let mut client = server.client();
            client.send(words);
            client
        })
        .collect();
    server.until_blocked(2);
    assert!(server.run("DLOCK.MARK mark").is_null());
    server.run("CLIENT UNPAUSE");
    clients.iter_mut().for_each(|client| assert!(!client.recv().is_error()));
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
}

#[apply(on_two_servers)]
fn full_memory_refuses_what_needs_more_and_a_new_mark(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET data 1");
    server.run("DLOCK.FENCED mark 7");
    server.run("CONFIG SET maxmemory 1");
    assert_eq!(server.run("DLOCK.FENCED mark 8 SET data 2").code(), "OOM");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
    assert_eq!(server.run("DLOCK.FENCED new 8 GET data").code(), "OOM");
    assert_eq!(server.run("DLOCK.FENCED new 8").code(), "OOM");
    assert_eq!(server.run("EXISTS new").int(), 0);
    // Commands that free memory, and those that read, go through.
    assert_eq!(server.run("DLOCK.FENCED mark 8 GET data").text(), "1");
    assert_eq!(server.run("DLOCK.FENCED mark 9 DEL data").int(), 1);
}

#[apply(on_every_server)]
fn a_cluster_finds_the_keys_of_any_command(kind: Kind) {
    let server = Server::build(kind).cluster().start();
    for (words, keys) in [
        ("DLOCK.FENCED mark 7", vec!["mark"]),
        ("DLOCK.FENCED mark 7 PING", vec!["mark"]),
        ("DLOCK.FENCED mark 7 MSET a 1 b 2", vec!["mark", "a", "b"]),
        ("DLOCK.FENCED mark 7 ZUNIONSTORE d 2 a b", vec!["mark", "d", "a", "b"]),
        ("DLOCK.FENCED mark 7 XREAD COUNT 1 STREAMS s 0", vec!["mark", "s"]),
        ("DLOCK.FENCED mark 7 OBJECT ENCODING a", vec!["mark", "a"]),
        // A command that is refused when it runs has no keys.
        ("DLOCK.FENCED mark 7 NOPE a", vec!["mark"]),
        ("DLOCK.FENCED mark 7 GET", vec!["mark"]),
        ("DLOCK.FENCED mark 7 DLOCK.FENCED other 7 GET a", vec!["mark"]),
        ("DLOCK.FENCED mark 7 DLOCK.CHECK lock token", vec!["mark"]),
        ("DLOCK.FENCED mark 7 ZUNIONSTORE d 99 a b", vec!["mark"]),
        ("DLOCK.FENCED mark 7 EVAL x -1 a", vec!["mark"]),
    ] {
        let found = server.run(&format!("COMMAND GETKEYS {words}"));
        let mut found: Vec<String> = found.items().iter().map(Value::text).collect();
        let mut keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        found.sort();
        keys.sort();
        assert_eq!(found, keys, "{words}");
    }
    let flags = server.run("COMMAND GETKEYSANDFLAGS DLOCK.FENCED mark 7 GET a");
    assert_eq!(flags.items()[0].items()[1].items()[0].text(), "RW");
}

#[apply(on_every_server)]
fn nesting_as_deep_as_a_request_is_long_is_refused_and_does_no_harm(kind: Kind) {
    let server = Server::start(kind);
    let outer = ["DLOCK.FENCED", "mark", "7"];
    let mut deep: Vec<&str> = std::iter::repeat_n(outer, 30_000).flatten().collect();
    deep.extend(["SET", "a", "1"]);
    let mut client = server.client();
    assert_eq!(client.run_args(&deep).code(), "NOTALLOWED");
    let keys = client.run_args(&[&["COMMAND", "GETKEYS"][..], &deep].concat());
    assert_eq!(keys.items().len(), 1);
    let dry = client.run_args(&[&["ACL", "DRYRUN", "default"][..], &deep].concat());
    assert_eq!(dry.text(), "OK");
    // Through commands that take commands.
    let mut mixed: Vec<&str> = vec![];
    for _ in 0..10_000 {
        mixed.extend(["DLOCK.FENCED", "mark", "7", "COMMAND", "GETKEYS"]);
    }
    mixed.extend(["GET", "a"]);
    let answer = server.client().run_args(&mixed);
    assert!(!answer.is_null());
    assert_eq!(server.run("PING").text(), "PONG");
}

/// The server's table of commands is searched by all bytes of a name, and compares up to a zero byte.
#[apply(on_every_server)]
fn no_spelling_that_the_server_takes_for_one_nests(kind: Kind) {
    let server = Server::start(kind);
    server.run("ACL SETUSER eve on nopass ~mark ~a &* +@all");
    let mut eve = server.client();
    eve.run("AUTH eve x");
    let spelling = spelling_of(&server, "DLOCK.FENCED");
    for first in [&b"DLOCK.FENCED"[..], &spelling] {
        let nested = [&spelling[..], b"mark", b"7"];
        let mut deep = vec![first, b"mark", b"7"];
        deep.extend(std::iter::repeat_n(nested, 30_000).flatten());
        deep.extend([&b"SET"[..], b"a", b"1"]);
        let keys = eve.run_args(&[&[&b"COMMAND"[..], b"GETKEYS"], &deep[..]].concat());
        assert_eq!(keys.items(), [Value::Bulk("mark".into())]);
        let refused = eve.run_args(&deep);
        assert_eq!(refused.code(), "NOTALLOWED", "{refused:?}");
    }
    assert_eq!(server.run("EXISTS a mark").int(), 0);
}

/// Another module's command has the keys of one within it, which is this one again.
#[apply(on_every_server)]
fn nothing_nests_through_another_modules_command(kind: Kind) {
    let server = Server::build(kind).with_caller().cluster().start();
    let mut client = server.client();
    let nested = ["DLOCK.FENCED", "mark", "7", "CALLER.KEYS"];
    let mut deep = vec!["COMMAND", "GETKEYS"];
    deep.extend(std::iter::repeat_n(nested, 30_000).flatten());
    deep.extend(["SET", "a", "1"]);
    assert_eq!(client.run_args(&deep).items().len(), 2);
    // The server answers the next request as usual.
    let keys = client.run("COMMAND GETKEYS DLOCK.FENCED mark 7 SET a 1");
    assert_eq!(keys.items(), [Value::Bulk("mark".into()), Value::Bulk("a".into())]);
}

/// Another spelling of a command that this server accepts.
fn spelling_of(server: &Server, command: &str) -> Vec<u8> {
    let mut client = server.client();
    // The table grows while the module is loaded, and moves by one row with each look-up. A spelling that is
    // found in the former table is unknown later.
    client.run_args(&[&["COMMAND", "INFO"][..], &["none"; 5000]].concat());
    for first in (0..1_000_000).step_by(5000) {
        let names: Vec<String> = (first..first + 5000).map(|n| format!("{command}\0{n}")).collect();
        let ask = ["COMMAND", "INFO"].into_iter().chain(names.iter().map(String::as_str));
        let found = client.run_args(&ask.collect::<Vec<_>>());
        if let Some(at) = found.items().iter().position(|found| !found.is_null()) {
            return names[at].clone().into_bytes();
        }
    }
    panic!("{command} is found by its name alone");
}

#[apply(on_two_servers)]
fn a_request_of_very_many_arguments_is_a_request(kind: Kind) {
    let server = Server::start(kind);
    let pairs: Vec<String> = (0..200_000).map(|n| format!("k{}", n / 2)).collect();
    let mut words = vec!["DLOCK.FENCED", "mark", "7", "MSET"];
    words.extend(pairs.iter().map(String::as_str));
    let mut client = server.client();
    assert_eq!(client.run_args(&words).text(), "OK");
    assert_eq!(server.run("DBSIZE").int(), 100_001);
}

#[apply(on_every_server)]
fn an_inner_request_never_blocks(kind: Kind) {
    let server = Server::start(kind);
    server.run("XADD stream * f v");
    let mut client = server.client();
    assert!(client.run("DLOCK.FENCED mark 7 XREAD BLOCK 0 STREAMS stream $").is_null());
    client.assert_in_step();
    assert_eq!(server.info_number("clients", "blocked_clients"), 0);
}

#[apply(on_every_server)]
fn another_module_calls_with_its_clients_rights(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("DLOCK.ACQUIRE lock token 60000");
    let mut client = server.client();
    assert_eq!(client.run("CALLER.CALL !CE DLOCK.FENCED mark 7 SET a 1").text(), "OK");
    assert_eq!(client.run("CALLER.CALL !CE DLOCK.FENCED mark 6 SET a 3").code(), "STALE");
    assert_eq!(client.run("CALLER.CALL !CE DLOCK.FENCED mark 8 NOPE").code(), "ERR");
    assert_eq!(client.run("CALLER.CALL !E DLOCK.FENCED mark 8 SET a 3").code(), "NOPERM");
    assert_eq!(client.run("CALLER.CALL !E DLOCK.FENCED mark 8").text(), "OK");
    assert_eq!(client.run("GET a").text(), "1");
    for call in ["DLOCK.CHECK lock token", "DLOCK.FENCED mark 9 SET b 1"] {
        client.run(&format!("CALLER.ON dlock.release {call}"));
        client.run("DLOCK.ACQUIRE other t 60000");
        client.run("DLOCK.RELEASE other t");
        let heard = client.run("CALLER.HEARD").text();
        assert!(heard.contains("in the middle of another command"), "{call}: {heard}");
        client.run("CALLER.OFF");
    }
    eventually("the server is as before", || server.run("PING").text() == "PONG");
}

/// Another module's command may write and pass on a refusal. Or it may block the client of the call, which
/// stops the server: Redis 8 itself brings such a module.
#[apply(on_every_server)]
fn another_modules_command_is_not_carried_out(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("ACL SETUSER eve on nopass ~mark ~data +dlock.fenced +caller.set +get");
    let mut eve = server.client();
    eve.run("AUTH eve x");
    eve.run("DLOCK.FENCED mark 7");
    let has_vectors = !server.run("VADD vectors VALUES 2 1 1 a").is_error();
    assert_eq!(has_vectors, matches!(kind, Kind::Redis82 | Kind::Redis86));
    for inner in ["CALLER.SET data 1 E NOPE", "caller.set data 1 E GET data", "VSIM vectors ELE a"]
    {
        let known = has_vectors || !inner.starts_with("VSIM");
        let refused = server.run(&format!("DLOCK.FENCED mark 8 {inner}"));
        assert_eq!(refused.code(), if known { "NOTALLOWED" } else { "ERR" }, "{inner}");
        assert!(eve.run(&format!("DLOCK.FENCED mark 8 {inner}")).is_error());
    }
    // A command of the server itself that is refused has certainly not begun.
    for words in ["NOPE a", "GET", "SET data 3", "EVAL x 0"] {
        assert!(eve.run(&format!("DLOCK.FENCED mark 8 {words}")).is_error(), "{words}");
    }
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
    assert_eq!(server.run("EXISTS data").int(), 0);
}

/// Valkey leaves the error of GETSET and of GETDEL, at a key of another type, for the next call of any
/// client.
#[apply(on_every_server)]
fn a_reply_that_a_command_leaves_behind_reaches_no_other_client(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("RPUSH list a");
    let (mut client, mut other) = (server.client(), server.client());
    for inner in ["GETSET list x", "GETDEL list", "GETSET list x"] {
        let refused = client.run(&format!("DLOCK.FENCED mark 7 {inner}"));
        assert!(refused.is_error(), "{inner}: {refused:?}");
        client.assert_in_step();
        assert_eq!(other.run("CALLER.CALL E ECHO mine").text(), "mine", "{inner}");
        assert_eq!(other.run("DLOCK.FENCED mark 7 ECHO mine").text(), "mine", "{inner}");
        other.assert_in_step();
    }
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
}

/// A reply that another module's call has left is not taken for that of the command inside, nor left to the next.
#[apply(on_every_server)]
fn a_reply_that_another_module_leaves_behind_is_not_that_of_the_command(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("RPUSH list a");
    let (mut client, mut other) = (server.client(), server.client());
    for inner in ["ECHO mine", "GETDEL list"] {
        let mut careless = server.client();
        careless.send("CALLER.CALL E GETDEL list");
        careless.send("ECHO done");
        while careless.recv() != Value::Bulk("done".into()) {}
        let reply = client.run(&format!("DLOCK.FENCED mark 7 {inner}"));
        assert!(reply.is_error() || reply.text() == "mine", "{inner}: {reply:?}");
        client.assert_in_step();
        assert_eq!(other.run("CALLER.CALL E ECHO mine").text(), "mine", "{inner}");
        other.assert_in_step();
    }
}

#[apply(on_every_server)]
fn tracked_reads_are_followed_as_the_server_can(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET data 1");
    let mut reader = server.client().resp3();
    reader.run("CLIENT TRACKING ON");
    assert_eq!(reader.run("DLOCK.FENCED mark 7 GET data").text(), "1");
    server.run("SET data 2");
    reader.send("PING");
    let first = reader.recv();
    // Redis 7.0 follows no reads of a module.
    assert_eq!(matches!(first, Value::Push(_)), kind != Kind::Redis70, "{first:?}");
}
