//! `dlock run --done-for`: a job that several hosts start, and that should run once.

use harness::program::Said;
use harness::{Kind, Quorum, Server, eventually};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::LEASE;
use crate::running::{Running, dlock, run};

/// Longer than a test takes.
const DAY: [&str; 2] = ["--done-for", "24h"];

/// A job that prints its beginning, and ends when its file exists.
const UNTIL_TOLD: &str = "echo in; while [ ! -e \"$0\" ]; do sleep 0.02; done";

#[track_caller]
fn job(quorum: &Quorum, options: &[&str], script: &str) -> Said {
    run(quorum, &[&DAY, options, &["job", "-c", script]].concat())
}

/// The events of a kind in its output with --json.
fn events(said: &Said, name: &str) -> Vec<Value> {
    let lines = said.err.lines().filter(|line| line.starts_with('{'));
    let events = lines.map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    events.filter(|event| event["event"] == name).collect()
}

#[track_caller]
fn only_event(said: &Said, name: &str) -> Value {
    let events = events(said, name);
    assert_eq!(events.len(), 1, "{name}: {}", said.err);
    events[0].clone()
}

#[test]
fn a_job_that_has_succeeded_is_not_run_again_and_later_hosts_see_its_run() {
    let quorum = Quorum::start(3);
    let first = job(&quorum, &["--meta", "host=web-1"], "echo run").with_code(0);
    assert_eq!((&*first.out, &*first.err), ("run\n", ""));
    let second = job(&quorum, &[], "echo run").with_code(0);
    assert_eq!(second.out, "");
    for words in ["dlock: lock 'job' is done for ", " ago (host=web-1 pid="] {
        assert!(second.err.contains(words), "{words}: {}", second.err);
    }
    assert_eq!(second.err.lines().count(), 1, "{}", second.err);
    // Also commands with another patience, or without --done-for.
    for options in [&["-n"][..], &["-w", "30"], &["--ttl", "1m"]] {
        let said = run(&quorum, &[options, &["job", "--", "echo", "run"]].concat());
        assert_eq!(said.with_code(0).out, "");
    }
    assert_eq!(job(&quorum, &["-q"], "echo run").with_code(0).err, "");
    quorum.until_released();
}

#[test]
fn what_happens_is_told_to_programs() {
    let quorum = Quorum::start(3);
    let said = job(&quorum, &["--json", "--meta", "host=web-1"], "true").with_code(0);
    let left = only_event(&said, "left_done")["left_ms"].as_u64().expect("a number");
    assert!((80_000_000..=86_400_000).contains(&left), "{left}");
    assert!(events(&said, "released").is_empty(), "{}", said.err);
    let fence = only_event(&said, "acquired")["fence"].clone();

    let said = job(&quorum, &["--json"], "true").with_code(0);
    let done = only_event(&said, "done");
    assert_eq!((&done["key"], &done["fence"]), (&"job".into(), &fence));
    assert!(done["left_ms"].as_u64() <= Some(left) && done["since_ms"].is_u64(), "{done}");
    let meta = done["outcome"].as_str().unwrap_or_default();
    assert!(meta.starts_with("host=web-1 pid="), "{meta}");
    assert!(done["message"].is_string(), "{done}");

    // For a script, a done lock is a refused one.
    let said = dlock(&quorum, &["--json", "acquire", "job"]).with_code(1);
    assert_eq!((only_event(&said, "error")["kind"].as_str(), &*said.out), (Some("done"), ""));
}

#[test]
fn a_job_that_fails_is_tried_by_the_next_one() {
    let quorum = Quorum::start(1);
    assert_eq!(job(&quorum, &[], "exit 3").with_code(3).err, "");
    quorum.until_released();
    job(&quorum, &[], "kill -KILL $$").with_code(137);
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "run\n");
}

#[test]
fn a_job_runs_again_on_request() {
    let quorum = Quorum::start(3);
    job(&quorum, &[], "true").with_code(0);
    assert_eq!(job(&quorum, &["--again"], "echo again").with_code(0).out, "again\n");
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "");
    // A failure leaves the lock free, and so does a run without --done-for.
    job(&quorum, &["--again"], "false").with_code(1);
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "run\n");
    run(&quorum, &["--again", "job", "--", "true"]).with_code(0);
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "run\n");

    let said = dlock(&quorum, &["break", "--yes", "job"]).with_code(0);
    // The third node may have an older record or none, if it answered last.
    assert!(said.out.matches(": 1 completion record ended\n").count() >= 2, "{}", said.out);
    assert!(said.err.contains(" of 3 nodes") && said.err.contains("host="), "{said:?}");
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "run\n");
}

#[test]
fn a_window_begins_when_the_lock_is_acquired() {
    let quorum = Quorum::start(1);
    let said = job(&quorum, &["--json"], "sleep 1").with_code(0);
    let left = only_event(&said, "left_done")["left_ms"].as_u64().expect("a number");
    assert!(left <= 86_399_000, "{left}");
}

#[test]
fn a_job_that_takes_longer_than_its_window_is_run_again_and_that_is_said() {
    let quorum = Quorum::start(1);
    let options = ["--json", "--done-for", "500ms", "job", "-c", "sleep 0.7; echo run"];
    let said = run(&quorum, &options).with_code(0);
    let warning = only_event(&said, "warning");
    assert_eq!(warning["kind"], "not_done");
    assert!(warning["message"].as_str().is_some_and(|it| it.contains("--done-for 500 ms")));
    assert_eq!(run(&quorum, &options).with_code(0).out, "run\n");
}

#[test]
fn the_fire_time_is_a_part_of_the_key_whatever_its_form() {
    let quorum = Quorum::start(1);
    let script = "echo $DLOCK_KEY";
    let said = job(&quorum, &["--fire", "2026-11-25T03:00:00+01:00"], script).with_code(0);
    assert_eq!(said.out, "job@2026-11-25T02:00:00Z\n");
    assert_eq!(job(&quorum, &["--fire", "1795572000"], script).with_code(0).out, "");
    let said = job(&quorum, &["--fire", "1795572060"], script).with_code(0);
    assert_eq!(said.out, "job@2026-11-25T02:01:00Z\n");
    let escaped = [&DAY[..], &["--fire", "0", "--escaped", r"j\x00", "-c", script]].concat();
    assert_eq!(run(&quorum, &escaped).with_code(0).out, "j\\x00@1970-01-01T00:00:00Z\n");
    assert!(quorum[0].run("EXISTS job").int() == 0);
}

#[test]
fn a_waiter_learns_that_it_is_done_and_gets_the_lock_if_it_is_not() {
    let quorum = Quorum::start(1);
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (end, out) in [("exit 1", "run\n"), ("exit 0", "")] {
        let told = folder.path().join(end);
        let script = format!("{UNTIL_TOLD}; {end}");
        let options = ["job", "--", "sh", "-c", &script, told.to_str().expect("text")];
        let first = Running::start(&quorum, &[&DAY[..], &options].concat());
        first.until_it_prints("in\n");
        let waiting =
            Running::start(&quorum, &[&DAY[..], &["job", "-c", "echo run; exit 1"]].concat());
        eventually("it waits", || quorum.iter().any(|node| node.node("waiters").int() == 1));
        std::fs::write(&told, "").expect("a file can be written");
        first.ended();
        let said = waiting.ended();
        assert_eq!((said.code, &*said.out), (Some(i32::from(!out.is_empty())), out), "{said:?}");
    }
}

#[test]
fn a_job_whose_lock_is_lost_in_the_middle_is_ended_and_runs_again() {
    let quorum = Quorum::start(1);
    let script = "trap 'exit 0' TERM; echo in; while :; do sleep 0.02; done";
    let running = Running::start(&quorum, &[&DAY[..], &["job", "-c", script]].concat());
    running.until_it_prints("in\n");
    quorum.iter().for_each(|node| drop(node.run("DLOCK.BREAK job")));
    // Its ttl is 30 s, so it learns of the loss at its next renewal.
    let running = running.ended().with_code(75);
    assert!(running.err.contains("lost the lock on 'job'"), "{}", running.err);
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "run\n");
}

#[test]
fn a_job_is_done_though_a_node_dies_in_the_middle_and_comes_back_without_the_record() {
    let mut quorum = Quorum::start(3);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let told = folder.path().join("told");
    let options = ["job", "--", "sh", "-c", UNTIL_TOLD, told.to_str().expect("text")];
    let running = Running::start(&quorum, &[&DAY[..], &options].concat());
    running.until_it_prints("in\n");
    quorum[0].kill();
    std::fs::write(&told, "").expect("a file can be written");
    let said = running.ended().with_code(0);
    assert_eq!(said.err, "");
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "");
    quorum[0].start_again();
    assert_eq!(job(&quorum, &[], "echo run").with_code(0).out, "");
}

#[test]
fn a_job_that_cannot_be_left_done_says_so_and_ends_with_its_own_code() {
    let quorum = Quorum::start(1);
    for node in quorum.iter() {
        node.client().fill_done("done", 0);
    }
    let said = job(&quorum, &["--json"], "echo run").with_code(0);
    assert_eq!(said.out, "run\n");
    let warning = only_event(&said, "warning");
    assert_eq!(warning["kind"], "not_done");
    assert!(
        warning["message"].as_str().is_some_and(|it| it.contains("TOOMANY done locks")),
        "{warning}"
    );
    quorum.until_released();
    let said = job(&quorum, &[], "true").with_code(0);
    assert!(said.err.starts_with("dlock: could not leave 'job' done"), "{}", said.err);
}

#[test]
fn no_majority_at_the_end_of_a_job_is_said_when_the_lease_is_over_or_a_signal_comes() {
    let quorum = Quorum::start(3);
    let folder = tempfile::tempdir().expect("a folder can be made");
    for interrupted in [false, true] {
        let told = folder.path().join(interrupted.to_string());
        // A signal does not wait for the end of the lease.
        let ttl = if interrupted { "10m" } else { LEASE };
        let options = ["--json", "--ttl", ttl, "job", "--", "sh", "-c", UNTIL_TOLD];
        let running = Running::start(
            &quorum,
            &[&DAY[..], &options, &[told.to_str().expect("text")]].concat(),
        );
        running.until_it_prints("in\n");
        quorum.iter().for_each(|node| node.network().swallow());
        std::fs::write(&told, "").expect("a file can be written");
        if interrupted {
            running.until_it_complains("\"ended\"");
            running.signal(Signal::SIGTERM);
        }
        let said = running.ended().with_code(0);
        let warning = only_event(&said, "warning")["message"].to_string();
        assert!(warning.contains("could not leave 'job' done"), "{warning}");
        assert_eq!(warning.contains("SIGTERM"), interrupted, "{warning}");
        assert!(events(&said, "released").is_empty(), "{}", said.err);
        quorum.iter().for_each(|node| node.network().pass());
        quorum.iter().for_each(|node| drop(node.run("DLOCK.BREAK job")));
        quorum.until_empty();
        quorum.iter().for_each(|node| drop(node.run("DEL job")));
    }
}

#[test]
fn a_signal_that_comes_with_the_end_of_a_job_leaves_no_doubt() {
    let quorum = Quorum::start(1);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let told = folder.path().join("told");
    let script = format!("trap '' TERM; {UNTIL_TOLD}; echo out");
    let job = ["--json", "job", "--", "sh", "-c", &script, told.to_str().expect("text")];
    let running = Running::start(&quorum, &[&DAY[..], &job].concat());
    running.until_it_prints("in\n");
    running.signal(Signal::SIGSTOP);
    running.signal(Signal::SIGTERM);
    std::fs::write(&told, "").expect("a file can be written");
    running.until_it_prints("out\n");
    running.signal(Signal::SIGCONT);
    let said = running.ended().with_code(0);
    assert_eq!(only_event(&said, "left_done")["key"], "job");
    assert!(events(&said, "warning").is_empty(), "{}", said.err);
}

#[test]
fn a_node_that_crashes_knows_what_was_done_if_it_has_saved_it() {
    for saved in [true, false] {
        let mut quorum = Quorum::with(1, |server| match saved {
            true => server.append_only(),
            false => server.config("dlock.quarantine off"),
        });
        job(&quorum, &[], "true").with_code(0);
        quorum.iter_mut().for_each(|node| node.kill());
        quorum.iter_mut().for_each(|node| node.start_again());
        let again = job(&quorum, &[], "echo run").with_code(0).out == "run\n";
        assert_eq!(again, !saved);
    }
}

#[test]
fn a_replica_that_had_not_got_the_record_lets_the_job_run_again() {
    let primary = Server::start(Kind::Redis82);
    let replica = Server::build(Kind::Redis82).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let run = |server: &Server| {
        let arguments = [&["run"], &DAY[..], &["job", "--", "echo", "run"]].concat();
        crate::dlock(std::slice::from_ref(server), &arguments).with_code(0).out
    };
    replica.run("REPLICAOF NO ONE");
    replica.run("CONFIG SET dlock.quarantine off");
    assert_eq!(run(&primary), "run\n");
    assert_eq!((run(&primary), run(&replica)), (String::new(), "run\n".to_owned()));
}
