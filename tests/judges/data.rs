//! A model of a register that is read and then written under a lock: if no other write comes in between, that is one step.

use std::collections::BTreeSet;

use crate::history::{Asked, Heard, Line};
use crate::verdict::{Call, Object};

/// The register, which begins empty.
#[derive(Clone, Debug)]
pub struct Register;

/// A value that was read, and the one that was written in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    read: String,
    wrote: String,
}

impl Object for Register {
    type State = String;
    type Step = Change;

    fn start() -> String {
        String::new()
    }

    fn take(state: &String, step: &Change) -> Option<String> {
        (*state == step.read).then(|| step.wrote.clone())
    }
}

/// The changes of one register. A change without an answer may have happened, from its request on. If another
/// step has read its value, it has; otherwise it is treated as if it had not.
pub fn calls(lines: &[&Line]) -> Vec<Call<Change>> {
    let changes = || {
        lines.iter().filter_map(|line| match &line.asked {
            Asked::Change { read, wrote } => Some((line, read, wrote)),
            _ => None,
        })
    };
    let seen: BTreeSet<&String> = changes().map(|(_, read, _)| read).collect();
    let mut calls = Vec::new();
    for (line, read, wrote) in changes() {
        let to = match (line.heard, line.returned) {
            (Heard::Done, Some(returned)) => returned,
            (Heard::Nothing, _) if seen.contains(wrote) => u64::MAX,
            _ => continue,
        };
        let step = Change { read: read.clone(), wrote: wrote.clone() };
        calls.push(Call { step, from: line.invoke, to });
    }
    calls
}
