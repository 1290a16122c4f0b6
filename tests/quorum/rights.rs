//! A user with no rights but those for locks.

use std::time::Duration;

use harness::{Kind, Quorum, Server, apply, on_two_servers};

use crate::coordinator::{
    assert_held, assert_holds, connect, ms, run, take_everywhere, until, until_longer, wait_for,
};

const TTL: Duration = ms(9_000);

/// The rights that a program needs to take locks with names that begin with `lock:`.
const ENOUGH: &str = "~lock:* -@all +dlock.acquire +dlock.extend +dlock.release +dlock.node";

#[apply(on_two_servers)]
fn a_user_needs_four_commands_and_its_keys(kind: Kind) {
    let quorum = Quorum::of(vec![Server::build(kind), Server::build(kind), Server::build(kind)]);
    for node in quorum.iter() {
        let made = node.run(&format!("ACL SETUSER app reset on >secret {ENOUGH}"));
        assert_eq!(made.text(), "OK");
    }
    let login = |url: &String| url.replace("://", "://app:secret@");
    let urls: Vec<String> = quorum.urls().iter().map(login).collect();
    run(async {
        let (alice, bob) = (connect(&urls).await, connect(&urls).await);
        let guard = take_everywhere(&quorum, &alice, "lock:job", TTL).await;
        assert_held(bob.lock("lock:job").ttl(TTL).try_acquire().await);
        assert_held(bob.lock("lock:job").ttl(TTL).acquire_within(ms(50)).await);
        let bobs = tokio::spawn(async move { wait_for(&bob, "lock:job", TTL).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        until_longer("it is renewed", || guard.valid_for()).await;
        assert_holds(&quorum, &guard);
        guard.extend(TTL).await.expect("it is held");
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        assert_holds(&quorum, &next);
        next.release().await.expect("it is held");
        quorum.until_released();

        let refused = alice.lock("other").ttl(TTL).try_acquire().await;
        let text = refused.expect_err("it has no right to this key").to_string();
        assert!(text.contains("NOPERM"), "{text}");
    });
}
