//! Hostile arguments. Every error names the fault, leaves no trace, and keeps the protocol in step. Each
//! command's own limits are tested with the command.

use harness::{Kind, Server, apply, bytes, on_one_server};

/// Asserts that a request is refused with a code and some words, and that nothing has changed.
#[track_caller]
fn refused(server: &Server, args: &[&[u8]], words: &[&str]) {
    let before = server.traces();
    let mut client = server.client();
    let answer = client.run_args(args);
    let request: Vec<String> = args.iter().map(|a| a.escape_ascii().to_string()).collect();
    let request = request.join(" ");
    assert!(answer.is_error(), "{request} was answered {answer:?}");
    assert_eq!(answer.code(), "ERR", "{request} was answered {answer:?}");
    for word in words {
        let said = answer.error().to_lowercase();
        assert!(said.contains(word), "{request}: {word:?} is not in {said:?}");
    }
    client.assert_in_step();
    assert_eq!(server.traces(), before, "{request}");
    assert_eq!(server.info_number("clients", "blocked_clients"), 0);
}

/// A server with a lock of each mode, a foreign one, and a free key named `free`.
fn server_with_locks(kind: Kind) -> Server {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE held alice 600000");
    server.run("DLOCK.ACQUIRE shared alice 600000 SHARED");
    server.run("DLOCK.ACQUIRE pool alice 600000 LIMIT 2");
    server.run("SET foreign text");
    server
}

#[apply(on_one_server)]
fn an_error_names_the_argument_and_its_bounds(kind: Kind) {
    let server = server_with_locks(kind);
    for (request, words) in [
        ("DLOCK.ACQUIRE free t", &["wrong number"][..]),
        ("DLOCK.BREAK held alice more", &["wrong number"]),
        ("DLOCK.ACQUIRE held t 1000 WAIT 0 NX", &["'nx'"]),
        ("DLOCK.ACQUIRE free t 4294967296", &["ttl", "4294967295", "4294967296"]),
        ("DLOCK.EXTEND held alice 0", &["ttl", "4294967295", "'0'"]),
    ] {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        refused(&server, &args, words);
    }
    let words = ["token", "255", "256"];
    refused(&server, &bytes!["DLOCK.ACQUIRE", "free", &[b'x'; 256], "1000"], &words);
}

#[apply(on_one_server)]
fn arguments_of_any_bytes_come_back_as_they_were(kind: Kind) {
    let server = Server::start(kind);
    let every_byte: Vec<u8> = (0..=255).collect();
    let texts: [&[u8]; 6] = [
        b"\0",
        b"\r\n",
        b"a\r\n-ERR b\r\n:1\r\n",
        b"\xff\xfe\xc3\x28",
        b"$-1\r\n*3\r\n",
        &every_byte[1..],
    ];
    for bytes in texts {
        let mut client = server.client();
        let fence =
            client.run_args(&bytes!["DLOCK.ACQUIRE", bytes, bytes, "60000", "META", bytes]).int();
        let waiting: [&[u8]; 8] =
            bytes!["DLOCK.ACQUIRE", bytes, "w\r\n\0", "60000", "WAIT", "0", "META", bytes];
        let mut waiter = server.client();
        waiter.send_args(&waiting);
        server.until_blocked(1);

        let lock = client.run_args(&bytes!["DLOCK.TOKENS", bytes]);
        let holder = lock.at("holders").items()[0].clone();
        assert_eq!(holder.at("token").bytes(), bytes);
        assert_eq!(holder.at("meta").bytes(), bytes);
        assert_eq!(lock.at("waiters").items()[0].at("token").bytes(), b"w\r\n\0");
        assert_eq!(lock.at("waiters").items()[0].at("meta").bytes(), bytes);
        let check = bytes!["DLOCK.CHECK", bytes, bytes];
        assert_eq!(client.run_args(&check).int(), fence);
        let release = bytes!["DLOCK.RELEASE", bytes, bytes];
        assert_eq!(client.run_args(&release).int(), 1);
        assert!(waiter.recv().int() > fence);
        assert_eq!(client.run_args(&bytes!["DLOCK.BREAK", bytes]).int(), 1);
        client.assert_in_step();
    }
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_one_server)]
fn an_empty_key_is_a_key(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let acquire = bytes!["DLOCK.ACQUIRE", "", "t", "60000"];
    assert!(client.run_args(&acquire).int() > 0);
    assert!(!client.run_args(&bytes!["DLOCK.INSPECT", ""]).is_null());
    assert_eq!(client.run_args(&bytes!["DLOCK.RELEASE", "", "t"]).int(), 1);
}

#[apply(on_one_server)]
fn hostile_bytes_in_an_error_do_not_break_the_protocol(kind: Kind) {
    let server = server_with_locks(kind);
    let hostile: [&[u8]; 5] =
        [b"\r\n+OK\r\n", b"\0\0\0", b"\xff\xfe", b"%s%n%d", b"x\r\n$3\r\nabc\r\n"];
    for bytes in hostile {
        refused(&server, &bytes!["DLOCK.ACQUIRE", "free", "t", bytes], &["ttl"]);
        refused(&server, &bytes!["DLOCK.ACQUIRE", "free", "t", "1000", bytes], &[]);
        for option in ["LIMIT", "WAIT", "FENCE"] {
            let request = bytes!["DLOCK.ACQUIRE", "free", "t", "1000", option, bytes];
            refused(&server, &request, &[]);
        }
        refused(&server, &bytes!["DLOCK.EXTEND", "held", "alice", bytes], &["ttl"]);
        refused(&server, &bytes!["DLOCK.EXTEND", "held", "alice", "9", bytes, "9"], &[]);
        refused(&server, &bytes!["DLOCK.APPLY", "held", bytes], &["replication"]);
    }
}
