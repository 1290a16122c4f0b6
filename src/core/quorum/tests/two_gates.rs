//! Two gates: clients that see different nodes queue at different ones.

use super::*;

/// Node 0 was away when it came, so it queues at node 1. There its turn has come.
fn at_the_second_gate() -> Trial {
    let mut trial = asked(Forever);
    to_the_second_gate(&mut trial);
    trial
}

fn to_the_second_gate(trial: &mut Trial) {
    trial.hears(0, Answer::Unreachable);
    trial.hears(1, Answer::Denied);
    trial.grants(2, 100);
    trial.sends("0F 2R 1A101wt");
    trial.waited(1, Answer::Turn(Fence(119)));
    trial.sends("0A120w 2A120w 1A120w");
}

#[test]
fn of_two_gates_the_first_decides() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P");
    trial.hears(0, Answer::Answered);
    trial.sends("0F 1R 2F 0A121wt");
}

#[test]
fn a_gate_before_ones_own_that_is_not_there_decides_nothing() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P");
    trial.hears(0, Answer::Silent);
    trial.sends("");
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.wins(120);
}

/// A client that has the second gate, and cannot reach the first. Returns the milliseconds that it keeps
/// its turn.
fn keeps_its_turn(trial: &mut Trial) -> u64 {
    let begun = trial.now;
    loop {
        let Machine::Trying(acquisition) = &mut trial.machine else { unreachable!() };
        let Some(send) = acquisition.poll() else {
            trial.wakes();
            continue;
        };
        match send.node {
            _ if matches!(send.ask, Ask::Release { .. }) => return (trial.now - begun) / 1_000,
            0 => trial.hear(0, send.id, Answer::Unreachable),
            1 => trial.hear(1, send.id, Answer::Granted(Fence(120))),
            _ => {}
        }
        assert!(trial.now - begun < TIMEOUT * 200_000, "it waits for ever");
    }
}

#[test]
fn a_node_that_is_gone_does_not_put_off_the_last_resort() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Unreachable);
    assert!(keeps_its_turn(&mut trial) <= 16 * TIMEOUT);
}

#[test]
fn whoever_has_given_up_its_turn_often_keeps_the_next_one_for_longer_but_not_for_hours() {
    let mut trial = at_the_second_gate();
    let Machine::Trying(acquisition) = &mut trial.machine else { unreachable!() };
    acquisition.back_off.resorts = 50;
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Unreachable);
    let kept = keeps_its_turn(&mut trial);
    assert!(kept > 64 * TIMEOUT && kept <= 129 * TIMEOUT, "{kept} ms");
}

#[test]
fn an_outage_before_does_not_put_off_the_last_resort_either() {
    let mut trial = asked(Forever);
    for _ in 0..8 {
        (0..3).for_each(|node| trial.hears(node, Answer::Unreachable));
        trial.sends("0F 1F 2F");
        trial.wakes();
        trial.sends("0A100 1A100 2A100");
    }
    to_the_second_gate(&mut trial);
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Unreachable);
    assert!(keeps_its_turn(&mut trial) <= 16 * TIMEOUT);
}

#[test]
fn the_first_gate_decides_though_nobody_else_is_there() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(2, Answer::Unreachable);
    trial.sends("2A120w");
    trial.waited(2, Answer::Unreachable);
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P");
    trial.hears(0, Answer::Answered);
    trial.sends("0F 1R 2F 0A121wt");
}
