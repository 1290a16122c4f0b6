//! Effects for a slot that is about to be this node's are carried out as decided.

use alloc::string::String;

use super::bench::{Bench, KEY};
use crate::command::apply::{Apply, Granted};
use crate::durability::keys_ahead::KeyAhead;
use crate::durability::promise::Promise;
use crate::durability::quarantine::{Cause, Policy};
use crate::limits::{MAX_FENCE_AHEAD, MAX_KEYS_AHEAD};
use crate::reason::Reason;
use crate::words::{Fence, Millis, Mode, Owner};

const TOKEN: &[u8] = b"elsewhere";

/// The node that leads the key until now has decided this.
fn told(bench: &mut Bench, apply: &Apply<'static>) -> Result<(), Reason> {
    let time = bench.time();
    bench.node.obey(true);
    let believed = bench.node.believe(apply, time);
    if believed.is_ok() {
        bench.node.apply(&mut bench.host, KEY, apply, time);
    }
    bench.node.obey(false);
    believed
}

fn grant(fence: Fence, ttl: u64) -> Apply<'static> {
    let (ttl, mode) = (Millis(ttl), Mode::Exclusive);
    Apply::Grant(Granted { token: TOKEN, ttl, fence, mode, ephemeral: false, meta: b"" })
}

#[test]
fn a_lease_that_is_over_here_is_extended_when_that_was_decided_before_it_was_over_there() {
    let mut bench = Bench::new();
    told(&mut bench, &grant(Fence(7), 10)).unwrap();
    bench.pass(20_000);
    bench.node.obey(true);
    assert_eq!(bench.extend("elsewhere 1000"), Ok(true));
    bench.node.obey(false);
    assert_eq!(bench.check("elsewhere"), Some(Fence(7)));
}

/// A node of an earlier version sends the extension, and not the grant that it made.
#[test]
fn a_fence_that_an_extension_set_elsewhere_is_remembered_when_users_have_no_more_room() {
    let mut bench = Bench::new();
    let (ahead, counter) = (Fence(bench.now + 100_000_000), &mut bench.node.durable.counter);
    for n in 0..MAX_KEYS_AHEAD / 2 {
        counter.hand_out(&n.to_be_bytes(), ahead, Owner::default());
    }
    told(&mut bench, &grant(Fence(7), 1000)).unwrap();
    bench.node.obey(true);
    assert_eq!(bench.extend("elsewhere 1000 FENCE 200000000"), Ok(true));
    bench.node.obey(false);
    assert_eq!(bench.node.durable.counter.used(KEY.name), Fence(200_000_000));
}

#[test]
fn no_waiter_here_gets_a_lock_that_was_released_elsewhere() {
    let mut bench = Bench::new();
    told(&mut bench, &grant(Fence(7), 1000)).unwrap();
    bench.wait(1, "a 1000 WAIT 0");
    told(&mut bench, &Apply::End(TOKEN)).unwrap();
    assert_eq!((bench.holders(), bench.answers().len()), (String::new(), 0));
}

#[test]
fn no_fence_that_was_handed_out_elsewhere_is_handed_out_again() {
    let mut bench = Bench::new();
    let floor = Fence(bench.now + 100_000_000);
    told(&mut bench, &Apply::Floor(floor)).unwrap();
    assert_eq!(bench.hold(1, "a 1000"), Fence(floor.0 + 1));
}

#[test]
fn a_key_that_is_far_ahead_elsewhere_is_so_here_and_no_other_key() {
    let mut bench = Bench::new();
    let (far, unix) = (Fence(bench.now + 500_000_000), bench.time().unix);
    let KeyAhead { hash, slot, .. } = KeyAhead::of(KEY.name);
    told(&mut bench, &Apply::Ahead(hash, slot, far)).unwrap();
    assert_eq!(bench.hold(1, "a 1000"), Fence(far.0 + 1));
    assert!(bench.node.durable.counter.last_of_all() <= Fence(unix + 5_000_000));
    // The fence goes with its slot once more.
    let ahead: alloc::vec::Vec<_> = bench.node.durable.counter.ahead().collect();
    assert_eq!(ahead, [(KeyAhead::of(KEY.name), Fence(far.0 + 1))]);
}

#[test]
fn what_another_node_has_promised_binds_its_replicas_and_not_this_node() {
    let mut bench = Bench::new();
    let (fence, bound) = (Fence(bench.now + 100_000_000), Millis(5_000));
    let promise = Apply::Promise(Promise { fence, unix: bench.now, bound, ..Promise::default() });
    told(&mut bench, &promise).unwrap();
    assert!(bench.hold(1, "a 1000") < fence);
    let mut replica = Bench::new();
    let time = replica.time();
    replica.follow();
    replica.node.apply(&mut replica.host, KEY, &promise, time);
    replica.node.promoted(time);
    let (cause, left) = (Cause::Promoted, Millis(5_000));
    assert_eq!(replica.acquire(1, "a 10"), Err(Reason::Quarantine { cause, left }));
    replica.pass_and_sweep(5_000_000);
    assert!(replica.hold(1, "a 1000") > fence);
}

#[test]
fn a_fence_that_no_node_can_have_handed_out_is_refused_and_changes_nothing() {
    let mut bench = Bench::new();
    let far = Fence(MAX_FENCE_AHEAD);
    for apply in [grant(Fence(far.0 + 1), 10), Apply::Floor(Fence(far.0 + 1))] {
        let refused = Reason::TooFar { given: far.0 + 1, most: far.0 };
        assert_eq!(told(&mut bench, &apply), Err(refused));
    }
    assert_eq!((bench.holders(), bench.node.durable.counter.last()), (String::new(), Fence(0)));
    told(&mut bench, &grant(far, 10)).unwrap();
    // All effects of a primary are accepted.
    let time = bench.time();
    assert_eq!(bench.node.believe(&grant(Fence(far.0 + 1), 10), time), Ok(()));
}

#[test]
fn a_replica_that_led_and_is_in_quarantine_carries_out_what_its_primary_decides() {
    let mut bench = Bench::new();
    told(&mut bench, &grant(Fence(7), 1000)).unwrap();
    bench.node.settings.quarantine = Policy::Least(Millis(1000));
    let time = bench.time();
    bench.node.replaced(time);
    let refused = bench.extend("elsewhere 1000 FENCE 8");
    assert!(matches!(refused, Err(Reason::Quarantine { .. })), "{refused:?}");
    bench.follow();
    assert_eq!(bench.extend("elsewhere 1000 FENCE 8"), Ok(true));
    assert_eq!(bench.check("elsewhere"), Some(Fence(8)));
}

#[test]
fn a_replica_ends_no_large_crowd_by_itself() {
    let mut bench = Bench::new();
    for n in 0..1000 {
        bench.hold(n, &alloc::format!("t{n} 10 SHARED"));
    }
    bench.follow();
    bench.pass(11_000);
    // The primary extended one of them in time.
    assert_eq!(bench.extend("t7 10"), Ok(true));
    assert_eq!(bench.holders().split(' ').count(), 1000);
}
