//! `dlock acquire`, for scripts: `extend` and `release` have files of their own.

use std::process::Command;

use harness::program::{self, Said};
use harness::{Quorum, eventually, wall_clock};
use nix::sys::signal::Signal;

use crate::running::{Running, dlock};

#[test]
fn a_script_takes_extends_and_gives_back_a_lock() {
    let quorum = Quorum::start(3);
    let said = shell(
        &quorum,
        r#"
        set -e
        lease=$("$DLOCK" acquire --ttl 5m job)
        eval "$lease"
        # `extend` finds the fence.
        printenv DLOCK_KEY DLOCK_FENCE > /dev/null
        "$DLOCK" run -n job -- true && exit 9
        lease=$("$DLOCK" extend --ttl 10m job)
        fence=$DLOCK_FENCE
        eval "$lease"
        test "$fence" = "$DLOCK_FENCE"
        "$DLOCK" release job
        unset DLOCK_TOKEN
        "$DLOCK" run -n job -- echo free
        "#,
    );
    assert_eq!(said.with_code(0).out, "free\n");
    quorum.until_released();
}

#[test]
fn what_is_printed_is_safe_for_a_shell() {
    let quorum = Quorum::start(1);
    for key in ["a b", "it's", "$(echo no)", "two\nlines", "`no`; exit 9", "\"", "ä", "-n"] {
        let said = dlock(&quorum, &["acquire", "--", key]).with_code(0);
        let script = format!("{}\nprintf %s \"$DLOCK_KEY\"", said.out);
        let shown = Command::new("sh").args(["-c", &script]).output().expect("there is sh");
        assert_eq!(String::from_utf8_lossy(&shown.stdout), key);
    }
}

#[test]
fn the_holder_and_its_time_are_printed() {
    let quorum = Quorum::start(1);
    let said = dlock(&quorum, &["acquire", "job"]).with_code(0);
    let names: Vec<&str> =
        said.out.lines().filter_map(|l| l.split_once('=').map(|p| p.0)).collect();
    let expected = ["KEY", "TOKEN", "FENCE", "DEADLINE_MS"];
    assert_eq!(names, expected.map(|name| format!("export DLOCK_{name}")));
    let token = quorum[0].holder("job")["token"].text();
    assert!(said.out.contains(&token), "{}", said.out);
    assert_eq!(said.err, "");

    let begun = wall_clock::micros(0) / 1000;
    let said = dlock(&quorum, &["acquire", "--json", "--ttl", "10m", "another"]).with_code(0);
    assert!(said.err.starts_with("{\"event\":\"acquired\""), "{}", said.err);
    let object = &said.json()[0];
    let holder = quorum[0].holder("another");
    assert_eq!(object["key"], "another");
    assert_eq!(object["token"], holder["token"].text());
    assert_eq!(object["fence"], holder["fence"].int());
    let deadline = object["deadline_ms"].as_i64().unwrap_or_else(|| panic!("{object}"));
    let ended = wall_clock::micros(0) / 1000;
    assert!((begun + 500_000..ended + 600_000).contains(&deadline), "{begun} {deadline} {ended}");
}

#[test]
fn a_lock_that_was_waited_for_is_held_as_long_as_it_says() {
    let quorum = Quorum::start(1);
    quorum[0].run("DLOCK.ACQUIRE job other 500000");
    let begun = wall_clock::micros(0) / 1000;
    let mut command = program::command(&quorum.urls());
    command.args(["--json", "acquire", "--ttl", "10m", "job"]);
    let waiting = Running::of(command);
    eventually("it waits", || quorum[0].traces().waiters == 1);
    quorum[0].run("DLOCK.RELEASE job other");
    let said = waiting.ended().with_code(0);
    let object = &said.json()[0];
    let deadline = object["deadline_ms"].as_i64().unwrap_or_else(|| panic!("{object}"));
    assert!(deadline > begun + 500_000, "{begun} {deadline}");
    assert!(quorum[0].holder("job")["ttl-ms"].int() > 500_000);
}

#[test]
fn a_lease_is_not_renewed() {
    let quorum = Quorum::start(1);
    dlock(&quorum, &["acquire", "--ttl", "1s", "job"]).with_code(0);
    eventually("it is over", || quorum.held("job") == 0);
}

#[test]
fn a_lease_may_be_shared() {
    let quorum = Quorum::start(1);
    dlock(&quorum, &["acquire", "-s", "page"]).with_code(0);
    dlock(&quorum, &["acquire", "-n", "-s", "page"]).with_code(0);
    dlock(&quorum, &["acquire", "-n", "page"]).with_code(1);
}

/// The caller takes the exit code for a failure, and releases nothing.
#[test]
fn a_signal_while_a_node_hangs_leaves_no_lock() {
    let quorum = Quorum::start(3);
    quorum[2].pause();
    let mut command = program::command(&quorum.urls());
    command.args(["--node-timeout", "5s", "acquire", "--ttl", "60s", "job"]);
    let acquiring = Running::of(command);
    eventually("it is held", || (0..2).all(|node| quorum[node].node("leases").int() == 1));
    acquiring.signal(Signal::SIGTERM);
    acquiring.ended().with_code(143);
    quorum[2].resume();
    quorum.until_released();
}

/// Runs a script with the program as `$DLOCK`.
pub fn shell(quorum: &Quorum, script: &str) -> Said {
    shell_at(&quorum.urls(), script)
}

/// Runs a shell script, with these addresses as its nodes.
pub fn shell_at(nodes: &[String], script: &str) -> Said {
    let nodes = program::command(nodes);
    let mut command = program::with_usual_signals("sh");
    for (name, value) in nodes.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("PROGRAM", program::path()).env("DLOCK", "dlock").arg("-c");
    let patient = format!("dlock() {{ \"$PROGRAM\" --node-timeout {} \"$@\"; }}", program::PATIENT);
    program::run(command.arg(format!("{patient}\n{script}")))
}

/// Some programs also open it for reading, in place of unwanted output.
#[test]
fn a_caller_that_throws_the_token_away_gets_the_lock() {
    let quorum = Quorum::start(1);
    for (key, output) in [("job", ">/dev/null"), ("other", "1<>/dev/null")] {
        shell(&quorum, &format!(r#""$DLOCK" acquire {key} {output}"#)).with_code(0);
        assert_eq!(quorum.held(key), 1, "{output}");
    }
}
