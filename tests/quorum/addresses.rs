//! Addresses of nodes, and the errors about nodes that cannot be used.

use std::sync::{Arc, Mutex};

use dlock_client::{Client, Error, NodeState, Notice};
use harness::{Kind, Quorum, Server, Way};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::coordinator::{
    LONG, NODE_TIMEOUT, assert_held, assert_holds, connect, healthy_program, ms, run, said, take,
    take_everywhere, until, wait_for, without_quorum,
};

#[test]
fn a_node_is_reached_through_a_unix_socket_and_in_the_database_that_the_address_names() {
    let quorum = Quorum::of(vec![Server::build(Kind::Redis82).config("unixsocket node.sock")]);
    let url = format!("unix://{}/node.sock", quorum[0].folder().display());
    run(async {
        let client = connect(std::slice::from_ref(&url)).await;
        let guard = take(&client, "job", LONG).await;
        assert_holds(&quorum, &guard);
        assert_held(connect(&quorum.urls()).await.lock("job").try_acquire().await);
        let third = connect(&[format!("{}/3", quorum[0].url())]).await;
        let other = take(&third, "job", LONG).await;
        let mut third = quorum[0].client();
        third.run("SELECT 3");
        assert!(third.run(&format!("DLOCK.CHECK job {}", other.token())).is_int());
        other.release().await.expect("it is held");
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_password_is_taken_from_the_address_and_never_shown() {
    let quorum = Quorum::start(3);
    for node in quorum.iter() {
        node.run("CONFIG SET requirepass open-sesame,42");
    }
    let with = |login: &str| -> Vec<String> {
        quorum.urls().iter().map(|url| url.replace("://", &format!("://{login}@"))).collect()
    };
    run(async {
        let client = connect(&with(":open-sesame%2C42")).await;
        let guard = take(&client, "job", LONG).await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        for login in [":open-barley", "nobody:open-barley"] {
            let error = not_connected(&with(login)).await;
            let text = format!("{error} {error:?}");
            assert!(!text.contains("barley"), "{text}");
            assert!(text.contains("WRONGPASS"), "{text}");
        }
        let error = not_connected(&quorum.urls()).await;
        assert!(error.to_string().contains("NOAUTH"), "{error}");
        assert!(!format!("{client_names:?}", client_names = names(&client)).contains("sesame"));
    });
}

#[test]
fn two_addresses_of_one_node_are_refused() {
    let quorum = Quorum::start(2);
    let (urls, direct) = (quorum.urls(), quorum.direct_urls());
    // The direct one always answers first.
    quorum[1].network().delay(ms(20));
    // Both have to answer: a client that has a majority does not wait for long for the third.
    quorum[0].network().refuse();
    run(async {
        for pair in [[&urls[1], &direct[1]], [&direct[1], &urls[1]]] {
            let given = [&urls[0], pair[0], pair[1]].map(String::clone);
            let error = not_connected(&given).await;
            let Error::Duplicate { first, second, .. } = &error else { panic!("{error}") };
            let sorted = direct[1].cmp(&urls[1]).is_lt();
            let expected = if sorted { [&direct[1], &urls[1]] } else { [&urls[1], &direct[1]] };
            assert_eq!([first, second], expected, "in the order of their addresses");
        }
        let same = [urls[0].clone(), urls[0].clone()];
        let error = not_connected(&same).await;
        assert!(error.to_string().contains(&urls[0]), "{error}");
    });
}

#[test]
fn two_addresses_of_one_node_are_noticed_when_it_answers_later() {
    let quorum = Quorum::start(3);
    let mut urls = quorum.urls();
    urls.push(quorum.direct_urls()[2].clone());
    quorum[2].network().refuse();
    run(async {
        // Three of four answer.
        let client = connect(&urls).await;
        quorum[2].network().pass();
        quorum[1].network().refuse();
        quorum[0].network().refuse();
        // Of two votes of the same node only one counts, and one of four is no majority, nor are
        // two.
        let reports = without_quorum(client.lock("job").ttl(LONG).try_acquire().await);
        assert_eq!(reports.len(), 4);
        quorum[1].network().pass();
        let answer = client.lock("job").ttl(LONG).try_acquire().await;
        assert!(answer.is_err(), "two nodes of four addresses are no majority");
    });
}

#[test]
fn a_majority_that_cannot_be_reached_is_said_when_connecting() {
    let mut quorum = Quorum::start(3);
    quorum[0].kill();
    quorum[1].network().swallow();
    run(async {
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let answer = builder.connect().await;
        let Err(error) = answer else { panic!("one of three answers") };
        let Error::Connect { needed: 2, nodes } = &error else { panic!("{error}") };
        assert!(matches!(said(nodes, &quorum[0].url()), NodeState::Unreachable(_)), "{error}");
        assert!(matches!(said(nodes, &quorum[1].url()), NodeState::TimedOut(_)), "{error}");
        assert!(matches!(said(nodes, &quorum[2].url()), NodeState::Answers), "{error}");
    });
}

#[test]
fn the_time_a_node_may_take_can_be_chosen() {
    let quorum = Quorum::start(1);
    run(async {
        let patient = connect(&quorum.urls()).await;
        let hasty = Client::builder().nodes(quorum.urls()).node_timeout(ms(20));
        let hasty = hasty.connect_later().expect("the address is good");
        quorum[0].network().delay(ms(100));
        take(&patient, "job", LONG).await.release().await.expect("it is held");
        let reports = without_quorum(hasty.lock("job").ttl(LONG).try_acquire().await);
        assert_eq!(said(&reports, &quorum[0].url()), &NodeState::TimedOut(ms(20)));
    });
}

async fn not_connected(urls: &[String]) -> Error {
    match Client::builder().nodes(urls).node_timeout(NODE_TIMEOUT).connect().await {
        Err(error) => error,
        Ok(_) => panic!("connected to {urls:?}"),
    }
}

fn names(client: &Client) -> Vec<String> {
    client.nodes().map(|node| format!("{node:?} {}", node.name())).collect()
}

#[test]
fn another_server_at_an_address_is_told_of_and_serves_from_then_on() {
    let quorum = Quorum::start(3);
    let stranger = Server::start(quorum[2].kind());
    run(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let listener = move |notice: &Notice| heard.lock().expect("no panic").push(notice.clone());
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let client = builder.notify(listener).connect().await.expect("all answer");
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        quorum[2].network().lead_to(stranger.port());
        quorum[2].network().cut();
        until("the new one has it", || stranger.holders("job").len() == 1).await;
        assert!(guard.is_valid());
        let told = told.lock().expect("no panic").clone();
        let [Notice::Stranger { node, before, now }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(*node, quorum[2].url());
        assert_eq!(*before, quorum[2].node("node-id").text());
        assert_eq!(*now, stranger.node("node-id").text());
        guard.release().await.expect("it is held");
    });
}

/// An open connection stays at its server when the address leads elsewhere. Meanwhile that server can have
/// become the node of another address.
#[test]
fn a_server_that_is_reached_over_two_addresses_has_one_vote_whichever_was_first() {
    let quorum = Quorum::start(3);
    let stranger = Server::start(quorum[2].kind());
    run(async {
        let (client, mut told) = told_of_strangers(&quorum).await;
        // For new connections only.
        quorum[2].network().lead_to(stranger.port());
        make_new_connections(&client, &quorum).await;
        told.recv().await.expect("it is told of");

        quorum[1].network().lead_to(quorum[2].port());
        quorum[1].network().cut();
        quorum[0].network().refuse();
        let guard = wait_for(&client, "job", LONG).await;
        let held = (quorum[2].holders("job").len(), stranger.holders("job").len());
        assert_eq!(held, (1, 1), "two nodes are a majority, and not one that is asked twice");
        guard.release().await.expect("it is held");
    });
}

#[test]
fn what_a_server_answers_after_it_has_lost_its_place_does_not_count() {
    let quorum = Quorum::start(3);
    let stranger = Server::start(quorum[2].kind());
    run(async {
        let (client, mut told) = told_of_strangers(&quorum).await;
        quorum[2].network().keep_back(Way::Down);
        quorum[0].network().refuse();
        let asks = client.clone();
        // The longer the lease, the longer a node may take: minutes.
        let asked = tokio::spawn(async move { wait_for(&asks, "job", LONG).await });
        until("the former one has granted", || quorum[2].holders("job").len() == 1).await;

        quorum[2].network().lead_to(stranger.port());
        while told.try_recv().is_err() {
            // A node that is silent for a quarter of the lease is asked over another connection.
            client.lock("other").ttl(ms(8_000)).try_acquire().await.ok();
        }
        assert_eq!(stranger.holders("job").len(), 0);
        quorum[2].network().pass();
        let guard = asked.await.expect("no panic");
        assert_eq!(stranger.holders("job").len(), 1, "its answer is waited for");
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_guard_is_lost_as_soon_as_its_program_knows_that_another_server_has_the_place() {
    let quorum = Quorum::start(1);
    let stranger = Server::start(quorum[0].kind());
    run(async {
        let (client, mut told) = told_of_strangers(&quorum).await;
        let guard = take(&client, "job", LONG).await;
        let busy = take(&healthy_program(&quorum).await, "busy", LONG).await;
        quorum[0].network().lead_to(stranger.port());
        // A waiter needs a new connection.
        let other = wait_for(&client, "busy", LONG).await;
        told.recv().await.expect("it is told of");
        assert_eq!(stranger.holders("busy").len(), 1);
        guard.lost().await;
        assert!(!guard.is_valid());
        guard.release().await.expect_err("it is lost");
        other.release().await.expect("it is held");
        busy.release().await.expect("it is held");
    });
}

/// A connected program, and its notices of strange servers.
async fn told_of_strangers(quorum: &Quorum) -> (Client, UnboundedReceiver<()>) {
    let (tells, told) = unbounded_channel();
    let listener = move |notice: &Notice| {
        if let Notice::Stranger { .. } = notice {
            tells.send(()).unwrap_or_default();
        }
    };
    let builder = Client::builder().nodes(quorum.urls()).node_timeout(LONG);
    let client = builder.notify(listener).connect().await.expect("all answer");
    take(&client, "first", LONG).await.release().await.expect("it is held");
    (client, told)
}

/// Makes the client open new connections: a waiter needs one of its own.
async fn make_new_connections(client: &Client, quorum: &Quorum) {
    let other = healthy_program(quorum).await;
    let busy = take(&other, "busy", LONG).await;
    let waits = client.clone();
    let waits = tokio::spawn(async move { wait_for(&waits, "busy", LONG).await });
    let waiting = |node: usize| quorum[node].node("waiters").int() == 1;
    until("it waits", || (0..3).any(waiting)).await;
    busy.release().await.expect("it is held");
    waits.await.expect("no panic").release().await.expect("it is held");
}
