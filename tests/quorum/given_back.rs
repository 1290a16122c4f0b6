//! A lock that is released while nodes refuse that for a moment.

use std::sync::{Arc, Mutex};

use dlock_client::{Client, Error, NodeState, Notice, Report, Token};
use harness::{Quorum, Server, library};

use crate::coordinator::{LONG, NODE_TIMEOUT, ms, program, run, take, take_everywhere, until};

#[test]
fn a_release_that_is_refused_in_passing_is_sent_again_and_a_notice_says_so() {
    let quorum = Quorum::start(3);
    run(async {
        let (client, told) = heard(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        let dropped = take_everywhere(&quorum, &client, "other", LONG).await;
        quorum.iter().for_each(|node| lacks_replicas(node, true));
        let release = guard.release().await.expect("it was held until then");
        assert!(!release.is_free && release.left.len() == 3, "{release:?}");
        assert!(release.left.iter().all(is_no_replicas), "{release:?}");
        assert!(release.within > LONG / 2 && release.within <= LONG, "{release:?}");
        let about = told_of(&told, 3);
        let [words] = about.as_slice() else { panic!("{about:?}") };
        assert!(words.starts_with("lock 'job' stays held for up to "), "{words}");
        drop(dropped);
        until("somebody is told of the other one", || told_of(&told, 3).len() == 2).await;
        assert!(!client.released(ms(300)).await, "both are tried again");
        quorum.iter().for_each(|node| lacks_replicas(node, false));
        until("all have released them", || quorum.held("job") + quorum.held("other") == 0).await;
        assert!(client.released(LONG).await);
    });
}

#[test]
fn one_node_of_three_that_refuses_a_release_keeps_no_client_waiting_and_hears_of_it_later() {
    let quorum = Quorum::start(3);
    run(async {
        let (client, told) = heard(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        lacks_replicas(&quorum[0], true);
        let release = guard.release().await.expect("it was held until then");
        assert!(release.is_free && release.left.is_empty(), "{release:?}");
        assert!(told_of(&told, 3).is_empty());
        // An attempt that does not wait has the other two.
        let next = client.lock("job").ttl(LONG).try_acquire().await.expect("a majority is free");
        assert!(next.release().await.expect("it is held").is_free);
        lacks_replicas(&quorum[0], false);
        until("it is released there, too", || quorum.held("job") == 0).await;
    });
}

#[test]
fn a_release_does_not_wait_for_a_node_that_hangs_when_a_majority_has_answered() {
    let quorum = Quorum::start(3);
    run(async {
        let client = library::connect(&quorum.urls(), LONG).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        quorum[2].network().swallow();
        // A quarter of the lease, which is the time-out here, would be longer.
        let released = tokio::time::timeout(LONG / 5, guard.release()).await;
        assert!(released.expect("it waits for two nodes").expect("it is held").is_free);
        quorum[2].network().pass();
        until("it is released there, too", || quorum.held("job") == 0).await;
    });
}

#[test]
fn by_token_a_refusal_for_good_is_called_that() {
    let quorum = Quorum::start(3);
    quorum.iter().for_each(|node| assert_eq!(node.run("LPUSH job x").int(), 1));
    run(async {
        let (client, token) = (program(&quorum).await, Token::random());
        let extended = client.extend("job", &token, 7, ms(10_000)).await;
        assert!(matches!(extended, Err(Error::Refused { .. })), "{extended:?}");
        let released = client.release("job", &token).await;
        assert!(matches!(released, Err(Error::Refused { .. })), "{released:?}");
    });
}

#[test]
fn a_release_by_token_outlasts_what_passes_soon() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        let lease = take(&client, "job", LONG).await.detach().await.expect("it is held");
        lacks_replicas(&quorum[0], true);
        let release = tokio::spawn({
            let client = client.clone();
            async move { client.release("job", &lease.token).await }
        });
        until("it is refused", || rejected(&quorum[0], "release") > 0).await;
        lacks_replicas(&quorum[0], false);
        assert!(release.await.expect("no panic").expect("it answers"), "it held");
    });
}

type Told = Arc<Mutex<Vec<Notice>>>;

async fn heard(quorum: &Quorum) -> (Client, Told) {
    let told = Told::default();
    let heard = Arc::clone(&told);
    let listener = move |notice: &Notice| heard.lock().expect("no panic").push(notice.clone());
    let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
    (builder.notify(listener).connect().await.expect("all answer"), told)
}

/// The beginnings of the notices of locks that were not released.
fn told_of(told: &Told, nodes: usize) -> Vec<String> {
    let told = told.lock().expect("no panic");
    let majority = nodes / 2 + 1;
    let about = told.iter().filter(|notice| {
        matches!(notice, Notice::NotReleased { needed, of, .. } if (*needed, *of) == (majority, nodes))
    });
    about.filter_map(|notice| Some(notice.to_string().split_once(',')?.0.to_owned())).collect()
}

fn is_no_replicas(report: &Report) -> bool {
    matches!(&report.state, NodeState::Refused(text) if text.starts_with("NOREPLICAS"))
}

/// Makes a server act as with `min-replicas-to-write` while its replica restarts.
fn lacks_replicas(server: &Server, lacks: bool) {
    server.run(&format!("CONFIG SET min-replicas-to-write {}", u8::from(lacks)));
}

/// The number of times that a command was refused before it began.
fn rejected(server: &Server, command: &str) -> i64 {
    let stats = server.info("commandstats");
    let line = stats.get(&format!("cmdstat_dlock.{command}"));
    let field =
        line.and_then(|line| line.split(',').find_map(|f| f.strip_prefix("rejected_calls=")));
    field.and_then(|number| number.parse().ok()).unwrap_or(0)
}
