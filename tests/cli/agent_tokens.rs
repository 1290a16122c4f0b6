//! `dlock agent`: the same token at two agents, or at one before and after its end.

use std::thread::sleep;
use std::time::Duration;

use harness::{Agent, Kind, Quorum, Value, apply, eventually, on_one_server};
use nix::sys::signal::Signal;

use crate::{addresses, servers};

/// The agent marks a lock as told when it has been held for a while.
fn until_marked(agent: &Agent, key: &str) {
    eventually("the lock is marked", || {
        let found = agent.run(&format!("DLOCK.INSPECT {key}"));
        found.at("holders").items()[0].at("meta").text().contains(" stood=")
    });
}

#[test]
fn a_second_agent_knows_the_locks_of_the_first() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    let fence = one.run("DLOCK.ACQUIRE job alice 30000");
    assert!(fence.is_int());
    assert_eq!(two.run("DLOCK.CHECK job alice"), fence, "it waits until the caller was told");
    assert_eq!(two.run("DLOCK.CHECK job bob"), Value::Null);
    assert_eq!(two.run("DLOCK.EXTEND job alice 60000"), Value::Int(1));
    assert_eq!(two.run("DLOCK.ACQUIRE job alice 30000"), fence, "the same fence");
    assert_eq!(two.run("DLOCK.ACQUIRE job alice 30000 WAIT 5000"), fence);
    assert_eq!(two.run("DLOCK.RELEASE job bob"), Value::Int(0));
    assert_eq!(two.run("DLOCK.RELEASE job alice"), Value::Int(1));
    quorum.until_empty();
    assert_eq!(one.run("DLOCK.EXTEND job alice 30000"), Value::Int(0));
}

#[test]
fn a_lock_that_a_second_agent_extends_outlives_the_lease_of_the_first() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    let fence = one.run("DLOCK.ACQUIRE job alice 700");
    assert_eq!(two.run("DLOCK.EXTEND job alice 10000"), Value::Int(1));
    sleep(Duration::from_millis(1500));
    for agent in [&one, &two] {
        assert_eq!(agent.run("DLOCK.CHECK job alice"), fence);
    }
    assert_eq!(one.run("DLOCK.RELEASE job alice"), Value::Int(1));
}

#[test]
fn a_token_that_asks_on_other_terms_than_it_holds_the_lock_elsewhere_hears_that() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    for (key, held, asked) in [
        ("reads", " SHARED", ""),
        ("writes", "", " SHARED"),
        ("plain", "", " EPHEMERAL RENEW CLOSE"),
    ] {
        let acquire = format!("DLOCK.ACQUIRE {key} alice 30000");
        one.run(&format!("{acquire}{held}")).int();
        until_marked(&one, key);
        for wait in ["", " WAIT 0"] {
            let said = two.run(&format!("{acquire}{asked}{wait}"));
            assert_eq!(said.code(), "OTHERMODE", "{key}{wait}");
        }
    }
}

#[test]
fn an_agent_that_is_killed_shortens_no_lease_and_another_one_releases_it() {
    let quorum = Quorum::start(3);
    let (mut one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    let mut tied = one.client();
    tied.run("DLOCK.ACQUIRE tied alice 1000 EPHEMERAL RENEW").int();
    one.run("DLOCK.ACQUIRE job alice 30000").int();
    one.end(Signal::SIGKILL);
    assert_eq!(two.run("DLOCK.ACQUIRE job bob 30000"), Value::Null);
    assert_eq!(two.run("DLOCK.RELEASE job alice"), Value::Int(1));
    two.run("DLOCK.ACQUIRE job bob 30000").int();
    two.run("DLOCK.ACQUIRE tied bob 30000 WAIT 10000").int();
}

#[test]
fn a_node_that_forgot_a_lock_and_has_it_again_knows_that_its_caller_was_told() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 30000").int();
    until_marked(&agent, "job");
    let node = &quorum[0];
    node.run("FLUSHALL");
    eventually("it has the lock again", || {
        assert_eq!(agent.run("DLOCK.EXTEND job alice 30000"), Value::Int(1));
        node.holders("job").len() == 1
    });
    let found = node.run("DLOCK.INSPECT job");
    let meta = found.at("holders").items()[0].at("meta").text();
    assert!(meta.contains(" stood="), "{meta}");
}

#[test]
fn an_agent_that_starts_again_knows_its_locks() {
    let quorum = Quorum::start(3);
    let mut agent = Agent::start(&quorum.urls());
    let fence = agent.run("DLOCK.ACQUIRE job alice 30000");
    until_marked(&agent, "job");
    agent.end(Signal::SIGKILL);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.CHECK job alice"), fence);
    assert_eq!(agent.run("DLOCK.EXTEND job alice 30000 GT"), Value::Int(1));
    assert_eq!(agent.run("DLOCK.ACQUIRE job alice 30000"), fence);
    agent.end(Signal::SIGTERM);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(1), "an orderly end leaves it");
    let fence = agent.run("DLOCK.ACQUIRE job bob 30000");
    agent.end(Signal::SIGTERM);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.CHECK job bob"), fence, "it was granted just before");
    assert_eq!(agent.run("DLOCK.RELEASE job bob"), Value::Int(1));
    quorum.until_empty();
}

#[test]
fn an_agent_whose_lock_is_over_finds_the_one_that_its_caller_has_by_another_agent() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    for (key, release) in [("extended", ""), ("released", ""), ("done", " DONE 1000")] {
        one.run(&format!("DLOCK.ACQUIRE {key} alice 30000")).int();
        assert_eq!(two.run(&format!("DLOCK.RELEASE {key} alice")), Value::Int(1));
        let fence = two.run(&format!("DLOCK.ACQUIRE {key} alice 30000"));
        until_marked(&two, key);
        assert_eq!(one.run(&format!("DLOCK.CHECK {key} alice")), fence);
        if key == "extended" {
            assert_eq!(one.run("DLOCK.EXTEND extended alice 30000"), Value::Int(1));
        }
        let released = one.run(&format!("DLOCK.RELEASE {key} alice{release}"));
        assert_eq!(released, Value::Int(1), "{key}");
    }
    quorum.until_empty();
}

#[test]
fn a_loss_is_forgotten_when_the_caller_has_the_lock_by_another_agent() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    one.run("DLOCK.ACQUIRE job alice 100").int();
    eventually("one has lost it", || one.figure("lost") == 1);
    let fence = two.run("DLOCK.ACQUIRE job alice 30000 WAIT 5000");
    until_marked(&two, "job");
    assert_eq!(one.run("DLOCK.CHECK job alice"), fence);
    quorum.iter().take(2).for_each(|node| node.pause());
    assert_eq!(one.run("DLOCK.CHECK job alice").code(), "NOQUORUM");
}

#[test]
fn of_a_lock_that_a_majority_has_not_any_more_no_node_keeps_a_lease() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    quorum.iter().for_each(|node| drop(node.run("DLOCK.BREAK job")));
    // A node that answers first is asked for its lease again.
    assert_eq!(agent.run("DLOCK.EXTEND job alice 500000"), Value::Int(0));
    quorum.until_empty();
}

#[test]
fn a_release_by_a_second_agent_ends_a_place_of_the_first() {
    let quorum = Quorum::start(3);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    one.run("DLOCK.ACQUIRE job alice 30000").int();
    let mut bob = one.client();
    bob.send("DLOCK.ACQUIRE job bob 30000 WAIT 3000");
    eventually("bob waits", || quorum.iter().any(|node| node.traces().waiters > 0));
    assert_eq!(two.run("DLOCK.RELEASE job bob"), Value::Int(0));
    // The first agent asks on, as its caller does; and what the second one released stays released.
    assert_eq!(two.run("DLOCK.RELEASE job alice"), Value::Int(1));
    bob.recv().int();
    assert_eq!(two.run("DLOCK.RELEASE job bob"), Value::Int(1));
    quorum.until_empty();
}

#[test]
fn the_same_token_at_two_agents_never_has_two_fences() {
    let quorum = Quorum::start(3);
    let agents = [Agent::start(&quorum.urls()), Agent::start(&quorum.urls())];
    for round in 0..20 {
        let mut clients = agents.each_ref().map(Agent::client);
        let request = format!("DLOCK.ACQUIRE job:{round} alice 30000 WAIT 10000");
        clients.iter_mut().for_each(|client| client.send(&request));
        let fences = clients.each_mut().map(|client| client.recv());
        assert!(fences[0].is_int() && fences[0] == fences[1], "{fences:?}");
    }
}

#[apply(on_one_server)]
fn only_a_callers_own_attempts_are_his(kind: Kind) {
    let servers = servers(kind, 1);
    let agent = Agent::start(&addresses(&servers));
    agent.run("DLOCK.ACQUIRE job alice 30000").int();
    until_marked(&agent, "job");
    let found = agent.run("DLOCK.INSPECT job");
    let meta = found.at("holders").items()[0].at("meta").text();
    agent.run("DLOCK.RELEASE job alice");
    // Somebody else claims to be that attempt.
    let words = ["DLOCK.ACQUIRE", "job", "mallory", "30000", "META", &meta];
    servers[0].client().run_args(&words).int();
    assert_eq!(agent.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(agent.run("DLOCK.EXTEND job alice 30000"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.ACQUIRE job alice 30000"), Value::Null);
}
