//! Broken locks before judges by other authors. Each lock has the same lives; some show the defect.

use std::fmt;

use dlock_core::quorum::Sound;
use dlock_judges::verdict::{Promise, holds};
use dlock_judges::{Line, judge};

use super::bent::{Bend, Bent};
use super::sim::{self, Flaw, Lives};

/// A lock that is like dlock but for one rule.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// With one of the clients' rules bent.
    Bent(Bend),
    /// With a flaw of its servers.
    Flawed(Flaw),
}

/// Locks that are broken so that clients can see it. Each name says how.
pub const LOCKS: [(&str, Lock); 10] = [
    ("half of the nodes are enough", Lock::Bent(Bend::HalfIsEnough)),
    ("a lease begins when its answer comes", Lock::Bent(Bend::BeginsAtAnswer)),
    ("all clocks run alike", Lock::Bent(Bend::NoDrift)),
    ("a node with a smaller fence counts", Lock::Bent(Bend::CountsBelow)),
    ("no quarantine after a crash", Lock::Flawed(Flaw::NoQuarantine)),
    ("none after the loss of a disk", Lock::Flawed(Flaw::NewGrants)),
    ("fences begin anew after a crash", Lock::Flawed(Flaw::ForgetsCounter)),
    ("a release compares no token", Lock::Flawed(Flaw::ReleasesAnybody)),
    ("a waiter that was cut off loses what it has", Lock::Flawed(Flaw::EndsWithConnection)),
    ("a node is whatever its address leads to", Lock::Flawed(Flaw::TrustsAddresses)),
];

/// The verdict on many lives of one lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// The lives.
    pub lives: u64,
    /// Their holds.
    pub holds: usize,
    /// The lives with a violation.
    pub accused: u64,
    /// The locks whose holders did not exclude each other.
    pub exclusion: usize,
    /// The other locks with fences that did not grow.
    pub fences: usize,
}

impl Lock {
    /// The verdict on the first lives of this lock that show its defect.
    #[must_use]
    pub fn verdict(self, lives: u64) -> Verdict {
        verdict(lives, |seed| self.history(seed))
    }

    /// The first life of this lock that a judge accuses, among this many.
    #[must_use]
    pub fn first_accused(self, lives: u64) -> Option<u64> {
        (0..lives).find(|seed| !judge(&self.history(*seed)).is_empty())
    }

    fn history(self, seed: u64) -> Vec<Line> {
        match self {
            Lock::Bent(bend) => sim::history(Lives::Any, seed, Bent(bend), None),
            Lock::Flawed(flaw) => sim::history(flaw.shows_in(), seed, Sound, Some(flaw)),
        }
    }
}

/// The verdict on the first lives of dlock, of one kind.
#[must_use]
pub fn sound(kind: Lives, lives: u64) -> Verdict {
    verdict(lives, |seed| sim::history(kind, seed, Sound, None))
}

fn verdict(lives: u64, life: impl Fn(u64) -> Vec<Line>) -> Verdict {
    let mut verdict = Verdict { lives, ..Verdict::default() };
    for seed in 0..lives {
        let lines = life(seed);
        let accused = judge(&lines);
        let of = |promise| accused.iter().filter(|one| one.promise == promise).count();
        verdict.holds += holds(&lines);
        verdict.accused += u64::from(!accused.is_empty());
        verdict.exclusion += of(Promise::Exclusion);
        verdict.fences += of(Promise::Fences);
    }
    verdict
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { lives, holds, accused, exclusion, fences } = self;
        write!(
            f,
            "{accused} of {lives} lives accused, with {holds} holds: {exclusion} locks for exclusion, {fences} \
             for fences"
        )
    }
}
