//! The ordinary case: a lock is taken, held, refused to others, given back, and taken again, on every server
//! and in quorums of several sizes.

use harness::{Kind, Quorum, Server, apply, on_every_server};

use crate::coordinator::{
    assert_held, assert_holds, ms, patient_program, run, take, take_everywhere,
};

#[apply(on_every_server)]
fn a_lock_on_one_node_is_taken_held_and_given_back(kind: Kind) {
    works(&Quorum::of(vec![Server::build(kind)]));
}

#[test]
fn nodes_of_all_kinds_make_one_quorum() {
    works(&Quorum::of(Kind::ALL.into_iter().map(Server::build).collect()));
}

#[test]
fn two_nodes_and_five_make_a_quorum() {
    works(&Quorum::start(2));
    works(&Quorum::start(5));
}

fn works(quorum: &Quorum) {
    run(async {
        let (alice, bob) =
            (patient_program(&quorum.urls()).await, patient_program(&quorum.urls()).await);
        assert_eq!(alice.size(), quorum.len());
        let names: Vec<String> = alice.nodes().map(|node| node.name().to_owned()).collect();
        assert_eq!(names, quorum.urls());

        let guard = take_everywhere(quorum, &alice, "job", ms(60_000)).await;
        assert_holds(quorum, &guard);
        assert_eq!(*guard.key(), "job");
        assert!(guard.is_valid() && guard.valid_for() < ms(60_000));
        assert_held(bob.lock("job").try_acquire().await);
        assert_eq!(quorum.held("job"), quorum.len(), "bob's attempt took nothing away");

        guard.extend(ms(90_000)).await.expect("it is held");
        assert!(guard.valid_for() > ms(60_000));
        let fence = guard.fence();
        guard.release().await.expect("it is held");
        let next = take(&bob, "job", ms(60_000)).await;
        assert!(next.fence() > fence);
        assert_holds(quorum, &next);
        next.release().await.expect("it is held");
        quorum.until_released();
    });
}
