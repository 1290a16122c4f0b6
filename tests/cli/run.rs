//! `dlock run KEY... -- CMD`: the command's environment, and its end.

use std::fs;

use harness::{Kind, Quorum, Server, apply, eventually, on_one_server, wall_clock};
use tempfile::TempDir;

use crate::running::{Running, run};

#[apply(on_one_server)]
fn a_command_runs_under_a_lock(kind: Kind) {
    let quorum = Quorum::of((0..3).map(|_| Server::build(kind)).collect());
    let running = Running::start(&quorum, &["job", "-c", "echo begun; read line; echo $line"]);
    // The program has no input: read ends at once.
    let said = running.ended().with_code(0);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("begun\n\n", ""));
    quorum.until_released();
}

#[test]
fn the_exit_code_is_the_commands() {
    let quorum = Quorum::start(1);
    for code in [0, 1, 3, 75, 255] {
        run(&quorum, &["job", "-c", &format!("exit {code}")]).with_code(code);
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130)] {
        run(&quorum, &["job", "-c", &format!("kill -{signal} $$")]).with_code(code);
    }
    quorum.until_released();
}

#[test]
fn a_lock_that_is_not_free_has_an_exit_code_of_its_own() {
    let quorum = Quorum::start(1);
    let holder = hold(&quorum, "job");
    for (options, code) in [
        (vec!["-n"], 1),
        (vec!["-n", "-E", "42"], 42),
        (vec!["-n", "-E", "0"], 0),
        (vec!["-w", "0"], 1),
    ] {
        let mut arguments = options.clone();
        arguments.extend(["job", "--", "echo", "run"]);
        let said = run(&quorum, &arguments).with_code(code);
        assert_eq!(said.out, "", "{options:?}");
        assert!(said.err.contains("job") && said.err.contains("held"), "{options:?}: {}", said.err);
    }
    let said = run(&quorum, &["-n", "-q", "job", "--", "true"]).with_code(1);
    assert_eq!(said.err, "");
    drop(holder);
}

#[test]
fn a_wait_is_over_when_the_lock_is_free() {
    let quorum = Quorum::start(1);
    let end = End::new();
    let first = Running::start(&quorum, &["job", "-c", &end.after("echo first")]);
    first.until_it_prints("first");
    let second = Running::start(&quorum, &["job", "--", "echo", "second"]);
    eventually("it waits", || quorum[0].node("waiters").int() == 1);
    assert_eq!(second.out(), "");
    end.comes();
    second.ended().with_code(0);
    first.ended().with_code(0);
    quorum.until_released();
}

#[test]
fn a_waiter_waits_through_an_outage_and_reports_it() {
    let quorum = Quorum::start(3);
    quorum[0].network().refuse();
    quorum[2].network().refuse();
    run(&quorum, &["-w", "100ms", "job", "--", "echo", "run"]).with_code(69);
    let waiting = Running::start(&quorum, &["job", "--", "echo", "run"]);
    waiting.until_it_complains("waiting for lock 'job'");
    quorum[0].network().pass();
    quorum[2].network().pass();
    let said = waiting.ended().with_code(0);
    assert_eq!(said.out, "run\n");
    assert!(said.err.contains("a majority of the nodes answers again"), "{}", said.err);
    quorum.until_empty();
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own_and_takes_no_lock() {
    let quorum = Quorum::start(3);
    let wrong: &[&[&str]] = &[
        &["job"],
        &["--", "true"],
        &["--nonsense", "job", "--", "true"],
        &["-w", "-1", "job", "--", "true"],
        &["--limit", "2", "job", "--", "true"],
    ];
    for arguments in wrong {
        let said = run(&quorum, arguments).with_code(64);
        assert!(!said.err.is_empty(), "{arguments:?}");
        assert_eq!(said.out, "", "{arguments:?}");
    }
    let grants = |node: &harness::quorum::Node| node.info_number("dlock", "dlock_grants");
    assert!(quorum.iter().all(|node| grants(node) == 0));
}

#[test]
fn input_and_output_pass_untouched() {
    let quorum = Quorum::start(1);
    let said = run(&quorum, &["job", "-c", "echo to-out; echo to-err >&2"]).with_code(0);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("to-out\n", "to-err\n"));
}

#[test]
fn the_command_is_told_about_its_lock() {
    let quorum = Quorum::start(1);
    let end = End::new();
    let script =
        end.after("echo \"$DLOCK_KEY|$DLOCK_TOKEN|$DLOCK_FENCE|$DLOCK_DEADLINE_MS\"; echo ready");
    let begun = wall_clock::micros(0) / 1000;
    let running = Running::start(&quorum, &["--ttl", "10m", "job:42", "-c", &script]);
    running.until_it_prints("ready");
    let holder = quorum[0].holder("job:42");
    let ended = wall_clock::micros(0) / 1000;
    let out = running.out();
    let fields: Vec<&str> = out.lines().next().unwrap_or_default().split('|').collect();
    let [key, token, fence, deadline] = fields[..] else { panic!("{out}") };
    assert_eq!((key, token), ("job:42", holder["token"].text().as_str()));
    assert_eq!(fence, holder["fence"].int().to_string());
    let deadline = deadline.parse::<i64>().expect("a number");
    assert!((begun + 500_000..ended + 600_000).contains(&deadline), "{begun} {deadline} {ended}");
    end.comes();
    running.ended().with_code(0);
}

#[test]
fn others_see_the_holder() {
    let quorum = Quorum::start(1);
    let end = End::new();
    let options = ["--meta", "why=nightly", "job", "-c", &end.after("echo in")];
    let running = Running::start(&quorum, &options);
    running.until_it_prints("in");
    let meta = quorum[0].holder("job")["meta"].text();
    for part in ["why=nightly", "host=", &format!("pid={}", running.id()), "user="] {
        assert!(meta.contains(part), "{part}: {meta}");
    }
    let said = run(&quorum, &["-n", "job", "--", "true"]).with_code(1);
    assert!(said.err.contains("why=nightly"), "{}", said.err);
    end.comes();
    running.ended().with_code(0);
}

#[test]
fn events_are_told_as_json_on_stderr() {
    let quorum = Quorum::start(1);
    let names = |text: &str| -> Vec<String> {
        let objects = text.lines().map(serde_json::from_str::<serde_json::Value>);
        let objects = objects.map(|object| object.unwrap_or_else(|e| panic!("{e}: {text}")));
        objects.map(|object| object["event"].as_str().expect("it has a name").to_owned()).collect()
    };
    let said = run(&quorum, &["--json", "job", "--", "true"]).with_code(0);
    assert_eq!(said.out, "");
    assert_eq!(names(&said.err), ["acquired", "started", "ended", "released"]);
    let first: serde_json::Value =
        serde_json::from_str(said.err.lines().next().unwrap_or_default()).expect("it is JSON");
    assert_eq!(first["key"], "job");
    assert!(first["fence"].is_u64(), "{first}");
    let _holder = hold(&quorum, "job");
    let said = run(&quorum, &["--json", "-n", "job", "--", "true"]).with_code(1);
    let told = names(&said.err);
    assert_eq!(told.last().map(String::as_str), Some("error"), "{told:?}");
}

/// The end of a command, when the test says so.
pub struct End(TempDir);

impl End {
    pub fn new() -> End {
        End(TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made"))
    }

    /// A script that ends after the end comes.
    pub fn after(&self, first: &str) -> String {
        format!("{first}; while [ ! -e {}/end ]; do sleep 0.02; done", self.0.path().display())
    }

    pub fn comes(&self) {
        fs::write(self.0.path().join("end"), "").expect("the folder can be written");
    }
}

/// Holds a lock at every node, by hand, until it is dropped.
pub fn hold(quorum: &Quorum, key: &str) -> Vec<harness::Client> {
    let hold = |node: &harness::quorum::Node| {
        let mut client = node.client();
        let answer = client.run(&format!("DLOCK.ACQUIRE {key} somebody 600000 EPHEMERAL"));
        assert!(answer.is_int(), "{answer:?}");
        client
    };
    quorum.iter().map(hold).collect()
}
