//! A set of nodes that is changed while locks are held, in the steps of docs/several-nodes.md.

use dlock_client::{Client, Guard};
use harness::wait::PATIENCE;
use harness::{Proxy, Quorum};

use crate::coordinator::{LONG, connect, run};

/// Clients of one list hold on every majority that it has, in turns; clients of the other ask every
/// majority of theirs. No client gets a second lock, and every later fence is larger.
#[test]
fn two_lists_that_differ_by_one_node_never_have_two_holders() {
    let quorum = Quorum::start(4);
    for (one, other) in [(&[0, 1, 2][..], &[0, 1, 2, 3][..]), (&[0, 1, 2], &[0, 1])] {
        run(async {
            for (held, wants) in [(one, other), (other, one)] {
                for holders in majorities(held) {
                    let name = format!("{held:?} to {wants:?}, held on {holders:?}");
                    let holder = Program::new(&quorum, held, &holders).await;
                    let guard = holder.take(&name).await;
                    let mut programs = Vec::new();
                    for askers in majorities(wants) {
                        let program = Program::new(&quorum, wants, &askers).await;
                        let second = program.client.lock("job").ttl(LONG).try_acquire().await;
                        assert!(second.is_err(), "{name}: a second one on {askers:?}");
                        programs.push(program);
                    }
                    let fence = guard.fence();
                    guard.release().await.expect("it is held all the time");
                    let next = programs.last().expect("there is a majority").take(&name).await;
                    assert!(next.fence() > fence, "{name}: {} after {fence}", next.fence());
                    next.release().await.expect("it is held");
                    programs.push(holder);
                    for program in programs {
                        // Its releases at nodes that it could not reach.
                        program.networks.iter().for_each(Proxy::pass);
                        assert!(program.client.released(PATIENCE).await, "{name}: one is left");
                    }
                }
            }
        });
    }
}

/// The reason for that rule: the same with a node replaced in one step.
#[test]
fn two_lists_that_differ_by_a_replaced_node_can_have_two_holders() {
    let quorum = Quorum::start(4);
    run(async {
        let (old, new) = (
            Program::new(&quorum, &[0, 1, 2], &[0, 2]).await,
            Program::new(&quorum, &[1, 3, 0], &[1, 3]).await,
        );
        let first = old.take("a majority of the old list").await;
        let second = new.take("a majority of the new list").await;
        assert!(first.is_valid() && second.is_valid(), "this is the danger");
    });
}

/// A program that has a list of nodes, and can reach these alone.
struct Program {
    client: Client,
    networks: Vec<Proxy>,
}

impl Program {
    async fn new(quorum: &Quorum, list: &[usize], reachable: &[usize]) -> Program {
        let networks: Vec<Proxy> = list.iter().map(|at| Proxy::start(quorum[*at].port())).collect();
        let url = |network: &Proxy| format!("redis://127.0.0.1:{}", network.port());
        let urls: Vec<String> = networks.iter().map(url).collect();
        let client = connect(&urls).await;
        for (at, network) in list.iter().zip(&networks) {
            if !reachable.contains(at) {
                network.refuse();
            }
        }
        Program { client, networks }
    }

    /// Takes the lock, which is free. Other clients may still be releasing a minority of it.
    async fn take(&self, name: &str) -> Guard {
        let taken = self.client.lock("job").ttl(LONG).acquire().await;
        taken.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

fn majorities(list: &[usize]) -> Vec<Vec<usize>> {
    let chosen = |mask: usize| {
        list.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, id)| *id).collect()
    };
    let all = (0..1_usize << list.len()).map(chosen);
    all.filter(|some: &Vec<usize>| some.len() == list.len() / 2 + 1).collect()
}
