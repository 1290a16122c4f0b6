//! `dlock ls`

use harness::{Kind, apply, on_one_server};

use crate::{address, dlock, servers, take};

#[apply(on_one_server)]
fn the_locks_of_all_nodes_are_merged_and_sorted(kind: Kind) {
    let mut servers = servers(kind, 3);
    assert_eq!(dlock(&servers, &["ls", "--json"]).with_code(0).out, "");
    take(&servers, b"job:2", "alice", "");
    take(&servers[..1], b"job:1", "alice", "SHARED");
    take(&servers[..1], b"job:1", "bob", "SHARED");
    take(&servers[1..2], b"pool\xff", "alice", "LIMIT 7");
    servers[0].run("SET plain string");
    take(&servers, b"gone", "alice", "");
    servers.iter().for_each(|server| drop(server.run("DLOCK.RELEASE gone alice")));
    // The first waiter waits on several nodes.
    let _bob = [&servers[0], &servers[2]]
        .map(|server| server.waiter("DLOCK.ACQUIRE job:2 bob 60000 WAIT 0"));

    let said = dlock(&servers, &["ls"]).with_code(0);
    let rows: Vec<Vec<&str>> =
        said.out.lines().map(|line| line.split("  ").filter(|w| !w.is_empty()).collect()).collect();
    let rows: Vec<Vec<&str>> =
        rows.into_iter().map(|row| row.into_iter().map(str::trim).collect()).collect();
    assert_eq!(rows[0], ["KEY", "MODE", "HOLDERS", "NODES", "LEFT", "WAITERS"]);
    assert_eq!(rows[1], ["job:1", "shared", "2", "1 of 3", "9 min", "0"]);
    assert_eq!(rows[2], ["job:2", "exclusive", "1", "3 of 3", "9 min", "1"]);
    assert_eq!(rows[3], ["pool\\xff", "limit 7", "1", "1 of 3", "9 min", "0"]);
    assert_eq!(rows.len(), 4, "{}", said.out);

    let keys = |arguments: &[&str]| -> Vec<String> {
        let said = dlock(&servers, &[&["ls", "--json"], arguments].concat()).with_code(0);
        said.json().iter().map(|lock| lock["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&["--contended"]), ["job:2"]);
    assert_eq!(keys(&["--match", "job:*"]), ["job:1", "job:2"]);
    assert_eq!(keys(&["--match", "nothing*"]), Vec::<String>::new());

    servers[1].stop();
    assert_eq!(dlock(&servers, &["ls", "--json"]).with_code(0).json().len(), 2);
    let said = dlock(&servers, &["ls"]).with_code(0);
    assert!(said.err.starts_with(&format!("dlock: {}: ", address_of(&servers))), "{}", said.err);
    // Then a lock that a majority holds may be missing.
    servers[2].stop();
    assert_eq!(dlock(&servers, &["ls", "--json"]).with_code(69).json().len(), 2);
}

#[apply(on_one_server)]
fn locks_that_are_done_are_listed_on_request(kind: Kind) {
    let servers = servers(kind, 1);
    for key in ["job:1", "job:2", "held"] {
        take(&servers, key.as_bytes(), "alice", "");
    }
    for (key, time) in [("job:1", 600_000), ("job:2", 7_200_000)] {
        let release = format!("DLOCK.RELEASE {key} alice DONE {time} META text");
        assert_eq!(servers[0].run(&release).int(), 1);
    }
    let shown = |options: &[&str]| {
        let said = dlock(&servers, &[&["ls", "--json"], options].concat()).with_code(0);
        let row = |lock: &serde_json::Value| {
            let left = lock["ttl_ms"].as_i64().is_some_and(|left| left > 50_000);
            assert!(left && lock["nodes"] == 1, "{lock}");
            if let Some(done) = lock["done"].as_object() {
                assert!(done["since_ms"].is_u64() && done["fence"].is_u64(), "{lock}");
                assert!(done["id"].is_string() && done["outcome"] == "text", "{lock}");
            }
            format!("{} {} {}", lock["key"], lock["mode"], lock["holding"]).replace('"', "")
        };
        said.json().iter().map(row).collect::<Vec<_>>()
    };
    let held = "held exclusive 1";
    assert_eq!(shown(&[]), [held]);
    assert_eq!(shown(&["--done"]), [held, "job:1 done 0", "job:2 done 0"]);
    assert_eq!(shown(&["--done", "--match", "*:2"]), ["job:2 done 0"]);
    assert_eq!(shown(&["--done", "--contended"]), Vec::<String>::new());
    let said = dlock(&servers, &["ls", "--done"]).with_code(0);
    let row = said.out.lines().find(|line| line.starts_with("job:2 ")).unwrap_or_default();
    assert!(row.contains(" done ") && row.contains("119 min") && row.ends_with("text"), "{row}");
    let heading = said.out.lines().next().unwrap_or_default();
    assert!(heading.ends_with("DONE FOR  OUTCOME"), "{}", said.out);
    assert!(!dlock(&servers, &["ls"]).with_code(0).out.contains("job:"));
}

fn address_of(servers: &[harness::Server]) -> String {
    address(&servers[1])
}

#[apply(on_one_server)]
fn several_thousand_locks_take_many_pages(kind: Kind) {
    let servers = servers(kind, 1);
    let mut client = servers[0].client();
    client.pipeline((0..5000).map(|number| format!("DLOCK.ACQUIRE lock:{number:04} token 600000")));
    let said = dlock(&servers, &["ls", "--json"]).with_code(0).json();
    let keys: Vec<&str> = said.iter().map(|lock| lock["key"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..5000).map(|number| format!("lock:{number:04}")).collect();
    assert_eq!(keys, expected);
}
