//! Two gates: clients that see different nodes queue at different ones.

use super::*;

/// Node 0 was away when it came, so it queues at node 1, and has its turn there.
fn at_the_second_gate() -> Trial {
    let mut trial = asked(Forever);
    trial.hears(0, Answer::Unreachable);
    trial.hears(1, Answer::Denied);
    trial.grants(2, 100);
    trial.sends("0F 2R 1A101wt");
    trial.waited(1, Answer::Turn(Fence(119)));
    trial.sends("0A120w 2A120w 1A120w");
    trial
}

#[test]
fn a_client_that_withdraws_queues_at_the_first_node_that_is_there() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Denied);
    trial.sends("0A120w");
    trial.wakes();
    trial.sends("0F 1R 2F");
    trial.wakes();
    trial.sends("0A121wt");
}

#[test]
fn but_at_none_that_is_not_there() {
    let mut trial = at_the_second_gate();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Silent);
    trial.wakes();
    trial.sends("0F 1R 2F");
    trial.wakes();
    trial.sends("1A121wt");
}
