//! Some locks, whether they hurt or not: when somebody asks, and never more than a page.

use dlock_client::Inspection;
use dlock_client::operator;
use redis::{Value, pipe};

use super::Watch;
use crate::locks::glob;
use crate::nodes::ask::Trouble;
use crate::nodes::link::Link;
use crate::nodes::reply;

/// Some locks.
#[derive(Default)]
pub struct Sample {
    pub locks: Vec<(Vec<u8>, Inspection)>,
    /// There may be more.
    pub is_part: bool,
}

impl Watch {
    /// Some locks of all nodes, with this in their keys.
    pub async fn some_locks(&mut self, part: &[u8]) -> Result<Sample, Trouble> {
        let mut all: Option<Sample> = None;
        let mut trouble: Trouble = "there is no node".into();
        for server in &mut self.servers {
            let listed = match &mut server.link {
                Ok(link) => some_locks(link, part).await,
                Err(trouble) => Err(trouble.clone()),
            };
            match listed {
                Ok(sample) => all.get_or_insert_default().add(sample),
                Err(other) => trouble = other,
            }
        }
        all.ok_or(trouble)
    }
}

impl Sample {
    /// Adds the list of another node. A lock that both have is listed once.
    fn add(&mut self, other: Sample) {
        self.is_part |= other.is_part;
        self.locks.extend(other.locks);
        self.locks.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.locks.dedup_by(|(one, _), (other, _)| one == other);
        self.is_part |= self.locks.len() > LISTED;
        self.locks.truncate(LISTED);
    }
}

async fn some_locks(link: &mut Link, part: &[u8]) -> Result<Sample, Trouble> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let (mut cursor, mut steps) = (b"0".to_vec(), 0);
    let is_part = loop {
        let mut scan = pipe();
        scan.cmd("SCAN").arg(&cursor).arg("TYPE").arg("dlock-key").arg("COUNT").arg(AT_ONCE);
        scan.arg("MATCH").arg(glob::containing(part));
        let answers = link.run_all(scan).await?;
        let (next, found) = page(answers.first())?;
        keys.extend(found);
        (cursor, steps) = (next, steps + 1);
        if cursor == b"0" {
            break keys.len() > LISTED;
        }
        if keys.len() >= LISTED || steps == STEPS {
            break true;
        }
    };
    keys.sort();
    keys.dedup();
    keys.truncate(LISTED);
    let mut questions = pipe();
    for key in &keys {
        questions.cmd("DLOCK.INSPECT").arg(key);
    }
    let answers = if keys.is_empty() { Vec::new() } else { link.run_all(questions).await? };
    let found = keys.into_iter().zip(&answers);
    // A user that may not look at a lock, or comes when it has ended, does not see it.
    let locks = found.filter_map(|(key, answer)| Some((key, operator::inspection(answer).ok()??)));
    Ok(Sample { locks: locks.collect(), is_part })
}

fn page(answer: Option<&Value>) -> Result<(Vec<u8>, Vec<Vec<u8>>), Trouble> {
    if let Some(Value::ServerError(error)) = answer {
        return Err(Trouble::said(error));
    }
    let parts = answer.and_then(Value::as_sequence);
    let Some([cursor, keys]) = parts else { return Err(NONSENSE.into()) };
    let keys = keys.as_sequence().ok_or(NONSENSE)?;
    let cursor = reply::bytes(cursor).ok_or(NONSENSE)?;
    Ok((cursor, keys.iter().filter_map(reply::bytes).collect()))
}

/// Number of keys in one step of a scan, and the limit of steps: no step takes long.
const AT_ONCE: usize = 500;
const STEPS: usize = 40;
/// Limit of listed locks.
const LISTED: usize = 200;
const NONSENSE: &str = "its reply to SCAN cannot be understood";
