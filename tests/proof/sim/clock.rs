//! Clocks that do not run alike, and do not agree on the time of day.

use dlock_core::{Instant, Time};

use super::dice::Dice;

/// The two clocks of a machine.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The monotonic clock is this much fast, in millionths.
    rate: i64,
    /// The monotonic clock's time at the beginning.
    start: u64,
    /// The wall clock's time at the beginning.
    wall: u64,
    /// The largest error of the wall clock, if it is kept right.
    kept: Option<u64>,
}

impl Clock {
    /// Makes a clock: up to half a per cent fast or slow, and some minutes wrong.
    pub fn new(dice: &mut Dice) -> Clock {
        let rate = dice.one_of(&[-5000, 5000, 0, -3000, 2500]);
        let start = dice.between(1_000_000, 9_000_000_000);
        let mut clock = Clock { rate, start, wall: 0, kept: None };
        clock.step(dice);
        clock
    }

    /// Sets the wall clock anew.
    pub fn step(&mut self, dice: &mut Dice) {
        if let Some(most) = self.kept {
            return self.set(dice, most);
        }
        let wrong = dice.one_of(&[0, 0, 1_000_000, 60_000_000, 300_000_000, 1_000_000_000]);
        self.wall = UNIX - dice.between(0, wrong) + dice.between(0, wrong);
    }

    /// Keeps the wall clock right from now on: its error is less than `most`.
    pub fn set(&mut self, dice: &mut Dice, most: u64) {
        self.wall = UNIX + dice.between(0, most);
        self.kept = Some(most);
    }

    /// Puts the wall clock this much ahead, until it is set.
    pub fn lead(&mut self, by: u64) {
        self.wall += by;
    }

    /// The time here.
    pub fn time(&self, now: u64) -> Time {
        let passed = self.passed(now);
        Time { now: Instant(self.start + passed), unix: self.wall + passed }
    }

    /// The latest moment when the clock here reaches this time.
    pub fn when(&self, at: Instant) -> u64 {
        let mut passed = at.0.saturating_sub(self.start);
        passed = (i128::from(passed) * 1_000_000 / i128::from(1_000_000 + self.rate)) as u64;
        while self.passed(passed) + self.start < at.0 {
            passed += 1;
        }
        passed
    }

    fn passed(&self, now: u64) -> u64 {
        (i128::from(now) * i128::from(1_000_000 + self.rate) / 1_000_000) as u64
    }
}

/// The true time of day at the beginning, in microseconds.
pub const UNIX: u64 = 1_790_000_000_000_000;
