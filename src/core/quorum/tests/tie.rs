//! Ties: each of two has nodes that the other lacks.

use super::*;

/// The next in line at node 0, which has node 2.
fn tied() -> Trial {
    tied_by(plan(3, Forever))
}

fn tied_by(plan: Plan) -> Trial {
    let mut trial = next_in_line_by(plan);
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.sends("");
    trial
}

impl Trial {
    fn acquisition(&self) -> &Acquisition {
        let Machine::Trying(acquisition) = &self.machine else { panic!("it holds") };
        acquisition
    }

    /// So much time passes until it withdraws, in milliseconds. Meanwhile node 2 renews its grant.
    fn withdraws(&mut self) -> u64 {
        let begun = self.now;
        loop {
            self.wakes();
            let sent = self.sent();
            match sent.as_str() {
                "2A1" => self.grants(2, 120),
                "" => {}
                _ => {
                    assert_eq!(sent, "0F 1F 2R");
                    return (self.now - begun) / 1_000;
                }
            }
        }
    }
}

#[test]
fn a_minority_is_withdrawn_within_a_time_out_and_the_next_attempt_has_another_token() {
    let mut trial = tied();
    let attempt = trial.acquisition().attempt();
    trial.passes(TIMEOUT / 2 - 1);
    trial.sends("");
    let more = trial.withdraws();
    assert!(more <= TIMEOUT / 2 + 1, "{more}");
    trial.wakes();
    assert_eq!(trial.acquisition().attempt(), attempt + 1);
    trial.sends("0A121wt");
}

#[test]
fn a_tie_ends_with_the_majority() {
    let mut trial = tied();
    trial.passes(TIMEOUT / 2 - 1);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn a_majority_that_is_to_be_raised_is_kept() {
    let mut trial = next_in_line();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(2, Answer::Granted(Fence(130)));
    trial.sends("1E130");
    for _ in 0..4 {
        trial.passes(TIMEOUT);
        assert!(!trial.sent().contains(['R', 'F']));
    }
}

#[test]
fn whoever_has_no_grant_keeps_its_place() {
    let mut trial = next_in_line();
    for _ in 0..100 {
        trial.passes(TIMEOUT);
        trial.sends("");
    }
}

#[test]
fn two_that_withdraw_do_not_do_so_at_the_same_moment() {
    let mut times: Vec<u64> = (1..9)
        .map(|seed| tied_by(Plan { seed: seed << 32 | seed, ..plan(3, Forever) }).withdraws())
        .collect();
    times.sort_unstable();
    times.dedup();
    assert!(times.len() > 4, "{times:?}");
}

#[test]
fn a_time_out_longer_than_the_grants_last_leaves_time_to_withdraw_them() {
    let mut trial = tied_by(Plan { timeout: Millis(10 * TTL), ..plan(3, Forever) });
    assert!(trial.withdraws() <= trial.lease.0);
}

/// The holder has nodes 0 and 1, and node 2 has forgotten it.
#[test]
fn behind_a_healthy_holder_a_waiter_withdraws_more_and_more_rarely() {
    let mut trial = tied();
    let mut kept = Vec::new();
    for _ in 0..7 {
        kept.push(trial.withdraws());
        trial.wakes();
        assert!(trial.sent().starts_with("0A"));
        trial.waited(0, Answer::Turn(Fence(119)));
        trial.sent();
        trial.waited(2, Answer::Granted(Fence(120)));
    }
    for (turn, kept) in kept.iter().enumerate() {
        let longest = TIMEOUT << turn.min(3);
        assert!((longest / 2..=longest).contains(kept), "{kept} ms in turn {turn}");
    }
}

#[test]
fn whoever_reaches_no_majority_withdraws_and_says_so() {
    let mut trial = next_in_line();
    trial.waited(0, Answer::Granted(Fence(120)));
    for _ in 0..2 {
        (1..3).for_each(|node| trial.waited(node, Answer::Unreachable));
        trial.sent();
    }
    trial.passes(TIMEOUT);
    assert!(trial.sent().contains("0R"));
    assert!(trial.acquisition().missing_since().is_some());
    trial.wakes();
    assert_eq!(trial.sent().matches('A').count(), 3, "it asks all nodes");
}
