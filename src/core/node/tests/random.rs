//! Long random runs of events in any order.

use alloc::vec;

use proptest::prelude::*;
use proptest::sample::select;

use super::step::{Ask, From, Proposal, Step};
use super::world::World;
use crate::words::Mode;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2 * usual().cases, ..usual() })]

    /// On failure the steps are printed, shrunk to the fewest that still fail.
    #[test]
    fn whatever_happens_the_contract_holds(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step)?;
        }
        world.finish()?;
    }
}

/// The number of cases comes from the environment.
fn usual() -> ProptestConfig {
    ProptestConfig::default()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6_usize, 0..3_usize, ask())
            .prop_map(|(slot, key, ask)| Step::Acquire { slot, key, ask }),
        5 => place().prop_map(|(key, token)| Step::Release { key, token }),
        3 => (place(), ttl(), prop::option::of(proposal()))
            .prop_map(|((key, token), ttl, fence)| Step::Extend { key, token, ttl, fence }),
        1 => place().prop_map(|(key, token)| Step::Check { key, token }),
        1 => (0..3_usize, prop::option::of(0..6_usize))
            .prop_map(|(key, token)| Step::Break { key, token }),
        5 => passing().prop_map(|micros| Step::Pass { micros }),
        4 => (0..4_usize, prop::bool::weighted(0.7))
            .prop_map(|(budget, may_write)| Step::Sweep { budget, may_write }),
        1 => (1..4_usize).prop_map(|budget| Step::Drain { budget }),
        3 => any::<usize>().prop_map(|nth| Step::Deliver { nth }),
        2 => any::<usize>().prop_map(|nth| Step::Unblock { nth }),
        2 => (0..6_usize).prop_map(|slot| Step::Disconnect { slot }),
        1 => any::<usize>().prop_map(|nth| Step::DisconnectBlocked { nth }),
        3 => rare(),
    ]
}

fn rare() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(|key| Step::Remove { key }),
        4 => (0..3_usize).prop_map(|key| Step::Evict { key }),
        4 => (place(), prop::option::of(1..10_u64))
            .prop_map(|((key, token), ttl)| Step::SetText { key, token, ttl }),
        1 => (0..3_usize).prop_map(|key| Step::SetOther { key }),
        1 => prop::option::of(0..2_u32).prop_map(|db| Step::Flush { db }),
        1 => (0..3_000_000_u64).prop_map(|unix| Step::WallClock { unix }),
        1 => Just(Step::Flap),
        2 => Just(Step::Failover),
    ]
}

/// Microseconds: a few, many, or up to the very edge of a millisecond.
fn passing() -> impl Strategy<Value = u64> {
    let edge = prop_oneof![Just(1), Just(999), Just(1000)];
    prop_oneof![3 => 1..3_000_u64, 3 => edge, 1 => 3_000..40_000_u64]
}

fn place() -> impl Strategy<Value = (usize, usize)> {
    (0..3_usize, 0..6_usize)
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 1..6_u64, 1 => 6..60_u64]
}

fn proposal() -> impl Strategy<Value = Proposal> {
    prop_oneof![
        6 => (-4..9_i64).prop_map(Proposal::Near),
        2 => (-2_000_000..0_i64).prop_map(Proposal::Near),
        1 => (-1..2_i64).prop_map(Proposal::Far),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let modes = vec![
        Mode::Exclusive,
        Mode::Exclusive,
        Mode::Shared,
        Mode::Limit(1),
        Mode::Limit(2),
        Mode::Limit(3),
    ];
    let wait = prop_oneof![2 => Just(None), 2 => Just(Some(0)), 3 => (1..12_u64).prop_map(Some)];
    let from = select(
        [From::Connection, From::Connection, From::Connection, From::Transaction, From::Script]
            .as_slice(),
    );
    let fence = prop::option::weighted(0.2, proposal());
    let ephemeral = prop::bool::weighted(0.3);
    let keep = (prop::option::weighted(0.4, 1..12_u64), any::<bool>());
    (0..6_usize, ttl(), select(modes), wait, keep, fence, ephemeral, from).prop_map(
        |(token, ttl, mode, wait, (keep, turn), fence, ephemeral, from)| Ask {
            token,
            ttl,
            mode,
            wait,
            keep,
            turn,
            fence,
            ephemeral,
            from,
        },
    )
}
