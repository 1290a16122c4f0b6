//! Lives of the simulation before judges by other authors: dlock's lives, and lives of broken locks. The
//! judges must accuse the latter.

use dlock_proof::others::{self, LOCKS};
use dlock_proof::sim::Lives;

/// The lives of dlock of each kind.
const SEEN: u64 = 30;
/// A broken lock shows in one of this many lives.
const MOST: u64 = 1_000;

#[test]
fn others_find_nothing_in_the_lives_of_dlock() {
    for (name, kind) in Lives::ALL {
        let verdict = others::sound(kind, SEEN);
        println!("dlock, prove {name}: {verdict}");
        assert_eq!(verdict.accused, 0, "{name}");
        assert!(verdict.holds > 100, "{name}: {verdict}");
    }
}

#[test]
fn others_accuse_every_broken_lock() {
    for (name, lock) in LOCKS {
        let accused = lock.first_accused(MOST);
        println!("{name}: {accused:?}");
        assert!(accused.is_some(), "{name}: nobody accuses {MOST} lives");
    }
}
