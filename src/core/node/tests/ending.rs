//! RELEASE, EXTEND, CHECK, BREAK, and leases that run out.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::bench::{Bench, KEY};
use crate::node::Acquired;
use crate::node::host::{Ending, Memory};
use crate::reason::Reason;
use crate::words::{ClientId, Fence, Key};

#[test]
fn only_its_token_releases_a_lock() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    assert!(!bench.release("b"));
    assert!(bench.release("a"));
    assert!(!bench.release("a"));
    assert_eq!(bench.endings(), vec![("a".into(), Ending::Released)]);
}

#[test]
fn one_reader_leaves_and_the_others_stay() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 10 SHARED");
    bench.wait(3, "c 10 WAIT 0");
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "b");
    assert!(bench.release("b"));
    assert_eq!(bench.holders(), "c");
}

#[test]
fn a_lease_that_is_over_cannot_be_released_or_extended() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.pass(10_000);
    assert_eq!(bench.check("a"), None);
    assert_eq!(bench.extend("a 10"), Ok(false));
    bench.hold(1, "b 10");
    bench.pass(10_000);
    assert!(!bench.release("b"));
    let expired = |token: &str| (token.into(), Ending::Expired);
    assert_eq!(bench.endings(), vec![expired("a"), expired("b")]);
}

#[test]
fn a_lease_never_ends_early_however_the_milliseconds_fall() {
    for offset in [0, 1, 500, 999] {
        let mut bench = Bench::new();
        bench.pass(offset);
        let fence = bench.hold(1, "a 1");
        bench.pass_and_sweep(999);
        assert_eq!(bench.check("a"), Some(fence), "{offset}");
        bench.pass_and_sweep(1_001);
        assert_eq!(bench.holders(), "", "{offset}");
    }
}

#[test]
fn a_sweep_ends_what_is_over_and_hands_over() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 20 SHARED");
    bench.wait(3, "c 10 WAIT 0");
    bench.pass_and_sweep(10_000);
    assert_eq!((bench.holders(), bench.waiters()), ("b".into(), "c".into()));
    bench.pass_and_sweep(10_000);
    assert_eq!((bench.holders(), bench.waiters()), ("c".into(), "".into()));
}

#[test]
fn a_burst_of_endings_is_spread_over_several_sweeps() {
    let mut bench = Bench::new();
    for words in ["a 10 SHARED", "b 10 SHARED", "c 10 SHARED", "d 10 SHARED", "e 10 SHARED"] {
        bench.hold(1, words);
    }
    bench.pass(10_000);
    let time = bench.time();
    for (left, more) in [("c d e", true), ("e", true), ("", false)] {
        assert_eq!(bench.node.sweep(&mut bench.host, time, 2, true), more);
        assert_eq!(bench.holders(), left);
    }
}

#[test]
fn leases_that_are_over_do_not_pile_up_however_many_commands_come_between_two_sweeps() {
    let mut bench = Bench::new();
    let mut held = 0;
    for round in 0..10 {
        bench.hold_many(round, 2_000);
        bench.pass(20_000);
        held = held + 2_000 - bench.sweep_once();
        assert!(held <= 2_000, "{held} in round {round}");
    }
}

/// However many commands came before it.
#[test]
fn a_large_burst_of_endings_is_spread_over_several_sweeps() {
    let mut bench = Bench::new();
    bench.hold_many(0, 2_000);
    bench.pass_and_sweep(20_000);
    bench.endings();
    bench.hold_many(1, 2_000);
    bench.pass(20_000);
    assert!((1..=300).contains(&bench.sweep_once()));
    assert!((1..=300).contains(&bench.sweep_once()));
}

#[test]
fn an_extension_makes_a_lease_longer_and_never_shorter() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 10 SHARED");
    assert_eq!(bench.extend("a 30"), Ok(true));
    assert_eq!(bench.extend("b 5"), Ok(true));
    assert_eq!(bench.extend("c 5"), Ok(false));
    bench.pass_and_sweep(5_000);
    assert_eq!(bench.holders(), "a b");
    bench.pass_and_sweep(5_000);
    assert_eq!(bench.holders(), "a");
    bench.pass(19_999);
    assert!(bench.check("a").is_some());
}

#[test]
fn an_extension_with_a_fence_raises_the_holder_and_the_counter() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    assert_eq!(bench.extend("a 10 FENCE 2000000"), Ok(true));
    assert_eq!(
        (bench.check("a"), bench.node.durable.counter.last()),
        (Some(Fence(2_000_000)), Fence(2_000_000))
    );
    assert_eq!(bench.hold(2, "b 10 SHARED"), Fence(2_000_001));
    // The fence is below the counter, but not below the holder's.
    assert_eq!(bench.extend("a 10 FENCE 2000000"), Ok(true));
    assert_eq!(bench.node.durable.counter.last(), Fence(2_000_001));
}

#[test]
fn an_extension_with_a_smaller_fence_than_the_holders_is_refused() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 10");
    assert_eq!(bench.extend("a 99 FENCE 999999"), Ok(false));
    assert_eq!(bench.check("a"), Some(fence));
    bench.pass(10_000);
    assert_eq!(bench.check("a"), None);
}

#[test]
fn an_extension_with_a_fence_too_far_ahead_is_an_error() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let counter = bench.node.durable.counter.last();
    let refused = Reason::TooFar { given: 600_000_001, most: 600_000_000 };
    assert_eq!(bench.extend("a 10 FENCE 600000001"), Err(refused));
    assert_eq!((bench.node.durable.counter.last(), bench.check("a")), (counter, Some(counter)));
}

/// The fence was granted before, by a clock that was ahead.
#[test]
fn an_extension_with_the_fence_that_was_granted_proposes_nothing() {
    let mut bench = Bench::new();
    bench.ahead = 1_000_000_000;
    let fence = bench.hold(1, "a 10 FENCE 1500000000").0;
    bench.ahead = 0;
    assert_eq!(bench.extend(&format!("a 20 FENCE {fence}")), Ok(true));
    let refused = bench.extend(&format!("a 20 FENCE {}", fence + 1_000_000_000));
    assert!(matches!(refused, Err(Reason::TooFar { .. })), "{refused:?}");
    assert_eq!(bench.extend("b 10 FENCE 9007199254740991"), Ok(false));
}

#[test]
fn a_check_tells_holders_from_others_and_changes_nothing() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 10");
    bench.wait(2, "b 10 WAIT 0");
    bench.pass(10_000);
    let told = bench.host.log.len();
    assert_eq!((bench.check("a"), bench.check("b"), bench.check("c")), (None, None, None));
    assert_eq!(bench.host.log.len(), told);
    assert_eq!((bench.holders(), bench.waiters()), ("a".into(), "b".into()));
    bench.now -= 1;
    assert_eq!(bench.check("a"), Some(fence));
}

#[test]
fn a_break_ends_every_lease_and_hands_over() {
    let mut bench = Bench::new();
    assert_eq!(bench.break_lock(None), 0);
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 10 SHARED");
    bench.wait(3, "c 10 WAIT 0");
    assert_eq!(bench.break_lock(None), 2);
    assert_eq!((bench.holders(), bench.waiters()), ("c".into(), "".into()));
    assert_eq!(bench.break_lock(None), 1);
    let broken = |token: &str| (token.into(), Ending::Broken);
    assert_eq!(bench.endings(), vec![broken("a"), broken("b"), broken("c")]);
}

#[test]
fn a_break_of_one_token_leaves_the_others() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 10 SHARED");
    assert_eq!(bench.break_lock(Some("a")), 1);
    assert_eq!(bench.break_lock(Some("a")), 0);
    assert_eq!(bench.holders(), "b");
}

#[test]
fn locks_at_other_keys_and_in_other_databases_are_other_locks() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    for key in [Key { db: 1, ..KEY }, Key { db: 0, name: b"key2" }] {
        let granted = bench.acquire_at(key, 2, "b 10");
        assert!(matches!(granted, Ok(Acquired::Granted(_))), "{granted:?}");
    }
    assert_eq!(bench.holders(), "a");
}

#[test]
fn a_command_ends_a_part_of_a_large_crowd_and_its_own_token() {
    let mut bench = Bench::new();
    for i in 0..1000 {
        bench.hold(i, &format!("t{i} 10 SHARED"));
    }
    bench.hold(1000, "long 1000 SHARED");
    bench.pass(11_000);
    assert_eq!(bench.extend("t999 10"), Ok(false));
    let ended = bench.endings();
    assert!((1..=257).contains(&ended.len()), "{}", ended.len());
    assert!(ended.contains(&("t999".into(), Ending::Expired)));
    let fence = bench.hold(5, "t998 10 SHARED");
    assert_eq!(bench.check("t998"), Some(fence), "a new grant, not the old one prolonged");
    for _ in 0..20 {
        bench.sweep();
    }
    assert_eq!(bench.holders(), "long t998");
}

#[test]
fn a_large_crowd_whose_last_lease_is_over_makes_room_at_once() {
    let mut bench = Bench::new();
    for i in 0..1000 {
        bench.hold(i, &format!("t{i} 10 SHARED"));
    }
    bench.wait(2000, "writer 10 WAIT 0");
    bench.pass(11_000);
    assert!(!bench.release("t5"));
    assert_eq!(bench.holders(), "writer");
}

#[test]
fn very_many_readers_are_served_in_parts_and_none_is_forgotten() {
    let mut bench = Bench::new();
    bench.hold(0, "w 1000");
    for i in 1..=1000 {
        bench.wait(i, &format!("t{i} 1000 SHARED WAIT 0"));
    }
    assert!(bench.release("w"));
    assert!(bench.node.has_pending());
    for _ in 0..10 {
        bench.sweep();
    }
    assert_eq!(bench.waiters(), "");
}

#[test]
fn nothing_is_handed_over_while_the_server_refuses_writes() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.wait(2, "b 10 WAIT 0");
    bench.host.refuses = true;
    bench.pass_and_sweep(11_000);
    assert_eq!((bench.holders(), bench.waiters()), ("".into(), "b".into()));
    bench.host.refuses = false;
    bench.pass_and_sweep(101_000);
    assert_eq!(bench.holders(), "b");
}

/// A connection can have had very many grants: its end costs the node the same.
#[test]
fn what_a_closed_connection_held_ends_a_part_in_each_turn_and_others_are_served_between() {
    let mut bench = Bench::new();
    let names: Vec<Vec<u8>> = (0..100).map(|n: u32| n.to_be_bytes().to_vec()).collect();
    for name in &names {
        let key = Key { db: 0, name };
        assert!(matches!(bench.acquire_at(key, 1, "a 10 EPHEMERAL"), Ok(Acquired::Granted(_))));
    }
    bench.set_text("old", None);
    bench.wait(2, "w 10 WAIT 0");
    bench.node.closed(ClientId(1));
    assert!(bench.node.ephemeral.all().count() == 0);
    bench.host.take(&KEY.to_owned());
    bench.node.maybe_free(KEY);
    let time = bench.time();
    let held = |bench: &Bench| bench.host.values.len();
    assert!(bench.node.sweep(&mut bench.host, time, 20, true), "there is more");
    assert!((80..100).contains(&held(&bench)), "{}", held(&bench));
    assert_eq!(bench.holders(), "w", "others do not wait for it");
    // A grant that another connection has taken over does not end.
    let last = Key { db: 0, name: &names[99] };
    assert!(matches!(bench.acquire_at(last, 3, "a 10"), Ok(Acquired::Granted(_))));
    bench.sweep();
    assert_eq!(held(&bench), 2);
    assert!(bench.node.memory() == 0 && !bench.node.has_pending());
}

/// The end of a connection is carried out a moment later.
#[test]
fn what_ends_with_a_closed_connection_is_not_extended_over_another_one() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 10 EPHEMERAL");
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!((bench.extend("a 10"), bench.check("a")), (Ok(true), Some(fence)));
    bench.node.closed(ClientId(1));
    let named = bench.extend(&format!("a 10 FENCE {}", fence.0));
    assert_eq!((bench.extend("a 10"), named, bench.check("a")), (Ok(false), Ok(false), None));
    bench.sweep();
    assert_eq!(bench.holders(), "b");
}

#[test]
fn readers_that_release_do_not_let_all_the_others_in_within_one_turn() {
    let mut bench = Bench::new();
    bench.hold(0, "w 1000");
    for i in 1..=500 {
        bench.wait(i, &format!("t{i} 1000 SHARED WAIT 0"));
    }
    bench.wait(501, "writer 1000 WAIT 0");
    bench.wait(502, "late 1000 SHARED WAIT 0");
    let waiting = |bench: &Bench| bench.node.waiting.requests();
    assert!(bench.release("w"));
    let first = 502 - waiting(&bench);
    assert!((1..=64).contains(&first), "{first}");
    for i in 1..=first {
        assert!(bench.release(&format!("t{i}")));
    }
    assert_eq!(waiting(&bench), 502 - first, "the next iterations let them in");
    // A reader that comes meanwhile waits its turn.
    assert_eq!(bench.acquire(503, "new 1000 SHARED"), Ok(Acquired::Denied));
    while bench.node.has_pending() {
        let before = waiting(&bench);
        let time = bench.time();
        bench.node.sweep(&mut bench.host, time, 64, true);
        assert!(before - waiting(&bench) <= 64 + 16, "{before}");
    }
    assert_eq!(bench.waiters(), "writer late");
    for i in first + 1..=500 {
        assert!(bench.release(&format!("t{i}")), "{i}");
    }
    assert_eq!((bench.holders(), bench.waiters()), ("writer".into(), "late".into()));
}

/// A log is read at once, without the time that passed between its commands.
#[test]
fn a_log_that_is_read_at_once_has_the_leases_that_extensions_made() {
    for extension in ["a 25000", "a 100", "a 25000", "a 100 FENCE 90000000"] {
        let mut bench = Bench::new();
        bench.hold(1, "a 30000 META m");
        bench.pass(10_000_000);
        assert_eq!(bench.extend(extension), Ok(true));
        assert_eq!(bench.follower(bench.now).host.roll(), bench.host.roll(), "{extension}");
    }
}

#[test]
fn a_grant_that_ends_with_a_connection_takes_memory_until_it_has_ended() {
    let mut bench = Bench::new();
    bench.host.memory = Memory { used: 0, most: 250 };
    let (full, fence) = (Err(Reason::TooManyLocks { most: 250 }), bench.hold(3, "p 10 SHARED"));
    for taken in ["a 10 SHARED EPHEMERAL", "b 10 SHARED EPHEMERAL", "c 10 SHARED EPHEMERAL"] {
        bench.hold(1, taken);
    }
    let refused = ["d 10 SHARED", "p 10 SHARED EPHEMERAL", "p 10 SHARED META m"];
    assert_eq!(refused.map(|words| bench.acquire(3, words)), [full; 3]);
    assert_eq!(bench.hold(3, "p 10 SHARED"), fence);
    // The grant is another connection's now, which takes no more memory.
    bench.hold(2, "c 10 SHARED EPHEMERAL");
    bench.node.closed(ClientId(1));
    assert_eq!(bench.acquire(3, refused[0]), full);
    bench.sweep();
    assert_eq!(bench.holders(), "c p");
    bench.hold(3, "p 10 SHARED EPHEMERAL");
    assert!(bench.release("p") && bench.release("c"));
    assert_eq!(bench.node.memory(), 0);
}

#[test]
fn the_turn_of_a_grant_that_ends_with_a_connection_takes_its_memory_too() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.host.memory = Memory { used: 250, most: 250 };
    let full = Err(Reason::TooManyLocks { most: 250 });
    assert_eq!(bench.acquire(2, "b 10 WAIT 0 EPHEMERAL"), full);
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!(bench.acquire(2, "b 10 WAIT 0 EPHEMERAL"), full);
    bench.release("a");
    bench.host.memory.used = 0;
    bench.hold(2, "b 10 EPHEMERAL");
    bench.host.memory.used = 250;
    bench.wait(3, "c 10 WAIT 0 EPHEMERAL");
}

/// The names of such grants take extra memory, and any number of tokens may ask with TURN first.
#[test]
fn one_that_was_away_ends_with_a_connection_only_if_there_is_room() {
    let mut bench = Bench::new();
    bench.hold(1, "a 500 SHARED KEEP 500 TURN");
    bench.hold(1, "b 500 SHARED KEEP 500 TURN");
    bench.host.memory = Memory { used: 250, most: 250 };
    let full = Err(Reason::TooManyLocks { most: 250 });
    assert_eq!(bench.acquire(2, "b 1000 SHARED EPHEMERAL"), full);
    bench.hold(2, "b 1000 SHARED");
    bench.host.memory.used = 0;
    bench.hold(2, "b 1000 SHARED EPHEMERAL");
}
