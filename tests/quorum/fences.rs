//! Fences: each is larger than all before it, and a majority has stored it.

use dlock_client::Guard;
use harness::{Builder, Client, Quorum, Server};

use crate::coordinator::{LONG, healthy_program, run, take};

/// The lead of one node's counter, in microseconds. Less than the lead that it refuses.
const AHEAD: i64 = 300_000_000;

/// Very many names reach all counters of a node.
#[test]
fn a_client_that_pushes_all_counters_to_their_limit_keeps_no_other_from_a_lock_where_clocks_differ()
{
    let quorum = Quorum::with(3, Builder::with_movable_wall_clock);
    for (place, ahead) in [(1, 2), (2, 2)] {
        quorum[place].set_wall_clock(ahead);
    }
    let mut eves: Vec<Client> = quorum.iter().map(|node| node.client()).collect();
    // In another database no other client has locks.
    let push = |eve: &mut Client| {
        eve.run("SELECT 1");
        eve.run("DLOCK.ACQUIRE job eve 60000");
        let far = most(eve);
        let take = |n: u32| format!("DLOCK.ACQUIRE hers:{n} eve 60000 FENCE {far}");
        let give = |n: u32| format!("DLOCK.RELEASE hers:{n} eve");
        let answers = eve.pipeline((0..30_000).flat_map(|n| [take(n), give(n)]));
        assert!(answers.iter().step_by(2).all(|fence| fence.int() >= far));
    };
    eves.iter_mut().for_each(push);
    let refused = |node: &Server| {
        let counts = node.info("errorstats");
        let count = counts.get("errorstat_TOOFAR").map_or("count=0", |count| count);
        count.strip_prefix("count=").and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let before: Vec<u64> = quorum.iter().map(|node| refused(node)).collect();
    // The slowest clock is needed: one of the others is down.
    let mut quorum = quorum;
    quorum[1].kill();
    run(async {
        let client = healthy_program(&quorum).await;
        for n in 0..30 {
            let guard = take(&client, &format!("job:{n}"), LONG).await;
            assert_known_at(&quorum, &[0, 2], &guard);
            guard.release().await.expect("it is held");
        }
    });
    for place in [0, 2] {
        assert_eq!(refused(&quorum[place]), before[place], "node {place} refused a fence");
    }
}

/// The largest fence that a node accepts now.
fn most(eve: &mut Client) -> i64 {
    let refused = eve.run("DLOCK.EXTEND job eve 60000 FENCE 9007199254740991");
    let most = refused.error().strip_prefix("TOOFAR ").and_then(|words| words.split(' ').next());
    most.and_then(|most| most.parse().ok()).unwrap_or_else(|| panic!("{refused:?}"))
}

#[test]
fn a_fence_is_above_those_that_a_node_gave_out_alone() {
    let quorum = Quorum::start(1);
    run(async {
        let client = healthy_program(&quorum).await;
        let far = raise(&quorum[0], "job");
        let guard = take(&client, "job", LONG).await;
        assert!(guard.fence() as i64 > far);
    });
}

/// Asserts that these nodes have stored the guard's fence as its own.
fn assert_known_at(quorum: &Quorum, nodes: &[usize], guard: &Guard) {
    for node in nodes {
        let fence = quorum[*node].holder(guard.key())["fence"].int();
        assert_eq!(fence, guard.fence() as i64, "node {node}");
    }
}

/// Lets a node grant a fence far ahead for a key, and returns it.
fn raise(node: &Server, key: &str) -> i64 {
    let usual = node.run(&format!("DLOCK.ACQUIRE {key} early 1000")).int();
    node.run(&format!("DLOCK.RELEASE {key} early"));
    let fence = usual + AHEAD;
    let granted = node.run(&format!("DLOCK.ACQUIRE {key} early 1000 FENCE {fence}"));
    node.run(&format!("DLOCK.RELEASE {key} early"));
    assert!(granted.int() >= fence, "{granted:?}");
    granted.int()
}
