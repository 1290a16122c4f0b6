//! Errors: the words, the kind for programs, and the exit code.

use std::fs;

use harness::program::{self, Said};
use harness::{Agent, Kind, Server, apply, on_one_server, ports, scratch};
use nix::unistd::geteuid;
use serde_json::Value;

use crate::{addresses, dlock, dlock_at, servers, take};

/// The errors in its JSON on stderr, where it writes nothing else.
#[track_caller]
fn errors(said: &Said) -> Vec<Value> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let events: Vec<Value> = said.err.lines().map(read).collect();
    events.into_iter().filter(|event| event["event"] == "error").collect()
}

#[test]
fn wrong_usage_is_an_event_where_programs_read() {
    for (words, message) in [
        (&["--json", "nonsense"][..], "unrecognized subcommand 'nonsense'"),
        (&["run", "--json", "--nonsense", "job", "--", "true"], "unexpected argument '--nonsense'"),
        (&["dev", "-n", "0", "--json"], "0 is not in 1..=99"),
        (&["ls", "--node-timeout", "61m", "--json"], "must be at most 1h"),
        (&["inspect", "--json"], "<KEY>"),
    ] {
        let said = dlock_at(&["127.0.0.1:1".to_owned()], words).with_code(64);
        let error = &errors(&said)[0];
        assert_eq!(error["kind"], "usage", "{words:?}");
        let told = error["message"].as_str().unwrap_or_default();
        assert!(told.contains(message) && !told.contains("Usage:"), "{words:?}: {told}");
    }
    // Words after -- are the command's.
    let said = dlock_at(&["127.0.0.1:1".to_owned()], &["run", "--nonsense", "--", "x", "--json"]);
    assert!(said.with_code(64).err.starts_with("error: "));
}

/// Asserts that several subcommands report the same failure.
#[track_caller]
fn assert_fails(nodes: &[String], commands: &[&str], code: i32, kind: &str, words: &str) {
    for command in commands {
        let words_of = |json: &[&'static str]| -> Vec<String> {
            command.split(' ').chain(json.iter().copied()).map(str::to_owned).collect()
        };
        let mut json = words_of(&[]);
        json.insert(1, "--json".to_owned());
        let said = dlock_at(nodes, &json).with_code(code);
        let kinds: Vec<Value> = errors(&said).iter().map(|error| error["kind"].clone()).collect();
        assert_eq!(kinds, [kind], "{command}: {}", said.err);
        let said = dlock_at(nodes, &words_of(&[])).with_code(code);
        assert!(said.err.starts_with("dlock: ") && said.err.contains(words), "{command}: {said:?}");
    }
}

const TAKING: [&str; 2] = ["run -n job -- true", "acquire -n job"];
const GIVING: [&str; 2] = [
    "extend --fence 7 job 00112233445566778899aabbccddeeff",
    "release job 00112233445566778899aabbccddeeff",
];

#[apply(on_one_server)]
fn a_lock_that_is_held_or_was_lost(kind: Kind) {
    let servers = servers(kind, 1);
    let nodes = addresses(&servers);
    assert_fails(&nodes, &GIVING, 75, "lost", "does not hold the lock");
    take(&servers, b"job", "alice", "");
    assert_fails(&nodes, &TAKING, 1, "held", "is held by");
    let said = dlock(&servers, &["run", "-n", "--json", "-E", "9", "job", "--", "true"]);
    assert_eq!(errors(&said.with_code(9))[0]["kind"], "held", "whatever the code");
}

/// Permanent errors have codes of their own, apart from 69.
#[apply(on_one_server)]
fn a_request_that_nodes_refuse_for_good(kind: Kind) {
    let servers = servers(kind, 1);
    let nodes = addresses(&servers);
    servers[0].run("CONFIG SET dlock.max-ttl 10000");
    assert_fails(&nodes, &TAKING, 65, "refused", "dlock.max-ttl");
    servers[0].run("CONFIG SET dlock.max-ttl 600000");

    servers[0].run("RPUSH job data");
    assert_fails(&nodes, &TAKING, 65, "wrong_type", "WRONGTYPE");
    assert_fails(&nodes, &GIVING, 65, "wrong_type", "WRONGTYPE");
    let said = dlock(&servers, &["inspect", "--json", "job"]).with_code(65).json();
    assert_eq!(said[0]["kind"], "wrong_type");
}

#[apply(on_one_server)]
fn a_user_that_nodes_do_not_accept(kind: Kind) {
    let servers = servers(kind, 1);
    let place = &addresses(&servers)[0];
    servers[0].run("ACL SETUSER app on >secret ~job:* +@all -DLOCK.BREAK -DLOCK.INSPECT");
    let app = [format!("redis://app:secret@{place}")];
    assert_fails(&app, &TAKING, 77, "no_permission", "NOPERM");
    assert_fails(&app, &GIVING, 77, "no_permission", "NOPERM");
    let wrong = [format!("redis://app:wrong@{place}")];
    assert_fails(&wrong, &TAKING, 77, "no_permission", "WRONGPASS");
    take(&servers, b"job:1", "alice", "");
    // Without the right to look an empty list would be wrong.
    assert_fails(&app, &["ls"], 77, "no_permission", "NOPERM");
    for command in [&["inspect", "--json", "job:1"][..], &["break", "-y", "--json", "job:1"]] {
        let said = dlock_at(&app, command).with_code(77).json();
        assert_eq!(said[0]["kind"], "no_permission", "{command:?}");
    }
}

#[apply(on_one_server)]
fn servers_that_are_no_nodes_for_locks(kind: Kind) {
    let bare = [Server::build(kind).without_module().start()];
    let nodes = addresses(&bare);
    let missing = "the dlock module is not loaded (loadmodule /path/to/libdlock.so)";
    assert_fails(&nodes, &TAKING, 78, "unfit", missing);
    assert_fails(&nodes, &GIVING, 78, "unfit", missing);
    assert_fails(&nodes, &["ls"], 78, "unfit", missing);
    let said = dlock_at(&nodes, &["ls"]).with_code(78);
    assert_eq!(said.out, "", "no table");
    let fenced = dlock_at(&nodes, &["fenced", "--fence", "1", "mark"]).with_code(78);
    assert!(fenced.err.contains(missing), "{}", fenced.err);
    for command in [&["inspect", "job"][..], &["break", "-y", "job"]] {
        let said = dlock_at(&nodes, command).with_code(78);
        assert!(said.err.contains(missing), "{command:?}: {}", said.err);
        let json = [command, &["--json"]].concat();
        assert_eq!(dlock_at(&nodes, &json).with_code(78).json()[0]["kind"], "unfit", "{json:?}");
    }

    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_followed_by(&replica);
    assert_fails(&addresses(&[replica]), &TAKING, 78, "unfit", "it is a replica");
}

#[test]
fn nodes_that_are_not_there() {
    let nobody = [format!("127.0.0.1:{}", ports::free())];
    assert_fails(&nobody, &TAKING, 69, "no_quorum", "Connection refused");
    assert_fails(&nobody, &["ls"], 69, "unreachable", "Connection refused");
    let said = dlock_at(&nobody, &["inspect", "--json", "job"]).with_code(69).json();
    assert_eq!(said[0]["kind"], "unreachable");
    let said = dlock_at(&nobody, &["inspect", "job"]).with_code(69);
    assert!(said.err.contains("Connection refused"), "a table would cut it: {said:?}");
    assert_fails(&["http://host".to_owned()], &TAKING, 64, "usage", "redis://");
}

#[test]
fn an_agent_named_as_a_node_is_called_one() {
    let servers = servers(Kind::Redis82, 1);
    let agent = Agent::start(&addresses(&servers));
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let nodes = [format!("unix:{}", agent.socket().display())];
    for words in [
        &["ready"][..],
        &["ls"],
        &["break", "-y", "job"],
        &["top", "--once"],
        &["run", "job", "--", "true"],
    ] {
        let said = dlock_at(&nodes, words);
        assert!(format!("{said:?}").contains("it is an agent"), "{words:?}: {said:?}");
        assert!(said.code == Some(78) || words[0] == "top", "{words:?}: {said:?}");
    }
}

#[test]
fn an_agent_without_a_majority_warns_in_json() {
    let agent = Agent::with(&[format!("127.0.0.1:{}", ports::free())], &["--json"]);
    agent.running().until_it_complains("\n");
    let said = agent.running().err();
    let warning: Value = serde_json::from_str(said.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((&warning["event"], &warning["kind"]), (&"warning".into(), &"no_quorum".into()));
}

#[test]
fn a_command_that_cannot_be_run() {
    let server = [Server::start(harness::Kind::Redis82)];
    let nodes = addresses(&server);
    assert_fails(&nodes, &["run job -- ./no-such-program"], 127, "not_found", "no such program");
    assert_fails(&nodes, &["run job -- /dev/null"], 126, "cannot_execute", "may not be executed");
}

/// Under cron and sudo the variable is missing: a default node on each host would grant each a lock of its own.
#[test]
fn without_nodes_the_error_says_how_to_name_and_get_some() {
    let folder = scratch::folder();
    let socket = folder.path().join("agent.sock");
    let commands = [
        "run -n job -- true",
        "acquire -n job",
        "ls",
        "inspect job",
        "break -y job",
        "ready",
        "doctor",
        "top --once",
        "exporter",
        &format!("agent --listen unix:{}", socket.display()),
        "fenced --fence 7 mark -- GET x",
    ];
    for command in commands {
        let mut without = program::command(&[]);
        without.env_remove("DLOCK_NODES").args(command.split(' '));
        let empty = dlock_at(&[], &command.split(' ').collect::<Vec<_>>());
        for said in [program::run(&mut without), empty] {
            let said = said.with_code(64);
            for word in ["--nodes", "DLOCK_NODES", "`dlock dev`"] {
                assert!(said.err.contains(word), "no {word} in {said:?}");
            }
        }
    }
    assert!(!socket.exists(), "the agent leaves a socket behind");
}

/// The name has two addresses, first of one server, then of two.
#[test]
fn a_name_of_several_servers_is_no_node() {
    let servers = servers(Kind::Redis82, 2);
    let (port, folder) = (servers[0].port(), scratch::folder());
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 nodes.invalid\n127.0.0.2 nodes.invalid\n").expect("a file");
    let at_the_name = |subcommand: &[&str]| {
        let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
        let mut command = program::with_usual_signals("unshare");
        command.args((!geteuid().is_root()).then_some("--map-root-user"));
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&hosts).arg(program::path());
        program::run(command.arg("--nodes").arg(format!("nodes.invalid:{port}")).args(subcommand))
    };
    let bound = |server: &Server, to: &str| {
        let answer =
            server.client().run_args(&["CONFIG", "SET", "bind", to, "port", &port.to_string()]);
        assert_eq!(answer.text(), "OK");
    };
    bound(&servers[0], "127.0.0.1 127.0.0.2");
    at_the_name(&["run", "-n", "job", "--", "true"]).with_code(0);
    at_the_name(&["ls"]).with_code(0);
    bound(&servers[0], "127.0.0.1");
    at_the_name(&["run", "-n", "job", "--", "true"]).with_code(0);
    bound(&servers[1], "127.0.0.2");
    for subcommand in [&["run", "-n", "job", "--", "true"][..], &["ls"], &["doctor"]] {
        let said = at_the_name(subcommand);
        let words = said.out.clone() + &said.err;
        assert!(words.contains("its name leads to several servers"), "{subcommand:?}: {words}");
        assert_ne!(said.code, Some(0), "{subcommand:?}");
    }
}
