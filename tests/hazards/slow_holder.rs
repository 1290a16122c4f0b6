//! `SET NX PX` with a random value and compare-and-delete, and a holder that works for longer than its lock
//! lasts. Two clients are in the critical section, and one of the writes is lost. The library renews the lock
//! while the work goes on, so the second client waits; other libraries renew as well. The fence helps where
//! renewal did not: the resource refuses a late writer. Each read has to carry the fence, too: late_write.rs
//! shows why.

use std::time::Duration;

use harness::{Kind, Server, Value, apply, eventually, on_one_server};

use crate::library::{self, NODE_TIMEOUT};
use crate::recipe::{Dlock, Party, SetNx};

const KEY: &str = "account:7";
/// Alice's lock lasts this long, and her work longer.
const ALICES: u64 = 200;
/// Bob is not late.
const BOBS: u64 = 60_000;

/// A balance, on a server without locks.
struct Account {
    server: Server,
}

/// Refuses a smaller fence than an earlier one; else writes, if there is something to write, and returns the
/// balance. A read leaves its fence, too: the next write depends on it, so no earlier holder may write in
/// between. A fence has 53 bits at most: Lua's numbers hold it.
const IN_ORDER: &str = "\
    local fence, largest = tonumber(ARGV[1]), tonumber(redis.call('get', KEYS[2]) or '0') \
    if fence < largest then return false end \
    redis.call('set', KEYS[2], ARGV[1]) \
    if ARGV[2] then redis.call('set', KEYS[1], ARGV[2]) end \
    return redis.call('get', KEYS[1])";

impl Account {
    fn open(kind: Kind, balance: i64) -> Account {
        let server = Server::build(kind).without_module().start();
        server.run(&format!("SET balance {balance}"));
        Account { server }
    }

    fn balance(&self) -> i64 {
        self.read(None).expect("anybody may look")
    }

    /// The balance, unless the fence is too small.
    fn read(&self, fence: Option<i64>) -> Option<i64> {
        let answer = match fence {
            None => self.server.run("GET balance"),
            Some(fence) => self.in_order(fence, None),
        };
        (!answer.is_null()).then(|| answer.text().parse().expect("a number"))
    }

    /// Writes the balance. True if the account accepted it: without a fence it refuses nothing.
    fn write(&self, fence: Option<i64>, balance: i64) -> bool {
        match fence {
            None => self.server.run(&format!("SET balance {balance}")).text() == "OK",
            Some(fence) => !self.in_order(fence, Some(balance)).is_null(),
        }
    }

    fn in_order(&self, fence: i64, balance: Option<i64>) -> Value {
        let numbers = [Some(fence), balance].map(|number| number.map(|n| n.to_string()));
        let mut words = vec!["EVAL", IN_ORDER, "2", "balance", "fence"];
        words.extend(numbers.iter().flatten().map(String::as_str));
        self.server.client().run_args(&words)
    }
}

// --- without renewal -----------------------------------------------------------------------------

/// The moment of alice's late write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Late {
    /// Bob has read the balance, and not written yet.
    WhileBobIsIn,
    WhenBobHasWritten,
}

/// The writers of accepted writes, and the balance after them.
#[derive(Debug, PartialEq)]
struct Outcome {
    alice: bool,
    bob: bool,
    balance: i64,
}

/// Alice takes 30 from the account, bob adds 50, each under the lock. Alice is slow.
fn a_slow_holder<P: Party>(server: &Server, kind: Kind, late: Late) -> Outcome {
    let account = Account::open(kind, 100);
    let (mut alice, mut bob) = (P::connect(server.port()), P::connect(server.port()));
    assert!(alice.try_lock(KEY, ALICES));
    let alices = alice.fence();
    let seen_by_alice = account.read(alices).expect("nobody was before her");
    eventually("her time is over, and bob has the lock", || bob.try_lock(KEY, BOBS));
    let bobs = bob.fence();
    let seen_by_bob = account.read(bobs).expect("nobody is after him");
    // Both are in the critical section now.
    let late_write = || account.write(alices, seen_by_alice - 30);
    let timely_write = || account.write(bobs, seen_by_bob + 50);
    let (alice_wrote, bob_wrote) = match late {
        Late::WhileBobIsIn => (late_write(), timely_write()),
        Late::WhenBobHasWritten => {
            let bob_wrote = timely_write();
            (late_write(), bob_wrote)
        }
    };
    // Comparing values, or tokens, saves bob's lock, but not his account.
    assert!(!alice.unlock(KEY));
    assert!(bob.unlock(KEY));
    Outcome { alice: alice_wrote, bob: bob_wrote, balance: account.balance() }
}

#[apply(on_one_server)]
fn a_holder_slower_than_its_ttl_is_not_alone_and_a_write_is_lost(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    for (late, balance) in [(Late::WhileBobIsIn, 150), (Late::WhenBobHasWritten, 70)] {
        let outcome = a_slow_holder::<SetNx>(&server, kind, late);
        // The balance should be 120.
        assert_eq!(outcome, Outcome { alice: true, bob: true, balance }, "{late:?}");
    }
}

#[apply(on_one_server)]
fn a_holder_slower_than_its_lease_is_refused_by_its_fence(kind: Kind) {
    let server = Server::start(kind);
    for late in [Late::WhileBobIsIn, Late::WhenBobHasWritten] {
        let outcome = a_slow_holder::<Dlock>(&server, kind, late);
        // Alice gets an error, and has to begin again.
        assert_eq!(outcome, Outcome { alice: false, bob: true, balance: 150 }, "{late:?}");
    }
}

// --- with renewal --------------------------------------------------------------------------------

/// Locks last longer here: a busy machine may delay alice's renewal for a while.
const RENEWED: Duration = Duration::from_millis(6_000);
/// Without a renewal it would be over.
const WORK: Duration = Duration::from_millis(7_000);

#[test]
fn a_holder_slower_than_its_lease_is_waited_for_where_the_library_renews_it() {
    let server = Server::start(Kind::Redis82);
    let account = Account::open(Kind::Redis82, 100);
    let urls = [format!("redis://127.0.0.1:{}", server.port())];
    library::run(async {
        let alice = library::connect(&urls, NODE_TIMEOUT).await;
        let bob = library::connect(&urls, NODE_TIMEOUT).await;
        let guard = library::wait_for(&alice, KEY, RENEWED).await;
        let alices = Some(guard.fence() as i64);
        let seen = account.read(alices).expect("nobody was before her");
        let waiting = tokio::spawn(async move { library::wait_for(&bob, KEY, RENEWED).await });
        eventually("bob waits", || server.node("waiters").int() == 1);

        tokio::select! {
            () = tokio::time::sleep(WORK) => assert!(!waiting.is_finished(), "alice is alone"),
            loss = guard.lost() => panic!("{loss}"),
        }
        assert!(account.write(alices, seen - 30));
        guard.release().await.expect("she had it all the time");

        let guard = waiting.await.expect("no panic");
        let bobs = Some(guard.fence() as i64);
        let seen = account.read(bobs).expect("nobody is after him");
        assert!(account.write(bobs, seen + 50));
        guard.release().await.expect("he has it");
    });
    assert_eq!(account.balance(), 120);
}
