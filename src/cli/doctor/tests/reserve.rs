//! The checks of replicas and Sentinels.

use super::super::facts::{Asked, Reserve};
use super::super::reserve;
use super::*;

fn replica(number: u32) -> (String, Result<NodeAnswers, String>) {
    let mut answers = good(number).answers.unwrap();
    answers.info.as_mut().unwrap().set("master_link_status", "up");
    (format!("replica{number}"), Ok(answers))
}

fn sentinel(number: u32) -> (String, Asked) {
    let said = "down-after-milliseconds:5000\nfailover-timeout:60000\n\
                num-other-sentinels:2";
    (format!("sentinel{number}"), Ok(Fields::of_lines(said)))
}

/// A node without problems.
fn whole() -> Reserve {
    let mut primary = good(1);
    let config = primary.answers.as_mut().unwrap().config.as_mut().unwrap();
    config.set("min-replicas-to-write", "1");
    Reserve {
        primary,
        replicas: vec![replica(1), replica(2)],
        sentinels: (1..=3).map(sentinel).collect(),
    }
}

/// Asserts that there is one finding, with this name and these words.
#[track_caller]
fn finds(severity: Severity, check: &str, words: &str, change: impl Fn(&mut Reserve)) {
    let mut reserve = whole();
    change(&mut reserve);
    let found = super::super::finding::merged(reserve::findings(&reserve));
    assert_eq!(found.len(), 1, "{found:#?}");
    let finding = &found[0];
    assert_eq!((finding.severity, finding.check), (severity, check), "{finding:#?}");
    assert!(finding.found.contains(words) && !finding.fix.is_empty(), "{finding:#?}");
}

fn of_replica(reserve: &mut Reserve) -> &mut NodeAnswers {
    reserve.replicas[1].1.as_mut().unwrap()
}

#[test]
fn replicas_that_cannot_take_over() {
    assert_eq!(reserve::findings(&whole()), []);
    finds(Error, "replica_module", "without the module", |node| {
        of_replica(node).node = Err("ERR unknown command".to_owned());
    });
    finds(Warning, "replica_link", "cut off", |node| {
        of_replica(node).info.as_mut().unwrap().set("master_link_status", "down");
    });
    finds(Warning, "replica_setting", "dlock.quarantine is off", |node| {
        of_replica(node).config.as_mut().unwrap().set("dlock.quarantine", "off");
    });
    // With one replica only, the fix makes locks need both.
    finds(Hint, "old_primary", "min-replicas-to-write is 0", |node| {
        let primary = node.primary.answers.as_mut().unwrap();
        primary.config.as_mut().unwrap().set("min-replicas-to-write", "0");
        node.replicas.pop();
    });
}

#[test]
fn too_few_sentinels() {
    finds(Warning, "sentinels", "knows of 2 in all", |node| {
        node.sentinels.pop();
        for (_, said) in &mut node.sentinels {
            said.as_mut().unwrap().set("num-other-sentinels", "1");
        }
    });
}
