//! The ordinary case: a lock is taken, held, refused to others, given back, and taken again, on one server and
//! in a quorum of all kinds.

use harness::{Kind, Quorum, Server};

use crate::coordinator::{LONG, assert_held, assert_holds, program, run, take, take_everywhere};

#[test]
fn a_lock_on_one_node_is_taken_held_and_given_back() {
    works(&Quorum::start(1));
}

#[test]
fn nodes_of_all_kinds_make_one_quorum() {
    works(&Quorum::of(Kind::ALL.into_iter().map(Server::build).collect()));
}

fn works(quorum: &Quorum) {
    run(async {
        let (alice, bob) = (program(quorum).await, program(quorum).await);
        assert_eq!(alice.size(), quorum.len());
        let names: Vec<String> = alice.nodes().map(|node| node.name().to_owned()).collect();
        assert_eq!(names, quorum.urls());

        let guard = take_everywhere(quorum, &alice, "job", LONG).await;
        assert_holds(quorum, &guard);
        assert_eq!(*guard.key(), "job");
        assert_held(bob.lock("job").try_acquire().await);
        assert_eq!(quorum.held("job"), quorum.len(), "bob's attempt took nothing away");

        guard.extend(LONG).await.expect("it is held");
        let fence = guard.fence();
        guard.release().await.expect("it is held");
        let next = take(&bob, "job", LONG).await;
        assert!(next.fence() > fence);
        assert_holds(quorum, &next);
        next.release().await.expect("it is held");
        quorum.until_released();
    });
}
