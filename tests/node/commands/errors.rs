//! Hostile arguments. Every error names what is wrong, leaves no trace, and keeps the protocol in
//! step; every limit is tried at its last good value and one past it.

use harness::{Kind, Server, apply, bytes, on_one_server, on_two_servers};

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

#[track_caller]
fn refused_words(server: &Server, request: &str, words: &[&str]) {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    refused(server, &args, words);
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
fn a_wrong_number_of_arguments_is_refused(kind: Kind) {
    let server = server_with_locks(kind);
    for request in [
        "DLOCK.ACQUIRE",
        "DLOCK.ACQUIRE free",
        "DLOCK.ACQUIRE free t",
        "DLOCK.RELEASE",
        "DLOCK.RELEASE held",
        "DLOCK.RELEASE held alice more",
        "DLOCK.EXTEND",
        "DLOCK.EXTEND held",
        "DLOCK.EXTEND held alice",
        "DLOCK.CHECK",
        "DLOCK.CHECK held",
        "DLOCK.CHECK held alice more",
        "DLOCK.INSPECT",
        "DLOCK.INSPECT held more",
        "DLOCK.TOKENS",
        "DLOCK.TOKENS held more",
        "DLOCK.BREAK",
        "DLOCK.BREAK held alice more",
        "DLOCK.NODE more",
        "DLOCK.HELP more",
        "DLOCK.APPLY",
    ] {
        refused_words(&server, request, &[]);
    }
}

#[apply(on_one_server)]
fn unknown_options_are_refused(kind: Kind) {
    let server = server_with_locks(kind);
    for key in ["free", "held"] {
        for option in ["NX", "EX", "SHAREDX", "SHARE", "EXCLUSIVE", "10", "TTL"] {
            let request = format!("DLOCK.ACQUIRE {key} t 1000 {option}");
            refused_words(&server, &request, &[&option.to_lowercase()]);
            let request = format!("DLOCK.ACQUIRE {key} t 1000 WAIT 0 {option}");
            refused_words(&server, &request, &[&option.to_lowercase()]);
        }
        refused(&server, &bytes!["DLOCK.ACQUIRE", key, "t", "1000", ""], &[]);
    }
    for option in ["WAIT 5", "SHARED", "META x", "fencex 5", "5"] {
        refused_words(&server, &format!("DLOCK.EXTEND held alice 1000 {option}"), &[]);
    }
}

#[apply(on_one_server)]
fn an_option_without_its_value_is_refused(kind: Kind) {
    let server = server_with_locks(kind);
    for key in ["free", "held"] {
        for option in ["LIMIT", "WAIT", "FENCE", "META"] {
            let word = option.to_lowercase();
            let request = format!("DLOCK.ACQUIRE {key} t 1000 {option}");
            refused_words(&server, &request, &[&word]);
            let request = format!("DLOCK.ACQUIRE {key} t 1000 EPHEMERAL {option}");
            refused_words(&server, &request, &[&word]);
        }
    }
    refused_words(&server, "DLOCK.EXTEND held alice 1000 FENCE", &["fence"]);
}

#[apply(on_one_server)]
fn a_lease_is_between_one_millisecond_and_the_longest(kind: Kind) {
    let server = server_with_locks(kind);
    for ttl in ["0", "86400001", "9223372036854775807"] {
        let words = ["ttl", "86400000", ttl];
        refused_words(&server, &format!("DLOCK.ACQUIRE free t {ttl}"), &words);
        refused_words(&server, &format!("DLOCK.ACQUIRE held t {ttl} WAIT 0"), &words);
        refused_words(&server, &format!("DLOCK.EXTEND held alice {ttl}"), &words);
    }
    assert!(server.run("DLOCK.ACQUIRE long t 86400000").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE short t 1").int() > 0);
    assert_eq!(server.run("DLOCK.EXTEND long t 86400000").int(), 1);
    assert_eq!(server.run("DLOCK.EXTEND long t 1").int(), 1);
}

#[apply(on_one_server)]
fn there_are_1_to_65535_permits(kind: Kind) {
    let server = server_with_locks(kind);
    for limit in ["0", "65536", "9223372036854775807"] {
        let words = ["limit", "65535", limit];
        for key in ["free", "held", "pool"] {
            let request = format!("DLOCK.ACQUIRE {key} t 1000 LIMIT {limit}");
            refused_words(&server, &request, &words);
        }
    }
    assert!(server.run("DLOCK.ACQUIRE one t 1000 LIMIT 1").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE all t 1000 LIMIT 65535").int() > 0);
}

#[apply(on_one_server)]
fn a_token_has_1_to_255_bytes(kind: Kind) {
    let server = server_with_locks(kind);
    let (longest, too_long) = ([b'x'; 255], [b'x'; 256]);
    let huge = vec![b'x'; 1 << 20];
    for (token, given) in [(&b""[..], "0"), (&too_long[..], "256"), (&huge[..], "1048576")] {
        let words = ["token", "255", given];
        for key in ["free", "held", "foreign"] {
            refused(&server, &bytes!["DLOCK.ACQUIRE", key, token, "1000"], &words);
            refused(&server, &bytes!["DLOCK.RELEASE", key, token], &words);
            refused(&server, &bytes!["DLOCK.EXTEND", key, token, "1000"], &words);
            refused(&server, &bytes!["DLOCK.CHECK", key, token], &words);
            refused(&server, &bytes!["DLOCK.BREAK", key, token], &words);
        }
    }
    let mut client = server.client();
    for token in [&longest[..], &longest[..1]] {
        let acquire = bytes!["DLOCK.ACQUIRE", "job", token, "60000"];
        let fence = client.run_args(&acquire).int();
        let check = bytes!["DLOCK.CHECK", "job", token];
        assert_eq!(client.run_args(&check).int(), fence);
        let release = bytes!["DLOCK.RELEASE", "job", token];
        assert_eq!(client.run_args(&release).int(), 1);
    }
}

#[apply(on_one_server)]
fn a_meta_has_up_to_1024_bytes(kind: Kind) {
    let server = server_with_locks(kind);
    let (longest, too_long) = ([b'x'; 1024], [b'x'; 1025]);
    for key in ["free", "held"] {
        let request = bytes!["DLOCK.ACQUIRE", key, "t", "1000", "META", &too_long];
        refused(&server, &request, &["meta", "1024", "1025"]);
    }
    for (key, meta) in [("empty", &b""[..]), ("longest", &longest[..])] {
        let mut client = server.client();
        let request = bytes!["DLOCK.ACQUIRE", key, "t", "60000", "META", meta];
        assert!(client.run_args(&request).int() > 0);
        assert_eq!(server.holder(key)["meta"].bytes(), meta);
    }
}

#[apply(on_one_server)]
fn a_fence_proposal_fits_in_53_bits(kind: Kind) {
    let server = server_with_locks(kind);
    for fence in ["9007199254740992", "9223372036854775807"] {
        for key in ["free", "held"] {
            let request = format!("DLOCK.ACQUIRE {key} t 1000 FENCE {fence}");
            refused_words(&server, &request, &["fence", fence]);
        }
        let request = format!("DLOCK.EXTEND held alice 1000 FENCE {fence}");
        refused_words(&server, &request, &["fence", fence]);
    }
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

#[apply(on_two_servers)]
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
