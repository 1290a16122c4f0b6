//! `dlock inspect KEY`

use harness::{Kind, apply, on_one_server};

use crate::{address, dlock, dlock_at, servers, take};

#[apply(on_one_server)]
fn one_node_shows_holders_and_waiters(kind: Kind) {
    let servers = servers(kind, 1);
    let free = dlock(&servers, &["inspect", "job"]).with_code(1);
    assert!(free.out.contains("free"), "{}", free.out);

    let mut holder = servers[0].client();
    let fence = holder.run("DLOCK.ACQUIRE job secret 600000 EPHEMERAL META who=alice").int();
    let mut waiter = servers[0].client();
    waiter.send("DLOCK.ACQUIRE job hidden 60000 WAIT 0 META who=bob");
    servers[0].until_blocked(1);

    let said = dlock(&servers, &["inspect", "job"]).with_code(0);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", said.out);
    assert!(lines[0].starts_with("NODE "), "{}", said.out);
    for word in ["holds, ephemeral", "exclusive", &fence.to_string(), "9 min", "who=alice"] {
        assert!(lines[1].contains(word), "{word}: {}", said.out);
    }
    for word in ["waits", "no end", &waiter_id(&servers[0]), "who=bob"] {
        assert!(lines[2].contains(word), "{word}: {}", said.out);
    }
    assert!(!said.out.contains("secret") && !said.out.contains("hidden"), "{}", said.out);

    let said = dlock(&servers, &["inspect", "--tokens", "job"]).with_code(0);
    assert!(said.out.contains("secret") && said.out.contains("hidden"), "{}", said.out);
}

#[apply(on_one_server)]
fn a_reader_sees_the_holders_and_no_tokens(kind: Kind) {
    let servers = servers(kind, 3);
    take(&servers, b"job", "secret", "META who=alice FENCE 1790000000000000");
    for server in &servers {
        server.run("ACL SETUSER viewer reset on >hunter2 ~* -@all +dlock.inspect");
    }
    let nodes: Vec<String> = servers
        .iter()
        .map(|server| format!("redis://viewer:hunter2@{}", address(server)))
        .collect();
    let said = dlock_at(&nodes, &["inspect", "--json", "job"]).with_code(0).json();
    assert_eq!(said[3]["state"], "held", "{said:?}");
    let id = &said[0]["holders"][0]["id"];
    assert!(id.as_str().is_some_and(|id| id.len() == 8) && *id == said[2]["holders"][0]["id"]);
    assert!(said[0]["holders"][0].get("token").is_none(), "{said:?}");
    let said = dlock_at(&nodes, &["inspect", "--tokens", "job"]).with_code(77);
    assert!(said.err.contains("NOPERM") && !said.out.contains("secret"), "{said:?}");
}

#[apply(on_one_server)]
fn of_very_many_the_first_are_shown_and_the_others_counted(kind: Kind) {
    let servers = servers(kind, 1);
    let mut client = servers[0].client();
    client.pipeline((0..130).map(|n| format!("DLOCK.ACQUIRE job t{n} 600000 SHARED")));
    let said = dlock(&servers, &["inspect", "job"]).with_code(0);
    assert_eq!(said.out.lines().count(), 102, "{}", said.out);
    assert!(said.out.contains("and 30 more hold"), "{}", said.out);
    let said = dlock(&servers, &["inspect", "--json", "job"]).with_code(0).json();
    assert_eq!(said[0]["holding"], 130);
    let said = dlock(&servers, &["ls", "--json"]).with_code(0).json();
    assert_eq!(said[0]["holding"], 130);
}

fn waiter_id(server: &harness::Server) -> String {
    server.run("DLOCK.INSPECT job").at("waiters").items()[0].at("client").int().to_string()
}

#[apply(on_one_server)]
fn a_plain_string_is_held_by_an_unknown_client(kind: Kind) {
    let servers = servers(kind, 1);
    servers[0].run("SET job old-token PX 600000");
    let said = dlock(&servers, &["inspect", "job", "--json"]).with_code(0).json();
    assert_eq!((&said[0]["mode"], &said[1]["state"]), (&"foreign".into(), &"foreign".into()));
    assert!(said[0]["ttl_ms"].as_i64().is_some_and(|left| left > 50_000), "{said:?}");
    // A plain string may be anything, so it is not shown as a token.
    for options in [&["inspect", "job"][..], &["inspect", "--tokens", "job"]] {
        let said = dlock(&servers, options).with_code(0);
        let row = said.out.lines().nth(1).unwrap_or_default();
        assert!(row.contains("foreign") && row.ends_with("a plain string"), "{}", said.out);
        assert!(!said.out.contains("old-token"), "{}", said.out);
    }
}

#[apply(on_one_server)]
fn a_done_lock_is_shown_with_its_last_holder(kind: Kind) {
    let mut servers = servers(kind, 3);
    take(&servers, b"job", "secret", "FENCE 1790000000000000");
    let fence = servers[0].run("DLOCK.CHECK job secret").int();
    let release = format!("DLOCK.RELEASE job secret DONE 600000 FENCE {fence} META exit=0");
    let leave = |server: &harness::Server| assert_eq!(server.run(&release).int(), 1);
    servers[..2].iter().for_each(leave);

    let said = dlock(&servers, &["inspect", "job", "--json"]).with_code(1).json();
    let id = servers[0].run("DLOCK.INSPECT job").at("id").text();
    for node in &said[..2] {
        assert_eq!((&node["mode"], &node["holding"]), (&"done".into(), &0.into()), "{node}");
        let done = format!("{node}");
        for words in [format!("\"id\":\"{id}\""), format!("\"fence\":{fence}"), "exit=0".to_owned()]
        {
            assert!(done.contains(&words), "{words} is not in {done}");
        }
        assert!(node["ttl_ms"].as_i64().is_some_and(|left| left > 500_000), "{node}");
    }
    assert_eq!((&said[2]["mode"], &said[3]["state"]), (&"exclusive".into(), &"done".into()));
    for options in [&["inspect", "job"][..], &["inspect", "--tokens", "job"]] {
        let said = dlock(&servers, options).with_code(1);
        let verdict = format!("job: done on 2 of 3 nodes, by the holder with fence {fence}");
        assert!(said.out.starts_with(&verdict), "{}", said.out);
        let row = said.out.lines().find(|line| line.contains("exit=0")).unwrap_or_default();
        assert!(row.contains(" done ") && row.contains(&fence.to_string()), "{}", said.out);
        assert!(row.contains("9 min") && !row.contains("secret"), "{}", said.out);
    }
    // With one node silent, one record is no majority, and two are.
    servers[2].stop();
    assert_eq!(
        dlock(&servers, &["inspect", "job", "--json"]).with_code(1).json()[3]["state"],
        "done"
    );
    servers[0].run("DEL job");
    let said = dlock(&servers, &["inspect", "job", "--json"]).with_code(69).json();
    assert_eq!(said[3]["state"], "unknown");
}
