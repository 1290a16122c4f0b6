//! A user with no rights but those for locks.

use dlock_client::Client;
use harness::Quorum;

use crate::coordinator::{
    LONG, assert_held, assert_holds, connect, run, take_everywhere, until, wait_for,
};

/// The rights that a program needs to take locks with names that begin with `lock:`.
const ENOUGH: &str = "~lock:* -@all +dlock.acquire +dlock.extend +dlock.release +dlock.node";

#[test]
fn a_user_needs_four_commands_and_its_keys() {
    let quorum = Quorum::start(3);
    for node in quorum.iter() {
        let made = node.run(&format!("ACL SETUSER app reset on >secret {ENOUGH}"));
        assert_eq!(made.text(), "OK");
    }
    let login = |url: &String| url.replace("://", "://app:secret@");
    let urls: Vec<String> = quorum.urls().iter().map(login).collect();
    run(async {
        let (alice, bob) = (connect(&urls).await, connect(&urls).await);
        let guard = take_everywhere(&quorum, &alice, "lock:job", LONG).await;
        assert_held(bob.lock("lock:job").ttl(LONG).try_acquire().await);
        let bobs = tokio::spawn(async move { wait_for(&bob, "lock:job", LONG).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        guard.extend(LONG).await.expect("it is held");
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        assert_holds(&quorum, &next);
        next.release().await.expect("it is held");
        quorum.until_released();

        let refused = alice.lock("other").ttl(LONG).try_acquire().await;
        let text = refused.expect_err("it has no right to this key").to_string();
        assert!(text.contains("NOPERM"), "{text}");

        let urls: Vec<String> = urls.iter().map(|url| format!("{url}/2")).collect();
        let client = Client::builder().nodes(urls).connect_later().expect("the addresses are good");
        let refused = client.lock("lock:job").try_acquire().await;
        let text = refused.expect_err("it may not choose a database").to_string();
        assert!(text.contains("NOPERM") && text.contains("'select'"), "{text}");
    });
}
