//! DLOCK.FENCED: a command is carried out unless its fence is smaller than the mark's.

use std::thread;

use harness::{
    Client, Kind, Server, Value, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

#[apply(on_one_server)]
fn a_smaller_fence_is_stale_and_nothing_happens(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("DLOCK.FENCED mark 7 SET data new").text(), "OK");
    let stale = server.run("DLOCK.FENCED mark 6 SET data old");
    assert_eq!(stale.error(), "STALE 7 is the mark's fence, and 6 is smaller");
    assert_eq!(server.run("GET data").text(), "new");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
}

#[apply(on_one_server)]
fn without_a_command_it_raises_or_refuses(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("DLOCK.FENCED mark 7").text(), "OK");
    assert_eq!(server.run("DLOCK.FENCED mark 7").text(), "OK");
    assert_eq!(server.run("DLOCK.FENCED mark 6").code(), "STALE");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
    assert!(server.run("DLOCK.MARK nobody").is_null());
    assert_eq!(server.run("EXISTS nobody").int(), 0);
}

#[apply(on_every_server)]
fn the_reply_is_the_commands_own_in_both_protocols(kind: Kind) {
    let server = Server::start(kind);
    server.run("HSET hash a 1 b 2");
    server.run("RPUSH list x y");
    let (mut old, mut new) = (server.client(), server.client().resp3());
    for client in [&mut old, &mut new] {
        for words in [
            "HGETALL hash",
            "LRANGE list 0 -1",
            "GET nothing",
            "SET text v",
            "SMISMEMBER nothing a",
            "ZADD sorted INCR 1.5 m",
            "ZSCORE sorted m",
            "INCR text",
            "HGETALL text",
            "CONFIG GET nothing",
        ]
        .into_iter()
        .filter(|words| !words.starts_with("CONFIG"))
        {
            client.run("DEL sorted");
            let plain = client.run(words);
            client.run("DEL sorted");
            assert_eq!(client.run(&format!("DLOCK.FENCED mark 7 {words}")), plain, "{words}");
        }
    }
    assert!(matches!(new.run("DLOCK.FENCED mark 7 HGETALL hash"), Value::Map(_)));
}

#[apply(on_every_server)]
fn what_is_refused_beforehand_leaves_the_mark_as_it_was(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET text v");
    for (words, error) in [
        ("NOPE a", "ERR unknown command"),
        ("GET", "ERR wrong number of arguments for 'get'"),
        ("CONFIG GET maxmemory", "NOTALLOWED "),
        ("EVAL return 0", "NOTALLOWED "),
        ("MULTI", "NOTALLOWED "),
        ("AUTH x", "NOTALLOWED "),
        ("SUBSCRIBE channel", "NOTALLOWED "),
        ("CLIENT LIST", "NOTALLOWED "),
        ("DLOCK.FENCED mark 8 SET text w", "NOTALLOWED "),
        ("dlock.acquire lock t 1000", "NOTALLOWED "),
        ("BLPOP list 0", "NOTALLOWED "),
        ("wait 0 0", "NOTALLOWED "),
    ] {
        for (mark, before) in [("new", Value::Null), ("old", Value::Int(5))] {
            server.run("DLOCK.FENCED old 5");
            let refused = server.run(&format!("DLOCK.FENCED {mark} 8 {words}"));
            assert!(refused.error().starts_with(error), "{words}: {refused:?}");
            assert_eq!(server.run(&format!("DLOCK.MARK {mark}")), before, "{words}");
        }
    }
    assert_eq!(server.run("EXISTS new").int(), 0);
    assert_eq!(server.run("GET text").text(), "v");
}

#[apply(on_every_server)]
fn what_fails_while_it_runs_has_raised_the_mark(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET text v");
    for (fence, words, code) in [
        (1, "INCR text", "ERR"),
        (2, "LPUSH text x", "WRONGTYPE"),
        (3, "ZADD sorted nonsense m", "ERR"),
        (4, "INCRBYFLOAT text 1e999999", "ERR"),
        (5, "SETRANGE text 4294967295 x", "ERR"),
        (6, "RESTORE other 0 nonsense", "ERR"),
    ] {
        let failed = server.run(&format!("DLOCK.FENCED mark {fence} {words}"));
        assert_eq!(failed.code(), code, "{words}");
        assert_eq!(server.run("DLOCK.MARK mark").int(), fence, "{words}");
    }
}

#[apply(on_one_server)]
fn a_fence_more_than_a_day_ahead_poisons_no_mark(kind: Kind) {
    let server = Server::start(kind);
    let now = server.run("TIME").items()[0].text().parse::<i64>().unwrap() * 1_000_000;
    for fence in [now + 86_500_000_000, 9_007_199_254_740_991] {
        let refused = server.run(&format!("DLOCK.FENCED mark {fence} SET data v"));
        refused.assert_error("TOOFAR", "more than a day ahead");
    }
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert_eq!(server.run(&format!("DLOCK.FENCED mark {}", now + 86_000_000_000)).text(), "OK");
}

#[apply(on_one_server)]
fn a_key_that_is_no_mark_is_let_alone(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET text v");
    server.run("DLOCK.ACQUIRE lock alice 60000");
    for key in ["text", "lock"] {
        assert_eq!(server.run(&format!("DLOCK.FENCED {key} 7 DEL {key}")).code(), "WRONGTYPE");
        assert_eq!(server.run(&format!("DLOCK.MARK {key}")).code(), "WRONGTYPE");
    }
    server.run("DLOCK.FENCED mark 7");
    for words in ["DLOCK.ACQUIRE mark t 1000", "DLOCK.RELEASE mark t", "GET mark", "INCR mark"] {
        assert_eq!(server.run(words).code(), "WRONGTYPE", "{words}");
    }
    assert_eq!(server.run("EXISTS text lock mark").int(), 3);
}

#[apply(on_one_server)]
fn a_command_may_do_anything_to_its_own_mark(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("DLOCK.FENCED mark 7 DEL mark").int(), 1);
    assert!(server.run("DLOCK.MARK mark").is_null());
    server.run("DLOCK.FENCED mark 7 RENAME mark other");
    assert_eq!(server.run("DLOCK.MARK other").int(), 7);
    assert_eq!(server.run("DLOCK.FENCED mark 8 SET mark text").text(), "OK");
    assert_eq!(server.run("GET mark").text(), "text");
    assert_eq!(server.run("DLOCK.FENCED other 9 FLUSHALL").text(), "OK");
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_every_server)]
fn a_transaction_and_a_script_are_fenced_command_by_command(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    transaction(&mut client, &["DLOCK.FENCED mark 7 SET a 1", "DLOCK.FENCED mark 6 SET a 2"]);
    assert_eq!(server.run("GET a").text(), "1");
    let script = "return redis.call('DLOCK.FENCED', KEYS[1], ARGV[1], 'SET', KEYS[2], ARGV[2])";
    let run = |fence: &str, value: &str| {
        server.client().run_args(&["EVAL", script, "2", "mark", "a", fence, value])
    };
    assert_eq!(run("8", "3").text(), "OK");
    assert!(run("7", "4").error().contains("STALE 8"));
    assert_eq!(server.run("GET a").text(), "3");
    let library = "#!lua name=fences\nredis.register_function('put', function(keys, args) \
                   return redis.call('DLOCK.FENCED', keys[1], args[1], 'SET', keys[2], args[2]) end)";
    client.run_args(&["FUNCTION", "LOAD", library]);
    assert_eq!(client.run("FCALL put 2 mark a 9 5").text(), "OK");
    assert!(client.run("FCALL put 2 mark a 8 6").error().contains("STALE 9"));
    assert_eq!(server.run("GET a").text(), "5");
}

fn transaction(client: &mut Client, commands: &[&str]) {
    client.run("MULTI");
    commands.iter().for_each(|command| _ = client.run(command));
    let replies = client.run("EXEC");
    assert_eq!(replies.items()[0].text(), "OK");
    assert_eq!(replies.items()[1].code(), "STALE");
}

#[apply(on_two_servers)]
fn a_client_that_watches_a_mark_hears_of_a_rise_and_of_nothing_else(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.FENCED mark 7");
    for (words, aborts) in [
        ("DLOCK.FENCED mark 7 GET a", false),
        ("DLOCK.FENCED mark 6 GET a", false),
        ("DLOCK.FENCED mark 8 NOPE", false),
        ("DLOCK.FENCED mark 8 GET a", true),
    ] {
        let mut client = server.client();
        client.run("WATCH mark");
        server.run(words);
        client.run("MULTI");
        client.run("PING");
        assert_eq!(client.run("EXEC").is_null(), aborts, "{words}");
    }
}

/// Servers look for the keys of a request on their threads for clients, some only in a cluster. No callback of a module
/// may run there, so FENCED is refused where that would happen.
#[apply(on_every_server)]
fn threads_that_read_requests_do_no_harm(kind: Kind) {
    let build = || {
        let server = Server::build(kind).config("io-threads 3").config("appendfsync no");
        server.config("appendonly yes")
    };
    let member = build().cluster().start();
    assert_eq!(member.run("CLUSTER ADDSLOTSRANGE 0 16383").text(), "OK");
    eventually("the cluster is up", || member.run("CLUSTER INFO").text().contains("state:ok"));
    let refuses = kind != Kind::Redis70;
    for (server, fenced) in
        [(build().start(), "OK"), (member, if refuses { "NOTALLOWED" } else { "OK" })]
    {
        thread::scope(|scope| {
            for client in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    let set = format!("SET {{a}}{client} 1");
                    let put = format!("DLOCK.FENCED {{a}}mark 7 {set}");
                    let mut connection = server.client();
                    for _ in 0..2_000 {
                        let (request, says) =
                            if client < 2 { (&put, fenced) } else { (&set, "OK") };
                        (0..4).for_each(|_| connection.send(request));
                        (0..4).for_each(|_| assert_eq!(word(&connection.recv()), says));
                    }
                });
            }
        });
    }
}

/// The text of an answer, or an error's code.
fn word(answer: &Value) -> String {
    if answer.is_error() { answer.code().to_owned() } else { answer.text() }
}
