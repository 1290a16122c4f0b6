//! A lock that is done: no client takes it for a while.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::bench::{Bench, KEY};
use crate::command::{apply, release};
use crate::limits::MAX_DONE;
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::words::{Fence, Key, Millis};

impl Bench {
    /// RELEASE with these words after the key.
    fn release_words(&mut self, words: &str) -> Result<bool, Reason> {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let ask = release::parse(&args).expect("a good request");
        let time = self.time();
        self.node.release(&mut self.host, KEY, &ask, time)
    }

    /// The tokens with leases that are not over.
    fn holders_now(&self) -> String {
        let (_, holders) = self.host.holders(&KEY.to_owned());
        let now = self.time().now;
        let holds = holders.iter().filter(|holder| !holder.grant().lease.end.is_over(now));
        let tokens = holds.map(|holder| String::from_utf8_lossy(holder.grant().token).into_owned());
        tokens.collect()
    }

    /// A lock that is done for a second.
    fn done() -> (Bench, Fence) {
        let mut bench = Bench::new();
        let fence = bench.hold(1, "a 5000 META job");
        assert_eq!(bench.release_words("a DONE 1000 META fine"), Ok(true));
        (bench, fence)
    }
}

fn is_done(left: u64, fence: Fence) -> Reason {
    Reason::Done { left: Some(Millis(left)), fence }
}

#[test]
fn requests_for_a_done_lock_are_refused_until_its_record_expires() {
    let (mut bench, fence) = Bench::done();
    bench.pass(400_000);
    let asks =
        ["b 10", "b 10 WAIT 0", "b 10 SHARED", "b 10 LIMIT 3 WAIT 0", "b 10 KEEP 50", "a 10"];
    for words in asks {
        assert_eq!(bench.acquire(2, words), Err(is_done(600, fence)), "{words}");
    }
    assert_eq!((bench.waiters(), bench.check("a")), ("".into(), None));
    assert_eq!(bench.extend("a 1000"), Ok(false));
    bench.pass(600_000);
    assert!(bench.hold(2, "b 10") > fence);
}

#[test]
fn waiters_are_told_that_the_lock_is_done_and_places_end() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 5000");
    let waiting = [bench.wait(2, "b 10 WAIT 0"), bench.wait(3, "c 10 WAIT 0 KEEP 50 SHARED")];
    let away = bench.wait(4, "d 10 WAIT 0 KEEP 5000");
    bench.gone(away);
    assert_eq!(bench.release_words("a DONE 1000"), Ok(true));
    let told = WaitOutcome::Refused(is_done(1000, fence));
    assert_eq!(bench.answers(), waiting.map(|id| (id, told)));
    bench.pass_and_sweep(1_000_000);
    assert_eq!((bench.holders(), bench.waiters()), ("".into(), "".into()));
}

#[test]
fn only_the_holder_can_say_that_its_lock_is_done() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    assert_eq!(bench.release_words("b DONE 1000"), Ok(false));
    assert_eq!(bench.holders(), "a");
    bench.pass(101_000);
    assert_eq!(bench.release_words("a DONE 1000"), Ok(false));
    bench.hold(1, "b 100");
}

#[test]
fn only_the_holder_may_repeat_done() {
    let (mut bench, fence) = Bench::done();
    bench.pass(100_000);
    assert_eq!(bench.release_words("a DONE 1000"), Ok(true));
    assert_eq!(bench.acquire(2, "b 10"), Err(is_done(900, fence)), "the record is the first one");
    assert_eq!(bench.release_words("b DONE 1000"), Ok(false));
    assert_eq!(bench.release_words("a"), Ok(false), "a plain release does not end it");
    assert_eq!(bench.acquire(2, "b 10"), Err(is_done(900, fence)));
}

#[test]
fn shared_locks_permits_and_plain_strings_are_never_done_and_stay_as_they_are() {
    for mode in ["a 1000 SHARED", "a 1000 LIMIT 3"] {
        let mut bench = Bench::new();
        bench.hold(1, mode);
        assert_eq!(bench.release_words("a DONE 1000 FINAL"), Err(Reason::NotAlone));
        assert_eq!(bench.release_words("b DONE 1000"), Ok(false));
        assert_eq!(bench.holders(), "a");
        assert!(bench.release("a"));
        bench.hold(1, mode);
    }
    let mut bench = Bench::new();
    bench.set_text("a", None);
    assert_eq!(bench.release_words("a DONE 1000"), Ok(false));
    assert_eq!(bench.acquire(1, "a 50"), Ok(Acquired::Denied), "it is still there");
}

#[test]
fn done_for_no_time_is_a_plain_release() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    assert_eq!(bench.release_words("a DONE 0"), Ok(true));
    bench.hold(2, "b 1000");
}

#[test]
fn the_record_has_the_fence_of_the_claim_and_the_next_grant_a_larger_one() {
    for (ahead, words) in [(0, "a DONE 1000 FENCE 5"), (1, "a DONE 1000 FENCE 2000000")] {
        let mut bench = Bench::new();
        let fence = bench.hold(1, "a 5000");
        assert_eq!(bench.release_words(words), Ok(true));
        let claimed = if ahead > 0 { Fence(2_000_000) } else { Fence(5) };
        assert_eq!(bench.acquire(2, "b 10"), Err(is_done(1000, claimed)));
        bench.pass(1_000_000);
        assert!(bench.hold(2, "b 10") > claimed.max(fence));
    }
    let mut bench = Bench::new();
    bench.hold(1, "a 5000");
    let refused = bench.release_words("a DONE 1000 FENCE 9007199254740991");
    assert!(matches!(refused, Err(Reason::TooFar { .. })), "{refused:?}");
    assert_eq!(bench.holders(), "a");
}

#[test]
fn the_fence_of_the_grant_is_never_too_far_ahead() {
    let mut bench = Bench::new();
    assert_eq!(bench.hold(1, "a 1000 FENCE 600000000"), Fence(600_000_000));
    assert!(bench.release("a"));
    assert_eq!(bench.hold(2, "b 1000"), Fence(600_000_001));
    assert_eq!(bench.release_words("b DONE 1000 FENCE 600000001"), Ok(true));
}

#[test]
fn again_takes_a_lock_that_is_done_up_to_its_fence() {
    let (mut bench, fence) = Bench::done();
    assert_eq!(bench.acquire(2, "b 10 AGAIN 5"), Err(is_done(1000, fence)));
    assert!(bench.hold(2, "b 5000 AGAIN 1000000") > fence);
    assert_eq!(bench.holders(), "b");
    // AGAIN changes nothing where the lock is held, or free.
    assert_eq!(bench.acquire(3, "c 10 AGAIN 9000000"), Ok(Acquired::Denied));
    assert!(bench.release("b"));
    assert!(bench.hold(3, "c 10 AGAIN 9000000") < Fence(9_000_000), "it is no proposal");
}

#[test]
fn a_client_refused_over_a_completion_record_leaves_it() {
    let (mut bench, fence) = Bench::done();
    bench.host.memory.used = bench.host.memory.most;
    assert!(bench.acquire(2, "b 10 AGAIN 9000000").is_err());
    bench.host.memory.used = 0;
    assert_eq!(bench.acquire(2, "b 10"), Err(is_done(1000, fence)));
}

#[test]
fn a_break_ends_it() {
    let (mut bench, _) = Bench::done();
    assert_eq!(bench.break_lock(Some("b")), 0);
    assert_eq!(bench.break_lock(None), 1);
    bench.hold(2, "b 10");
    let (mut bench, _) = Bench::done();
    assert_eq!(bench.break_lock(Some("a")), 1);
    bench.hold(2, "b 10");
}

#[test]
fn a_user_has_so_many_done_locks_and_an_error_leaves_the_lock_held() {
    let mut bench = Bench::new();
    bench.host.done_elsewhere = MAX_DONE;
    bench.hold(1, "a 1000");
    assert_eq!(bench.release_words("a DONE 1000 FINAL"), Err(Reason::TooManyDone));
    assert_eq!(bench.holders(), "a");
    bench.host.done_elsewhere = MAX_DONE - 1;
    let long = format!("a DONE 1000 META {}", "m".repeat(600));
    assert_eq!(bench.release_words(&long), Err(Reason::TooManyDone), "it counts for two");
    assert_eq!(bench.holders(), "a");
    assert_eq!(bench.release_words("a DONE 1000 FINAL"), Ok(true));
    bench.pass(1_000_000);
    assert_eq!(bench.acquire(1, "a 1000"), Err(Reason::Final));
}

#[test]
fn a_done_lock_with_a_long_name_counts_for_several() {
    for (name, has_room) in [(256, true), (512, false)] {
        let mut bench = Bench::new();
        bench.host.done_elsewhere = MAX_DONE - 1;
        let name = "k".repeat(name);
        let key = Key { db: 0, name: name.as_bytes() };
        assert!(matches!(bench.acquire_at(key, 1, "a 1000"), Ok(Acquired::Granted(_))));
        let expected = if has_room { Ok(true) } else { Err(Reason::TooManyDone) };
        let done = release::parse(&[b"a", b"DONE", b"1000"]).expect("a good request");
        let time = bench.time();
        let said = bench.node.release(&mut bench.host, key, &done, time);
        assert_eq!(said, expected, "a name of {} bytes", name.len());
    }
}

#[test]
fn whatever_others_take_a_record_that_takes_no_more_than_the_grant_has_room() {
    for (held, done, has_room) in [(0, 4, true), (100, 100, true), (0, 100, false)] {
        let mut bench = Bench::new();
        bench.hold(1, &format!("a 1000 META {}", "m".repeat(held)));
        let most = bench.host.memory.most;
        bench.host.memory.used = most;
        let expected = if has_room { Ok(true) } else { Err(Reason::TooManyLocks { most }) };
        let words = format!("a DONE 1000 META {}", "m".repeat(done));
        assert_eq!(bench.release_words(&words), expected, "{done} after {held}");
        assert_eq!(bench.holders(), if has_room { "" } else { "a" });
    }
}

#[test]
fn a_node_in_quarantine_knows_what_is_done() {
    let (mut bench, fence) = Bench::done();
    let time = bench.time();
    bench.node.promoted(time);
    assert!(bench.node.durable.in_quarantine().is_some());
    assert_eq!(bench.acquire(2, "b 10 WAIT 0"), Err(is_done(1000, fence)));
}

#[test]
fn replicas_and_the_log_have_the_record_with_its_date() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 5000");
    assert_eq!(bench.release_words("a DONE 1000 META fine"), Ok(true));
    let mut replica = bench.follower(bench.now + 300_000);
    let time = replica.time();
    replica.node.lead(time);
    assert_eq!(replica.acquire(2, "b 10"), Err(is_done(700, fence)));
}

#[test]
fn a_record_travels_in_one_argument_and_meta_in_another() {
    let (fence, top) = (Fence(7), Fence(8));
    let done = crate::Done { by: 123_456_789, fence, top, since: 9, maker: 987_654, meta: b"m" };
    let mut written = Vec::new();
    apply::write_done(&done, crate::Until::at(1_790_000_000_000, 0), &mut written);
    let read = apply::parse(&[&written, b"m"]);
    assert_eq!(read, Ok(apply::Apply::Done(done, 1_790_000_000_000)));
    for cut in 0..written.len() - "987654".len() {
        assert!(apply::parse(&[&written[..cut]]).is_err(), "{cut}");
    }
}

/// A lock of one node by the contract: its holder, or its completion record.
#[derive(Default)]
struct Model {
    /// Token, end in microseconds, fence.
    holder: Option<(usize, u64, u64)>,
    record: Option<(usize, u64, u64)>,
    highest: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Acquire { token: usize, again: Option<i64>, ttl: u64 },
    Done { token: usize, time: u64, fence: Option<i64> },
    Release { token: usize },
    Break,
    Remove,
    Pass { micros: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let token = 0_usize..3;
    let near = || proptest::option::of(-3_i64..3);
    let step = prop_oneof![
        4 => (token.clone(), near(), 1_u64..40)
            .prop_map(|(token, again, ttl)| Step::Acquire { token, again, ttl }),
        3 => (token.clone(), 1_u64..60, near())
            .prop_map(|(token, time, fence)| Step::Done { token, time, fence }),
        1 => token.prop_map(|token| Step::Release { token }),
        1 => Just(Step::Break),
        1 => Just(Step::Remove),
        3 => (0_u64..30).prop_map(|ms| Step::Pass { micros: ms * 1000 }),
    ];
    proptest::collection::vec(step, 0..60)
}

const TOKENS: [&str; 3] = ["a", "b", "c"];

impl Model {
    fn see(&mut self, now: u64) {
        self.holder = self.holder.filter(|(_, end, _)| now < *end);
        self.record = self.record.filter(|(_, end, _)| now < *end);
    }

    fn acquire(&mut self, bench: &mut Bench, token: usize, again: Option<i64>, ttl: u64) {
        let again = again.map(|delta| self.highest.saturating_add_signed(delta).max(1));
        let words = match again {
            Some(again) => std::format!("{} {ttl} AGAIN {again}", TOKENS[token]),
            None => std::format!("{} {ttl}", TOKENS[token]),
        };
        let answer = bench.acquire(1, &words);
        let end = bench.now + ttl * 1000;
        match (self.holder, self.record) {
            (Some((holder, _, fence)), _) if holder == token => {
                assert_eq!(answer, Ok(Acquired::Granted(Fence(fence))));
                self.holder = self.holder.map(|(_, old, _)| (token, old.max(end), fence));
            }
            (Some(_), _) => assert_eq!(answer, Ok(Acquired::Denied)),
            (None, Some((_, over, fence))) if again.is_none_or(|again| again < fence) => {
                assert_eq!(answer, Err(is_done((over - bench.now) / 1000, Fence(fence))));
            }
            (None, _) => {
                let Ok(Acquired::Granted(fence)) = answer else { panic!("{answer:?}") };
                assert!(fence.0 > self.highest, "{fence:?} after {}", self.highest);
                (self.highest, self.record) = (fence.0, None);
                self.holder = Some((token, end, fence.0));
            }
        }
    }

    fn done(&mut self, bench: &mut Bench, token: usize, time: u64, fence: Option<i64>) {
        let fence = fence.map(|delta| self.highest.saturating_add_signed(delta).max(1));
        let words = match fence {
            Some(fence) => std::format!("{} DONE {time} FENCE {fence}", TOKENS[token]),
            None => std::format!("{} DONE {time}", TOKENS[token]),
        };
        let answer = bench.release_words(&words);
        let holds = self.holder.filter(|(holder, ..)| *holder == token);
        let recorded = self.record.is_some_and(|(by, ..)| by == token);
        assert_eq!(answer, Ok(holds.is_some() || recorded));
        if let Some((_, _, granted)) = holds {
            let fence = fence.unwrap_or(granted);
            self.record = Some((token, bench.now + time * 1000, fence));
            (self.holder, self.highest) = (None, self.highest.max(fence));
        }
    }
}

proptest! {
    #[test]
    fn a_lock_is_held_or_done_or_free_and_fences_rise(steps in steps()) {
        let (mut bench, mut model) = (Bench::new(), Model::default());
        for step in steps {
            model.see(bench.now);
            match step {
                Step::Acquire { token, again, ttl } => model.acquire(&mut bench, token, again, ttl),
                Step::Done { token, time, fence } => model.done(&mut bench, token, time, fence),
                Step::Release { token } => {
                    let held = model.holder.take_if(|(holder, ..)| *holder == token);
                    assert_eq!(bench.release(TOKENS[token]), held.is_some());
                }
                Step::Break => {
                    let there = model.holder.is_some() || model.record.is_some();
                    assert_eq!(bench.break_lock(None), usize::from(there));
                    (model.holder, model.record) = (None, None);
                }
                Step::Remove => {
                    bench.host.take(&KEY.to_owned());
                    bench.removed(KEY, Fence(model.highest));
                    (model.holder, model.record) = (None, None);
                }
                Step::Pass { micros } => bench.pass(micros),
            }
            model.see(bench.now);
            let holder = model.holder.map(|(token, ..)| TOKENS[token]).unwrap_or_default();
            assert_eq!(bench.holders_now(), holder);
        }
    }
}
