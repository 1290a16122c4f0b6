//! `dlock agent`: locks that are left done, and the agent's metrics.

use harness::exporter::Answer;
use harness::{Agent, Client, Kind, Quorum, Value, apply, eventually, on_one_server};

use crate::{addresses, agent, servers};

const DAY: u32 = 86_400_000;

/// The fence in the answer DONE.
#[track_caller]
fn done_by(said: &Value) -> i64 {
    let text = said.text();
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words[0], "DONE", "{text}");
    let left: u32 = words[1].parse().expect("a number");
    assert!((DAY / 2..=DAY).contains(&left), "{text}");
    words[2].parse().expect("a number")
}

fn finish(client: &mut Client, key: &str, token: &str) -> Value {
    client.run(&format!("DLOCK.RELEASE {key} {token} DONE {DAY} META exit=0"))
}

#[apply(on_one_server)]
fn every_request_for_a_done_lock_gets_a_nodes_reply(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut client = agent.client();
    let fence = client.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut waiter = agent.client();
    waiter.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    eventually("bob waits", || servers[0].traces().waiters == 1);
    assert_eq!(finish(&mut client, "job", "alice"), Value::Int(1));
    assert_eq!(finish(&mut client, "job", "alice"), Value::Int(1), "the answer was lost");
    assert_eq!(finish(&mut client, "job", "carol"), Value::Int(0));
    assert_eq!(done_by(&waiter.recv()), fence, "the waiter");
    for mut asker in [agent.client(), servers[0].client()] {
        assert_eq!(done_by(&asker.run("DLOCK.ACQUIRE job carol 500000")), fence);
    }
    assert_eq!(client.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(client.run("DLOCK.RELEASE job alice"), Value::Int(0), "it stays done");
    let found = servers[0].run("DLOCK.INSPECT job");
    assert_eq!(found.at("mode").text(), "done");
    let meta = found.at("meta").text();
    assert!(meta.starts_with("host=") && meta.ends_with(" exit=0"), "{meta}");
    let earlier = format!("DLOCK.ACQUIRE job dave 500000 AGAIN {}", fence - 1);
    assert_eq!(done_by(&client.run(&earlier)), fence);
    let again = client.run(&format!("DLOCK.ACQUIRE job dave 500000 AGAIN {fence}")).int();
    assert!(again > fence);
    assert_eq!(client.run("DLOCK.RELEASE job dave DONE 0"), Value::Int(1), "a plain release");
    client.run("DLOCK.ACQUIRE job erin 500000").int();
}

#[apply(on_one_server)]
fn what_cannot_be_left_done_stays_held(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    client.run("DLOCK.ACQUIRE shared alice 500000 SHARED").int();
    client.run("DLOCK.ACQUIRE job alice 500000").int();
    let said = client.run("DLOCK.RELEASE shared alice DONE 1000");
    assert!(said.text().starts_with("ERR the option DONE needs an exclusive lock"), "{said:?}");
    assert!(client.run("DLOCK.CHECK shared alice").is_int());
    assert_eq!(finish(&mut client, "job", "bob"), Value::Int(0), "he does not hold it");
    assert!(client.run("DLOCK.CHECK job alice").is_int());
    // With what the agent adds it is too long, and cut.
    let long = "x".repeat(1_020);
    let done = client.run(&format!("DLOCK.RELEASE job alice DONE 1000 META {long}"));
    assert_eq!(done, Value::Int(1));
}

#[test]
fn an_agent_that_reaches_no_majority_says_so_and_leaves_the_lock_done_later() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    let fence = agent.run("DLOCK.ACQUIRE job alice 500000").int();
    quorum.iter().take(2).for_each(|node| node.network().refuse());
    let said = finish(&mut agent.client(), "job", "alice");
    assert!(said.text().starts_with("NOQUORUM "), "{said:?}");
    quorum.iter().take(2).for_each(|node| node.network().pass());
    let mut bob = agent.client();
    assert_eq!(done_by(&bob.run("DLOCK.ACQUIRE job bob 500000 WAIT 0")), fence);
    assert_eq!(finish(&mut agent.client(), "job", "alice"), Value::Int(1), "alice asks again");
}

#[test]
fn a_lock_that_was_not_left_done_is_not_said_to_be_done() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    let mut client = agent.client();
    client.run("DLOCK.ACQUIRE job alice 500000").int();
    quorum.iter().take(2).for_each(|node| node.network().refuse());
    assert_eq!(finish(&mut client, "job", "alice").code(), "NOQUORUM");
    assert_eq!(client.run("DLOCK.EXTEND job alice 500000").code(), "NOQUORUM");
    // The lease ends before they are asked.
    quorum.iter().take(2).for_each(|node| assert_eq!(node.run("DLOCK.BREAK job").int(), 1));
    quorum.iter().take(2).for_each(|node| node.network().pass());
    assert_eq!(finish(&mut client, "job", "alice"), Value::Int(0));
}

#[apply(on_one_server)]
fn what_the_agent_counts_is_a_metric(kind: Kind) {
    let servers = servers(kind, 1);
    let at = format!("127.0.0.1:{}", harness::ports::free());
    let agent = Agent::with(&addresses(&servers), &["--metrics", &at]);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut waiter = agent.client();
    waiter.send("DLOCK.ACQUIRE job carol 500000 WAIT 0");
    agent.run("DLOCK.ACQUIRE short alice 1000 WAIT 0").int();
    eventually("carol waits, and a lock is lost", || {
        (agent.figure("waiting"), agent.figure("lost")) == (1, 1)
    });
    let answer = Answer::of(&at, "/metrics");
    for line in [
        "dlock_agent_locks_held 1",
        "dlock_agent_locks 2",
        "dlock_agent_waiting 1",
        "dlock_agent_outages 0",
        "dlock_agent_lost_total{why=\"expired\"} 1",
        "dlock_agent_lost_total{why=\"ended\"} 0",
    ] {
        assert!(answer.body.lines().any(|other| other == line), "{line}\n{}", answer.body);
    }
    assert!(!answer.body.contains("job"), "{}", answer.body);
}
