//! Many clients want the same lock: they queue at the gate in the order of arrival, and no two have it
//! together.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_client::Client;
use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{
    LONG, assert_held, healthy_program, ms, patient_program, program, run, take_everywhere, until,
    wait_for,
};

const TTL: Duration = ms(10_000);

#[test]
fn clients_are_served_in_the_order_of_arrival() {
    for size in [1, 3, 5] {
        let quorum = Quorum::start(size);
        run(async {
            let holder = healthy_program(&quorum).await;
            let guard = take_everywhere(&quorum, &holder, "job", ms(30_000)).await;
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut people = JoinSet::new();
            for number in 0..8 {
                let (person, order) = (healthy_program(&quorum).await, Arc::clone(&order));
                people.spawn(async move {
                    // Long enough for a grant that arrives late.
                    let guard = wait_for(&person, "job", ms(30_000)).await;
                    order.lock().unwrap().push((number, guard.fence()));
                    guard.release().await.expect("it is held");
                });
                until("they wait at the gate", || quorum[0].node("waiters").int() == number + 1)
                    .await;
            }
            guard.release().await.expect("it is held");
            people.join_all().await;
            let order = order.lock().unwrap();
            // A thread may pause between its requests to several nodes on a busy machine. Then the next
            // client may be first at the others. The simulation shows that this is the only reason.
            let numbers: Vec<i64> = order.iter().map(|(number, _)| *number).collect();
            let apart = (0..8).zip(&numbers).map(|(place, number)| number.abs_diff(place)).max();
            assert!(apart <= Some(u64::from(size > 1)), "{numbers:?} on {size} nodes");
            assert!(order.is_sorted_by_key(|(_, fence)| *fence));
            quorum.until_released();
        });
    }
}

#[test]
fn waiters_queue_on_one_node_and_the_next_in_line_waits_at_all() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(30_000)).await;
        let mut people = JoinSet::new();
        for number in 1..=4 {
            let person = healthy_program(&quorum).await;
            people.spawn(async move {
                let guard = wait_for(&person, "job", TTL).await;
                guard.release().await.expect("it is held");
            });
            until("they wait at the gate", || quorum[0].node("waiters").int() == number).await;
        }
        let others = || quorum[1..].iter().map(|node| node.node("waiters").int());
        until("the next in line waits at the others", || others().all(|waiters| waiters == 1))
            .await;
        guard.release().await.expect("it is held");
        people.join_all().await;
        quorum.until_released();
    });
}

#[test]
fn a_crowd_on_one_node_never_overlaps_and_everybody_has_a_share() {
    crowd(1, 20);
}

#[test]
fn a_crowd_on_five_nodes_never_overlaps_and_everybody_has_a_share() {
    crowd(5, 8);
}

#[test]
fn tasks_of_one_program_contend_like_programs() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let register = Arc::new(Register::default());
        let mut tasks = JoinSet::new();
        for number in 0..16 {
            let (client, register) = (client.clone(), Arc::clone(&register));
            tasks.spawn(async move {
                for _ in 0..4 {
                    turn(&client, number, &register).await;
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(register.turns.lock().unwrap().len(), 64);
        quorum.until_released();
    });
}

#[test]
fn a_lock_passes_on_when_its_holder_is_cut_off_and_its_lease_is_over() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let ttl = ms(800);
        let guard = take_everywhere(&quorum, &alice, "job", ttl).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", TTL).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        for node in quorum.iter() {
            node.network().refuse();
        }
        let next = bobs.await.expect("no panic");
        assert!(!guard.is_valid(), "two are valid");
        // The lease outlives the connection.
        let expiries = quorum.iter().map(|node| node.info_number("dlock", "dlock_expiries"));
        assert!(expiries.sum::<i64>() >= 2, "a majority has waited for its end");
        assert!(next.fence() > guard.fence());
        next.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_waiter_whose_gate_dies_waits_at_the_next() {
    let mut quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", TTL).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum[0].kill();
        until("bob waits elsewhere", || quorum[1].node("waiters").int() == 1).await;
        assert!(guard.is_valid(), "two nodes are a majority");
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        next.release().await.expect("it is held");
        for node in &quorum[1..] {
            until("nothing is left", || node.traces().leases + node.traces().waiters == 0).await;
        }
    });
}

#[test]
fn a_gate_that_comes_back_in_quarantine_keeps_no_client_waiting() {
    const TURNS: usize = 20;
    let mut quorum = Quorum::start(3);
    run(async {
        // After a crash the node grants nothing until this could have ended.
        quorum[0].run("DLOCK.ACQUIRE other alice 60000");
        let register = Arc::new(Register::default());
        let mut people = JoinSet::new();
        for number in 0..6 {
            let (person, register) = (healthy_program(&quorum).await, Arc::clone(&register));
            people.spawn(async move {
                for _ in 0..TURNS {
                    turn(&person, number, &register).await;
                }
            });
        }
        until("all contend", || register.turns.lock().unwrap().len() > 12).await;
        quorum[0].kill();
        quorum[0].start_again();
        assert_eq!(quorum[0].node("granting").text(), "quarantine");
        people.join_all().await;
        let left = quorum[0].node("quarantine-ms").int();
        assert!(left > 0, "somebody waited for the quarantine's end");
        assert_eq!(register.turns.lock().unwrap().len(), 6 * TURNS);
    });
}

#[test]
fn an_attempt_that_does_not_wait_never_overtakes_a_waiter() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let hasty = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &alice, "job", ms(30_000)).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", ms(30_000)).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        assert_held(hasty.lock("job").try_acquire().await);
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        assert_held(hasty.lock("job").try_acquire().await);
        next.release().await.expect("it is held");
    });
}

/// The data that the lock guards here: a place for one client.
#[derive(Default)]
struct Register {
    taken: AtomicBool,
    fence: AtomicU64,
    turns: Mutex<Vec<usize>>,
}

/// One turn of one contender.
async fn turn(client: &Client, number: usize, register: &Register) {
    let guard = wait_for(client, "job", TTL).await;
    assert!(!register.taken.swap(true, Ordering::SeqCst), "two at once");
    let before = register.fence.swap(guard.fence(), Ordering::SeqCst);
    assert!(before < guard.fence(), "{before} came before {}", guard.fence());
    register.turns.lock().unwrap().push(number);
    tokio::time::sleep(ms(5)).await;
    assert!(guard.is_valid());
    register.taken.store(false, Ordering::SeqCst);
    guard.release().await.expect("it is held");
}

fn crowd(size: usize, rounds: usize) {
    const PEOPLE: usize = 16;
    let quorum = Quorum::start(size);
    run(async {
        let (register, left) = (Arc::new(Register::default()), Arc::new(AtomicUsize::new(0)));
        left.store(PEOPLE * rounds, Ordering::SeqCst);
        let first =
            take_everywhere(&quorum, &healthy_program(&quorum).await, "job", ms(30_000)).await;
        let mut people = JoinSet::new();
        for number in 0..PEOPLE {
            let person = healthy_program(&quorum).await;
            let (register, left) = (Arc::clone(&register), Arc::clone(&left));
            people.spawn(async move {
                let next =
                    || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                while next().is_ok() {
                    turn(&person, number, &register).await;
                }
            });
        }
        // The first waiter waits at all nodes. The others wait at one: the first, or the next if the first
        // was slow to answer.
        let waiting = || quorum.iter().map(|node| node.node("waiters").int()).sum::<i64>();
        until("all wait", || waiting() >= (PEOPLE - 1 + size) as i64).await;
        first.release().await.expect("it is held");
        people.join_all().await;

        let turns = register.turns.lock().unwrap();
        assert_eq!(turns.len(), PEOPLE * rounds);
        let shares: Vec<usize> =
            (0..PEOPLE).map(|who| turns.iter().filter(|turn| **turn == who).count()).collect();
        let least = shares.iter().min().copied().unwrap_or(0);
        assert!(least * 2 >= rounds, "not fair: {shares:?}");
        quorum.until_released();
    });
}

#[test]
fn a_distant_waiter_keeps_its_turn_behind_a_near_one() {
    for size in [1, 3, 5] {
        let quorum = Quorum::start(size);
        run(async {
            let holder = healthy_program(&quorum).await;
            let guard = take_everywhere(&quorum, &holder, "job", ms(30_000)).await;
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut people = JoinSet::new();
            for (number, name) in ["near", "far", "as far, later"].into_iter().enumerate() {
                let person = match name {
                    "near" => healthy_program(&quorum).await,
                    _ => patient_program(&quorum.urls()).await,
                };
                let order = Arc::clone(&order);
                people.spawn(async move {
                    let guard = wait_for(&person, "job", TTL).await;
                    order.lock().unwrap().push(name);
                    guard.release().await.expect("it is held");
                });
                let waiting = number as i64 + 1;
                until("they wait at the gate", || quorum[0].node("waiters").int() == waiting).await;
            }
            quorum.iter().for_each(|node| node.network().delay(ms(100)));
            guard.release().await.expect("it is held");
            people.join_all().await;
            let expected = ["near", "far", "as far, later"];
            assert_eq!(*order.lock().unwrap(), expected, "on {size} nodes");
        });
    }
}
