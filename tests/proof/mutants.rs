//! Everything that could be wrong with the rules, one at a time: the model or the simulation must
//! notice it.

use std::time::Instant;

use dlock_core::quorum::{Rules, Sound};
use dlock_proof::bent::{Bend, Bent};
use dlock_proof::model::{EXCLUSIVE, Setting, node};
use dlock_proof::sim::{self, Lives};
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
        let two = Setting::new(Bent(bend), &[EXCLUSIVE, EXCLUSIVE]);
        let by = match bend {
            Bend::ProposesAnew => costs_in_order(&Bent(bend)),
            Bend::RestsEqually => live(Lives::AtAnyGate, Bent(bend), None),
            Bend::KeepsBehind => live(Lives::BesideTheDeaf, Bent(bend), None),
            _ if bend.is_about_fences() => search(two),
            _ => live(Lives::Any, Bent(bend), None),
        };
        report(format!("{bend:?}"), begun, by);
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
        let by = match flaw {
            sim::Flaw::TellsNobody => slower(flaw),
            sim::Flaw::IgnoresProposals => costs(&Sound, Some(flaw)),
            flaw => live(flaw.shows_in(), Sound, Some(flaw)),
        };
        report(format!("server {flaw:?}"), begun, by);
    }
    println!("{killed} mutants killed");
    assert!(survivors.is_empty(), "nothing notices {survivors:?}");
}

/// What the model finds.
fn search<R>(setting: Setting<R>) -> Option<String>
where
    R: Rules + std::hash::Hash + Eq + Send + Sync + 'static,
{
    let checker = setting.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_dfs().join();
    let found = checker.discoveries();
    let properties = checker.model().properties();
    let mut violated = properties.into_iter().filter(|property| {
        property.expectation == Expectation::Always && found.contains_key(property.name)
    });
    violated.next().map(|property| format!("the model: {}", property.name))
}

/// What the simulation finds in lives of this kind.
fn live<R: Rules + Sync>(lives: Lives, rules: R, flaw: Option<sim::Flaw>) -> Option<String> {
    let known = KNOWN.into_iter().filter(|_| lives == Lives::Any);
    known.chain(0..SEEDS).find_map(|seed| {
        let broken = sim::run(lives, seed, rules.clone(), flaw, false).broken?;
        Some(format!("seed {seed} of {lives:?}: {}", broken.promise))
    })
}

/// Whether it breaks no promise, but a lock goes round slower.
fn slower(flaw: sim::Flaw) -> Option<String> {
    let share = |(all, late)| 100 * late / all;
    let late = |flaw| share(sim::runs(Lives::InOrder, 0..150, &Sound, flaw, |_, _| {}).hand_overs);
    let (sound, flawed) = (late(None), late(Some(flaw)));
    let how = format!("{flawed} % of hand-overs take two round trips instead of {sound} %");
    (flawed > 2 * sound).then_some(how)
}

/// Whether it breaks no promise, but makes claims dearer than they are: by their second rounds.
fn costs<R: Rules + Sync>(rules: &R, flaw: Option<sim::Flaw>) -> Option<String> {
    let share = |(claims, raised)| 100 * raised / claims;
    let sound = share(sim::runs(Lives::Any, 0..150, &Sound, None, |_, _| {}).calm_claims);
    let flawed = share(sim::runs(Lives::Any, 0..150, rules, flaw, |_, _| {}).calm_claims);
    let noticed = flawed > 2 * sound;
    noticed.then(|| format!("{flawed} % of claims take two rounds instead of {sound} %"))
}

/// The same, where nothing fails: slices end there, too, while a lock is held for long.
fn costs_in_order<R: Rules + Sync>(rules: &R) -> Option<String> {
    let share = |(claims, raised)| 1_000 * raised / claims;
    let sound = share(sim::runs(Lives::InOrder, 0..150, &Sound, None, |_, _| {}).claims);
    let flawed = share(sim::runs(Lives::InOrder, 0..150, rules, None, |_, _| {}).claims);
    let noticed = flawed > 2 * sound;
    noticed.then(|| format!("{flawed} of 1,000 claims take two rounds instead of {sound}"))
}

/// The lives that have killed mutants before are tried first. A change of the simulation makes other
/// lives of them: whoever finds this test slow takes new ones from what it prints.
const KNOWN: [u64; 7] = [33, 34, 209, 367, 2349, 2372, 2765];
const SEEDS: u64 = 3_000;
