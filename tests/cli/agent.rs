//! `dlock agent`: the commands of dlock, over one node or a majority.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use harness::client::request;
use harness::{Agent, Kind, Value, apply, eventually, on_one_server};

use crate::{addresses, agent, dlock_at, servers};

#[apply(on_one_server)]
fn the_commands_of_a_node_have_the_replies_of_a_node(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    let fence = client.run("DLOCK.ACQUIRE job alice 500000").int();
    assert!(fence > 0);
    assert_eq!(client.run("DLOCK.ACQUIRE job alice 500000"), Value::Int(fence), "the same again");
    assert_eq!(client.run("DLOCK.CHECK job alice"), Value::Int(fence));
    assert_eq!(client.run("DLOCK.CHECK job bob"), Value::Null);
    assert_eq!(client.run("DLOCK.ACQUIRE job bob 500000"), Value::Null);
    assert_eq!(client.run("DLOCK.EXTEND job alice 500000"), Value::Int(1));
    assert_eq!(client.run("DLOCK.EXTEND job bob 500000"), Value::Int(0));
    assert_eq!(client.run("DLOCK.RELEASE job bob"), Value::Int(0));
    assert_eq!(client.run("DLOCK.RELEASE job alice"), Value::Int(1));
    assert_eq!(client.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert_eq!(client.run("DLOCK.CHECK job alice"), Value::Null);
    assert!(client.run("DLOCK.ACQUIRE job bob 500000").int() > fence);
}

#[apply(on_one_server)]
fn an_ephemeral_lock_is_renewed_while_its_connection_lives_if_asked_for(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut client = agent.client();
    client.run("DLOCK.ACQUIRE renewed alice 10000 EPHEMERAL RENEW").int();
    client.run("DLOCK.ACQUIRE not alice 1000 EPHEMERAL WAIT 0").int();
    eventually("one is renewed", || {
        servers[0].info("commandstats").contains_key("cmdstat_dlock.extend")
    });
    eventually("the other ends", || client.run("DLOCK.CHECK not alice").is_null());
    assert!(client.run("DLOCK.CHECK renewed alice").is_int());
    assert_eq!(agent.run("DLOCK.ACQUIRE renewed bob 500000"), Value::Null);
    client.close();
    agent.run("DLOCK.ACQUIRE renewed bob 500000 WAIT 0").int();
}

#[apply(on_one_server)]
fn a_place_is_kept_for_a_token_that_polls(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    assert_eq!(agent.run("DLOCK.ACQUIRE job bob 20000 KEEP 20000"), Value::Null);
    eventually("bob has a place", || servers[0].traces().waiters == 1);
    let mut carol = agent.client();
    carol.send("DLOCK.ACQUIRE job carol 500000 WAIT 0");
    eventually("carol waits", || servers[0].traces().waiters == 2);
    agent.run("DLOCK.RELEASE job alice");
    let mut fence = Value::Null;
    eventually("bob is served first", || {
        fence = agent.run("DLOCK.ACQUIRE job bob 20000 KEEP 20000");
        fence.is_int()
    });
    assert_eq!(agent.run("DLOCK.CHECK job bob"), fence);
    assert!(!carol.has_answer());
    agent.run("DLOCK.RELEASE job bob");
    carol.recv().int();
}

#[apply(on_one_server)]
fn a_place_ends_after_its_keep(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    eventually("bob has had a place", || agent.run("DLOCK.ACQUIRE job bob 500 KEEP 500").is_null());
    eventually("its place is gone", || {
        agent.figure("locks") == 1 && servers[0].traces().waiters == 0
    });
}

#[apply(on_one_server)]
fn a_turn_that_comes_while_its_caller_is_away_lasts_for_the_ttl(kind: Kind) {
    const TTL: Duration = Duration::from_millis(1_000);
    let (_servers, agent) = agent(kind);
    for options in ["", "EPHEMERAL RENEW"] {
        agent.run("DLOCK.ACQUIRE job alice 500000").int();
        let request = format!("DLOCK.ACQUIRE job bob {} KEEP 60000 {options}", TTL.as_millis());
        eventually("bob has a place", || agent.run(&request).is_null());
        let begun = Instant::now();
        agent.run("DLOCK.RELEASE job alice");
        agent.run("DLOCK.ACQUIRE job alice 500000 WAIT 30000").int();
        assert!(begun.elapsed() >= TTL, "{options}: {:?}", begun.elapsed());
        agent.run("DLOCK.RELEASE job alice");
    }
}

#[apply(on_one_server)]
fn a_release_ends_the_wait_of_its_token(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut bob = agent.client();
    bob.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    eventually("bob waits", || servers[0].traces().waiters == 1);
    assert_eq!(agent.run("DLOCK.RELEASE job bob FINAL"), Value::Int(0));
    assert_eq!(bob.recv(), Value::Null);
    assert_eq!(agent.run("DLOCK.RELEASE job alice FINAL"), Value::Int(1));
}

#[apply(on_one_server)]
fn the_newest_request_of_a_token_takes_the_place_of_the_one_before(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let [mut first, mut second] = [agent.client(), agent.client()];
    first.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    eventually("bob waits", || servers[0].traces().waiters == 1);
    second.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    assert_eq!(first.recv().code(), "REPLACED");
    agent.run("DLOCK.RELEASE job alice");
    second.recv().int();
    // Requests that do not wait.
    servers[0].pause();
    first.send("DLOCK.ACQUIRE other bob 500000");
    eventually("it arrives", || agent.figure("locks") == 2);
    second.send("DLOCK.ACQUIRE other bob 500000");
    assert_eq!(first.recv().code(), "REPLACED");
    servers[0].resume();
    second.recv().int();
}

/// A waiter's lease is a short one. And an earlier request of the token may have asked for a shorter one.
#[apply(on_one_server)]
fn a_reply_after_a_wait_is_for_the_whole_ttl(kind: Kind) {
    let (servers, agent) = agent(kind);
    for options in ["", "EPHEMERAL RENEW"] {
        let fence = agent.run("DLOCK.ACQUIRE job alice 500000").int();
        let mut bob = agent.client();
        assert_eq!(
            bob.run(&format!("DLOCK.ACQUIRE job bob 5000 KEEP 60000 {options}")),
            Value::Null
        );
        bob.send(&format!("DLOCK.ACQUIRE job bob 50000 WAIT 0 KEEP 60000 {options}"));
        eventually("bob waits", || servers[0].traces().waiters == 1);
        agent.run("DLOCK.RELEASE job alice");
        assert!(bob.recv().int() > fence);
        let left = servers[0].holder("job")["ttl-ms"].int();
        assert!(left > 30_000, "{options}: {left}");
        bob.run("DLOCK.RELEASE job bob").int();
    }
}

/// Its lease is a short one, until it has been extended to what was asked for.
#[apply(on_one_server)]
fn a_waiter_whose_lock_is_broken_at_once_is_told_no_fence(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut node = servers[0].client();
    node.run("DLOCK.ACQUIRE job alice 500000");
    let mut bob = agent.client();
    bob.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    eventually("bob waits", || servers[0].traces().waiters == 1);
    for words in ["MULTI", "DLOCK.RELEASE job alice", "DLOCK.BREAK job", "EXEC"] {
        node.run(words);
    }
    bob.recv().assert_error("NOQUORUM", "job");
}

/// A client in a pipeline of a shell ends its side when it has written.
#[apply(on_one_server)]
fn requests_before_the_end_of_the_clients_side_are_all_answered(kind: Kind) {
    const MANY: usize = 500;
    let (_servers, agent) = agent(kind);
    let mut stream = UnixStream::connect(agent.socket()).expect("the agent listens");
    let ask = |n: usize| request(&["DLOCK.ACQUIRE", &format!("key:{n}"), "alice", "500000"]);
    stream.write_all(&(0..MANY).flat_map(ask).collect::<Vec<u8>>()).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it can be ended");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).expect("it answers, and closes");
    assert_eq!(replies.lines().filter(|line| line.starts_with(':')).count(), MANY);
}

#[apply(on_one_server)]
fn an_ephemeral_turn_of_which_its_caller_has_heard_is_tied_when_it_asks_again(kind: Kind) {
    const REQUEST: &str = "DLOCK.ACQUIRE job bob 20000 KEEP 20000 EPHEMERAL";
    let (_servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut bob = agent.client();
    assert_eq!(bob.run(REQUEST), Value::Null);
    agent.run("DLOCK.RELEASE job alice");
    let mut fence = Value::Null;
    eventually("bob hears of his turn", || {
        fence = bob.run("DLOCK.CHECK job bob");
        fence.is_int()
    });
    assert_eq!(bob.run(REQUEST), fence);
    bob.close();
    agent.run("DLOCK.ACQUIRE job alice 500000 WAIT 0").int();
}

#[apply(on_one_server)]
fn what_an_agent_does_not_serve_is_refused_by_name(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    for (words, why) in [
        ("DLOCK.ACQUIRE job t 1000 KEEP 5000 TURN", "ERR unknown option 'TURN'"),
        ("DLOCK.ACQUIRE job t 1000 LIMIT 3", "ERR unknown option 'LIMIT'"),
        ("DLOCK.EXTEND job t 1000 FENCE 3", "ERR unknown option 'FENCE'"),
        ("DLOCK.RELEASE job t DONE 1000 FENCE 3", "ERR unknown option 'FENCE'"),
        ("DLOCK.TOKENS job", "ERR unknown command 'DLOCK.TOKENS' at an agent"),
        ("DLOCK.ACQUIRE job t 1001 KEEP 1000", "ERR ttl-ms 1001 is longer than KEEP 1000"),
        ("DLOCK.ACQUIRE job t 1000 NX", "ERR unknown option 'NX'; valid options: SHARED, WAIT ms"),
        ("DLOCK.ACQUIRE job t 0", "ERR the value of ttl-ms must be a whole number from 1 to"),
        ("DLOCK.ACQUIRE job t 1000 WAIT x", "ERR the value of WAIT must be a whole number"),
        ("DLOCK.ACQUIRE job t 1000 RENEW", "ERR RENEW and CLOSE need EPHEMERAL"),
        ("DLOCK.ACQUIRE job t", "ERR wrong number of arguments"),
        ("NONSENSE", "ERR unknown command 'NONSENSE'"),
        ("CLIENT NONSENSE", "ERR unknown subcommand 'NONSENSE'"),
    ] {
        let said = client.run(words);
        assert!(said.text().starts_with(why), "{words}: {said:?}");
    }
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()), "the connection goes on");
    // A client sends a transaction as a whole.
    client
        .send_raw(&[request(&["MULTI"]), request(&["DLOCK.ACQUIRE", "job", "t", "1000"])].concat());
    assert!(client.recv().text().starts_with("ERR unknown command 'MULTI'"));
    assert!(client.is_closed_by_server());
    assert_eq!(agent.figure("locks"), 0);
}

#[apply(on_one_server)]
fn a_lease_that_is_too_long_is_refused_in_the_callers_numbers(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let refused = |request: &str, ttl: i64| {
        let said = agent.run(&format!("{request} {ttl}")).text();
        let most = said.strip_prefix("TOOLONG ").and_then(|rest| rest.split(' ').next());
        assert!(said.contains(&format!("and {ttl} ms is longer")), "{said}");
        most.expect(&said).parse::<i64>().expect("it is a number")
    };
    let most = refused("DLOCK.ACQUIRE job alice", 86_400_000);
    assert_eq!(refused("DLOCK.ACQUIRE job alice", most + 1), most);
    agent.run(&format!("DLOCK.ACQUIRE job alice {most}")).int();
    assert_eq!(refused("DLOCK.EXTEND job alice", most + 1), most);
}

#[apply(on_one_server)]
fn a_majority_is_enough_and_without_one_the_error_says_so(kind: Kind) {
    let mut servers = servers(kind, 3);
    let agent = Agent::start(&addresses(&servers));
    let before = agent.run("DLOCK.ACQUIRE job alice 500000").int();
    servers[0].stop();
    assert_eq!(agent.run("DLOCK.ACQUIRE job bob 500000"), Value::Null);
    assert_eq!(agent.run("DLOCK.EXTEND job alice 500000"), Value::Int(1));
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(1));
    assert!(agent.run("DLOCK.ACQUIRE job bob 500000 WAIT 0").int() > before);
    servers[1].stop();
    for options in ["", "WAIT 300", "WAIT 300 KEEP 50000"] {
        let refused = agent.run(&format!("DLOCK.ACQUIRE other alice 50000 {options}"));
        assert!(refused.text().starts_with("NOQUORUM 2 of 3 nodes are needed"), "{refused:?}");
    }
}

#[apply(on_one_server)]
fn nodes_show_the_holder_at_the_agent_and_not_its_token(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut client = agent.client();
    let forged = "host=elsewhere pid=1";
    client.run_args(&["DLOCK.ACQUIRE", "job", "secret-token", "500000", "META", forged]).int();
    let found = servers[0].run("DLOCK.INSPECT job");
    let meta = found.at("holders").items()[0].at("meta").text();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("it has a name");
    let own = format!("host={} pid={} uid=", host.trim(), std::process::id());
    assert!(meta.starts_with(&own), "{meta}");
    assert!(meta.contains(" cmd=") && meta.contains(&format!(" {forged}")), "{meta}");
    assert!(!format!("{found:?}").contains("secret"), "{found:?}");
}

#[apply(on_one_server)]
fn a_loss_is_told_to_the_users_subscribers_and_to_every_request(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut listener = agent.client();
    assert_eq!(listener.run("SUBSCRIBE dlock:lost").items()[2], Value::Int(1));
    let mut tied = agent.client();
    tied.run("DLOCK.ACQUIRE tied alice 500000 EPHEMERAL RENEW CLOSE").int();
    agent.run("DLOCK.ACQUIRE short alice 1000 WAIT 0").int();
    let lost = |value: &Value| value.items()[2].text();
    let said = lost(&listener.recv());
    assert!(said.contains("\"key\":\"short\"") && said.contains("\"why\":\"expired\""), "{said}");
    servers[0].run("DLOCK.BREAK tied");
    assert_eq!(agent.run("DLOCK.EXTEND tied alice 500000"), Value::Int(0));
    let said = lost(&listener.recv());
    assert!(said.contains("\"key\":\"tied\""), "{said}");
    assert!(tied.is_closed_by_server());
    assert_eq!(agent.run("DLOCK.RELEASE tied alice"), Value::Int(0));
    // A loss that is found by the RELEASE.
    agent.run("DLOCK.ACQUIRE broken alice 500000").int();
    servers[0].run("DLOCK.BREAK broken");
    assert_eq!(agent.run("DLOCK.RELEASE broken alice"), Value::Int(0));
    let said = lost(&listener.recv());
    assert!(said.contains("\"key\":\"broken\""), "{said}");
}

#[apply(on_one_server)]
fn an_agent_is_no_node(kind: Kind) {
    let (servers, agent) = agent(kind);
    let node = agent.run("DLOCK.NODE");
    assert_eq!(node.at("role").text(), "agent");
    let url = format!("unix://{}", agent.socket().display());
    let said = dlock_at(std::slice::from_ref(&url), &["doctor"]).with_code(1);
    let behind = format!("its nodes are redis://{}", addresses(&servers)[0]);
    assert!(said.out.contains(&behind), "{}", said.out);
    for words in ["run -n job -- true", "fenced --fence 1 mark -- GET data"] {
        let words: Vec<&str> = words.split(' ').collect();
        let said = dlock_at(std::slice::from_ref(&url), &words).with_code(78);
        assert!(said.err.contains("an agent"), "{}", said.err);
    }
}
