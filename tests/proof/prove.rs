//! The proof at length, and one run of the simulation as a story.
//!
//! - `prove model`: the model, larger than each run of the tests has time for.
//! - `prove sim SEED`: that run of the simulation, event by event.
//! - `prove sim FIRST COUNT`: COUNT runs, from the seed FIRST on.
//! - `prove others COUNT`: the verdicts of judges by other authors on so many lives of dlock, and of broken
//!   locks.
//! - `prove NAME …`: the same of other [`Lives`].

use std::process::ExitCode;
use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::model::{DISTINCT, EXCLUSIVE, ORDERED, SHARED, Setting};
use dlock_proof::others;
use dlock_proof::sim::{self, Broken, Lives, Outcome, Tally};
use stateright::{Checker, Model};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| args.get(place).and_then(|word| word.parse::<u64>().ok());
    let name = args.first().map(String::as_str);
    let lives = Lives::ALL.iter().find(|(called, _)| name == Some(called)).map(|(_, lives)| *lives);
    match (lives, number(1), number(2)) {
        (Some(lives), Some(seed), None) => story(seed, sim::run(lives, seed, Sound, None, true)),
        (Some(lives), Some(first), Some(count)) => {
            counted(|accuse| sim::runs(lives, first..first + count, &Sound, None, accuse))
        }
        (None, Some(count), None) if name == Some("others") => judged(count),
        _ if name == Some("model") => model(),
        _ => {
            let names = Lives::ALL.map(|(name, _)| name).join("|");
            eprintln!(
                "prove model | prove {names} SEED | prove … FIRST COUNT | prove others COUNT"
            );
            ExitCode::FAILURE
        }
    }
}

fn judged(count: u64) -> ExitCode {
    let mut sound = true;
    for (name, kind) in Lives::ALL {
        let verdict = others::sound(kind, count);
        println!("dlock ({name}): {verdict}");
        sound &= verdict.accused == 0;
    }
    for (name, lock) in others::LOCKS {
        println!("{name}: {}", lock.verdict(count));
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn model() -> ExitCode {
    let two = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]);
    let shared = Setting::new(Sound, &[SHARED, EXCLUSIVE]);
    let three = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE, EXCLUSIVE]);
    let settings = [
        ("nodes that have counted far", Setting { counted: 4, ..two.clone() }),
        ("nodes far apart", Setting { counted: 4, reach: 2, ..two.clone() }),
        ("two crashes", Setting { crashes: 2, ..two.clone() }),
        ("two readers", Setting::new(Sound, &[SHARED, SHARED])),
        ("a request that arrives twice", Setting { twice: 1, ..two.clone() }),
        ("a request twice and far apart", Setting { twice: 1, reach: 0, ..two.clone() }),
        (
            "a request twice and a crash",
            Setting { twice: 1, crashes: 1, counted: 0, ..two.clone() },
        ),
        ("a reader, a writer and a request twice", Setting { twice: 1, counted: 0, ..shared }),
    ];
    for (what, setting) in settings {
        let begun = Instant::now();
        let checker = setting.checker().threads(2).spawn_dfs().join();
        println!("{what}: all of {} states, {:.1?}", checker.unique_state_count(), begun.elapsed());
        checker.assert_properties();
    }
    let five = Setting { nodes: 5, counted: 0, ..two };
    let sound =
        partly("five nodes", five) && partly("three attempts", Setting { counted: 0, ..three });
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Searches part of a space that is too large for a whole search. True if the rules held as far as it went.
fn partly(what: &str, setting: Setting<Sound>) -> bool {
    let begun = Instant::now();
    let checker = setting.checker().threads(2).target_state_count(STATES).spawn_dfs().join();
    let (states, time) = (checker.unique_state_count(), begun.elapsed());
    println!("{what}: the first {states} states, {time:.1?}");
    let found = checker.discoveries();
    [DISTINCT, ORDERED].iter().all(|property| !found.contains_key(property))
}

const STATES: usize = 30_000_000;

fn story(seed: u64, outcome: Outcome) -> ExitCode {
    match outcome.broken {
        None => ExitCode::SUCCESS,
        Some(broken) => {
            println!("seed {seed}: broken: {}: {}", broken.promise, broken.how);
            ExitCode::FAILURE
        }
    }
}

fn counted(runs: impl FnOnce(fn(u64, Broken)) -> Tally) -> ExitCode {
    let begun = Instant::now();
    let tally = runs(|seed, broken| {
        println!("seed {seed}: broken: {}: {}", broken.promise, broken.how);
    });
    println!("{tally} in {:.1?}", begun.elapsed());
    if tally.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
