//! Every defect that the rules could have, one at a time: the model or the simulation must notice it.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use dlock_core::quorum::{Rules, Sound};
use dlock_proof::bent::{Bend, Bent};
use dlock_proof::model::{EXCLUSIVE, Setting, node};
use dlock_proof::sim::{self, Lives, Tally};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

#[test]
fn every_mutant_is_killed() {
    let mut survivors = Vec::new();
    let mut killed = 0;
    let mut report = |mutant: String, begun: Instant, by: Option<String>| match by {
        Some(by) => {
            killed += 1;
            println!("{mutant}: killed by {by} ({:.1?})", begun.elapsed());
        }
        None => {
            println!("{mutant}: SURVIVES ({:.1?})", begun.elapsed());
            survivors.push(mutant);
        }
    };
    for bend in Bend::ALL {
        let begun = Instant::now();
        let name = format!("{bend:?}");
        let two = Setting::new(Bent(bend), &[EXCLUSIVE, EXCLUSIVE]);
        let by = match bend {
            Bend::ProposesAnew => dearer(Lives::InOrder, |tally| tally.claims, &Bent(bend), None),
            _ if bend.is_about_fences() => search(two),
            _ => live(&name, bend.shows_in(), Bent(bend), None),
        };
        report(name, begun, by);
    }
    for flaw in node::Flaw::ALL {
        let begun = Instant::now();
        let two = Setting { flaw: Some(flaw), ..Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]) };
        let by = match flaw {
            node::Flaw::ForgetsCounter => search(Setting { crashes: 1, ..two }),
            node::Flaw::ExtendsAbove => search(Setting { twice: 1, ..two }),
            _ => search(two),
        };
        report(format!("node {flaw:?}"), begun, by);
    }
    for flaw in sim::Flaw::ALL {
        let begun = Instant::now();
        let name = format!("{flaw:?}");
        let by = match flaw {
            sim::Flaw::TellsNobody => {
                dearer(Lives::InOrder, |tally| tally.hand_overs, &Sound, Some(flaw))
            }
            sim::Flaw::IgnoresProposals => {
                dearer(Lives::Any, |tally| tally.calm_claims, &Sound, Some(flaw))
            }
            flaw => live(&name, flaw.shows_in(), Sound, Some(flaw)),
        };
        report(format!("server {name}"), begun, by);
    }
    println!("{killed} mutants killed");
    assert!(survivors.is_empty(), "nothing notices {survivors:?}");
}

/// The promise that a model finds broken, if there is one.
fn search<M>(model: M) -> Option<String>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_dfs().join();
    let found = checker.discoveries();
    let properties = checker.model().properties();
    let mut violated = properties.into_iter().filter(|property| {
        property.expectation == Expectation::Always && found.contains_key(property.name)
    });
    violated.next().map(|property| format!("the model: {}", property.name))
}

/// The promise that the simulation finds broken in lives of this kind: first in the life that [`SHOWN_BY`] names.
fn live<R: Rules>(mutant: &str, lives: Lives, rules: R, flaw: Option<sim::Flaw>) -> Option<String> {
    let known = SHOWN_BY.iter().find(|(shown, _)| *shown == mutant).map(|(_, seed)| *seed);
    { known.into_iter().chain(0..SEEDS) }.find_map(|seed| {
        let broken = sim::run(lives, seed, rules.clone(), flaw, false).broken?;
        let stale =
            if known.is_some_and(|known| known != seed) { ", SHOWN_BY IS STALE" } else { "" };
        Some(format!("seed {seed} of {lives:?}: {}{stale}", broken.promise))
    })
}

/// Finds a mutant that breaks no promise, but takes a second round trip more than twice as often.
fn dearer<R: Rules + Sync>(
    lives: Lives,
    counted: fn(Tally) -> (u64, u64),
    rules: &R,
    flaw: Option<sim::Flaw>,
) -> Option<String> {
    let share = |tally| {
        let (all, twice) = counted(tally);
        1_000 * twice / all
    };
    let sound = share(sim::runs(lives, MANY, &Sound, None, |_, _| {}));
    let bent = share(sim::runs(lives, MANY, rules, flaw, |_, _| {}));
    (bent > 2 * sound).then(|| format!("{bent} of 1,000 take two round trips instead of {sound}"))
}

/// The seeds of lives that show rare mutants. A change of the simulation makes another life of a seed: then the
/// search finds a new one, and prints that this one is stale.
const SHOWN_BY: [(&str, u64); 30] = [
    ("AddsRecords", 190),
    ("AnswersRestored", 401),
    ("BeginsAtAnswer", 109),
    ("CountsMended", 3528),
    ("EvictsFirstEnd", 12),
    ("ExtendsEnded", 159),
    ("ForgetsAhead", 4),
    ("ForgetsFinal", 5),
    ("HandsNothingOn", 46),
    ("KeepsConnections", 124),
    ("RecordsBeginAnew", 1265),
    ("NamesNoFence", 287),
    ("NoDrift", 11),
    ("PromisesByClock", 8),
    ("PromotedWithoutFence", 46),
    ("QuarantineOfDataSet", 40),
    ("QuarantineOfWhatArrived", 242),
    ("QuarantineWithoutLag", 457),
    ("RefusesNobody", 3),
    ("RenewsNoAsker", 759),
    ("ReplicaEnds", 418),
    ("ReplicaGrants", 75),
    ("RestsEqually", 1040),
    ("Shortens", 2205),
    ("TellsTooEarly", 5),
    ("TrustsOwnBound", 462),
    ("UntilLatest", 112),
    ("UntoldWithoutFence", 130),
    ("VouchesAlways", 1058),
    ("VouchesNever", 1180),
];
const SEEDS: u64 = 3_000;
/// Enough for a share.
const MANY: std::ops::Range<u64> = 0..50;
