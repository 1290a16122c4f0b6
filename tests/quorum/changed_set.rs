//! A set of nodes that is changed while locks are held: docs/several-nodes.md says in which steps.

use std::time::Duration;

use dlock_client::{Client, Error, Guard};
use harness::Quorum;

use crate::coordinator::{connect, ms, run};

const TTL: Duration = ms(30_000);

/// Clients of one list hold on every majority that it has, in turns; clients of the other ask every
/// majority of theirs. Nobody gets a second lock, and every later fence is larger.
#[test]
fn two_lists_that_differ_by_one_node_never_have_two_holders() {
    let quorum = Quorum::start(4);
    for (one, other) in [
        (&[0, 1, 2][..], &[0, 1, 2, 3][..]),
        (&[0, 1, 2, 3], &[0, 1, 3]),
        (&[0, 1, 2], &[0, 1]),
        (&[0, 1], &[0, 1, 3]),
    ] {
        run(async {
            for (held, wants) in [(one, other), (other, one)] {
                for holders in majorities(held) {
                    let name = format!("{held:?} to {wants:?}, held on {holders:?}");
                    let guard = take_on(&quorum, held, &holders).await;
                    let guard = guard.unwrap_or_else(|error| panic!("{name}: {error}"));
                    for askers in majorities(wants) {
                        let second = take_on(&quorum, wants, &askers).await;
                        assert!(second.is_err(), "{name}: a second one on {askers:?}");
                    }
                    let fence = guard.fence();
                    guard.release().await.expect("it is held all the time");
                    let all = majorities(wants);
                    let next = take_on(&quorum, wants, &all[all.len() - 1]).await;
                    let next = next.unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert!(next.fence() > fence, "{name}: {} after {fence}", next.fence());
                    next.release().await.expect("it is held");
                }
            }
        });
    }
}

/// Why it is written there: the same with a node replaced in one step.
#[test]
fn two_lists_that_differ_by_a_replaced_node_can_have_two_holders() {
    let quorum = Quorum::start(4);
    run(async {
        let old = take_on(&quorum, &[0, 1, 2], &[0, 2]).await.expect("a majority of the old list");
        let new = take_on(&quorum, &[1, 3, 0], &[1, 3]).await.expect("a majority of the new list");
        assert!(old.is_valid() && new.is_valid(), "this is the danger");
    });
}

/// Takes the lock with a list of nodes of which these alone can be reached meanwhile.
async fn take_on(quorum: &Quorum, list: &[usize], reachable: &[usize]) -> Result<Guard, Error> {
    let through: Vec<String> = list.iter().map(|at| quorum[*at].url()).collect();
    let client: Client = connect(&through).await;
    for at in list.iter().filter(|at| !reachable.contains(at)) {
        quorum[*at].network().refuse();
    }
    let taken = client.lock("job").ttl(TTL).try_acquire().await;
    for at in list {
        quorum[*at].network().pass();
    }
    taken
}

fn majorities(list: &[usize]) -> Vec<Vec<usize>> {
    let chosen = |mask: usize| {
        list.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, id)| *id).collect()
    };
    let all = (0..1_usize << list.len()).map(chosen);
    all.filter(|some: &Vec<usize>| some.len() == list.len() / 2 + 1).collect()
}
