//! `dlock ready`: asks whether the nodes grant locks, or waits until they do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dlock_client::operator::Fields;
use futures_util::future::join_all;
use redis::cmd;
use serde_json::json;

use crate::global::Global;
use crate::nodes::ask::{Answers, Node, Nodes, Trouble};
use crate::say::duration::{self, shown};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::{stderr, stdout};
use crate::signals::Signals;

/// Wait until the nodes grant locks: between two restarts, and for probes
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Wait at most this long: 30, 500ms, 2m [default: look once]
    #[arg(short, long, value_name = "SECS", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// A majority of the nodes is enough
    #[arg(short, long)]
    majority: bool,
}

/// One server's report.
struct Readiness {
    /// The id of its server.
    id: String,
    /// Reason why it refuses; `None`: it grants locks.
    refuses: Option<String>,
    /// Limit of lease lengths.
    bound: Duration,
}

/// A server's name, and its report.
type ServerAnswer = (String, Result<Readiness, Trouble>);

/// Observations of the nodes until now.
#[derive(Default)]
struct Observed {
    /// For each node that grants locks, the time since which it does.
    granting: BTreeMap<String, Instant>,
    /// The longest lease bound of any node. A node that has just started has forgotten its own.
    bound: Duration,
}

impl Args {
    /// Sets the exit code: are the nodes ready?
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let nodes = Nodes::of(global)?;
        let mut signals = Signals::listen()?;
        tokio::select! {
            exit = self.watch(&nodes, global) => exit,
            signal = signals.next_that_ends() => Ok(Exit::Signal(signal)),
        }
    }

    async fn watch(&self, nodes: &Nodes, global: &Global) -> Result<Exit, Failure> {
        let (begun, mut seen) = (Instant::now(), Observed::default());
        let (apart, mut told) = (nodes.apart(), BTreeSet::new());
        let needed = if self.majority { nodes.majority() } else { nodes.count() };
        loop {
            let each = join_all(apart.iter().map(|node| node.each(look))).await;
            let looks = each.iter().flatten();
            if let Some((one, other)) = same(looks.clone()) {
                let words = format_args!("{one} and {other} are the same node, which has one vote");
                return Err(Failure::usage(words));
            }
            let bounds = looks.clone().filter_map(|(_, look)| look.as_ref().ok());
            seen.bound = bounds.map(|look| look.bound).fold(seen.bound, Duration::max);
            let lacking = |(name, look): &ServerAnswer| {
                let why = seen.lacks(name, look, self.wait.is_some())?;
                Some((name.clone(), why))
            };
            let lacks: BTreeMap<String, String> = looks.clone().filter_map(lacking).collect();
            // Of a cluster each primary must be ready.
            let is_ready = |node: &&Answers<Readiness>| {
                node.iter().all(|(server, _)| !lacks.contains_key(server))
            };
            let ready = each.iter().filter(is_ready).count() >= needed;
            if ready || self.wait.is_none_or(|wait| begun.elapsed() >= wait) {
                tell(looks.clone(), &lacks, global)?;
                return Ok(if ready { Exit::OK } else { exit(looks) });
            }
            for (name, why) in lacks.iter().filter(|_| global.verbose) {
                if told.insert(name.clone()) {
                    match global.json {
                        true => stderr::event(
                            &json!({"event": "waiting", "node": name, "message": why}),
                        ),
                        false => stderr::complain(format_args!("waits for {name}: {why}")),
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Observed {
    /// Returns the reason why a node is not ready. A caller that waits restarts the next node: before that,
    /// holders must renew their locks at this one, after a third of their leases.
    fn lacks(
        &mut self,
        name: &str,
        look: &Result<Readiness, Trouble>,
        for_next: bool,
    ) -> Option<String> {
        let refuses = match look {
            Ok(look) => look.refuses.clone(),
            Err(trouble) => Some(trouble.words.clone()),
        };
        if let Some(why) = refuses {
            self.granting.remove(name);
            return Some(why);
        }
        let since = self.granting.entry(name.to_owned()).or_insert_with(Instant::now);
        let left = (self.bound / 2).saturating_sub(since.elapsed());
        (for_next && !left.is_zero()).then(|| {
            format!("grants locks; holders need {} more to renew theirs there", shown(left))
        })
    }
}

async fn look(mut node: Node) -> Result<Readiness, Trouble> {
    let about = node.run(&cmd("DLOCK.NODE")).await?;
    let fields = Fields::of(&about).ok_or("its answer to DLOCK.NODE cannot be understood")?;
    if fields.text("role").as_deref() == Some("agent") {
        return Err(Trouble::agent());
    }
    let length = |name: &str| fields.millis(name).unwrap_or_default();
    let refuses = match fields.text("granting").unwrap_or_default().as_str() {
        "yes" if fields.text("durable").as_deref() == Some("failing") => Some(
            "cannot write its state file: it refuses longer leases now, and all within a minute"
                .to_owned(),
        ),
        "yes" => None,
        "quarantine" => Some(format!(
            "in quarantine: it may have forgotten locks, and grants none for {} more",
            shown(length("quarantine-ms"))
        )),
        "replica" => Some("a replica, which grants nothing".to_owned()),
        "not-durable" => Some("grants nothing: it cannot write its state file".to_owned()),
        code => Some(format!("grants nothing: the server answers writes with {code}")),
    };
    Ok(Readiness {
        id: fields.text("node-id").unwrap_or_default(),
        refuses,
        bound: length("lease-bound-ms"),
    })
}

/// Two entries of the list that lead to one server.
fn same<'l>(looks: impl Iterator<Item = &'l ServerAnswer>) -> Option<(&'l str, &'l str)> {
    let mut known = BTreeMap::new();
    let mut named = looks.filter_map(|(name, look)| Some((&look.as_ref().ok()?.id, name)));
    named.find_map(|(id, name)| Some((&known.insert(id, name)?[..], &name[..])))
}

/// Reports the reason for each node that is not ready.
fn tell<'l>(
    looks: impl Iterator<Item = &'l ServerAnswer>,
    lacks: &BTreeMap<String, String>,
    global: &Global,
) -> Result<(), Failure> {
    for (name, _) in looks {
        let why = lacks.get(name);
        if global.json {
            stdout::json(&json!({"node": name, "ready": why.is_none(), "why": why}))?;
        } else if let Some(why) = why {
            stderr::complain(format_args!("{name}: {why}"));
        }
    }
    Ok(())
}

/// The exit code: one for states that may pass, others for lasting ones.
fn exit<'l>(looks: impl Iterator<Item = &'l ServerAnswer>) -> Exit {
    let lasting = looks.filter_map(|(_, look)| look.as_ref().err()).map(|one| one.kind);
    let lasting = lasting.filter(|kind| kind.exit() != Exit::NO_QUORUM);
    lasting.min().map_or(Exit::NO_QUORUM, Kind::exit)
}

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);

const NOTES: &str = "\
A rolling restart, one node after the other (docs/upgrading.md says why each has to be waited for):
  systemctl restart redis@1 && dlock ready --wait 2m && systemctl restart redis@2 && …

With --wait a node counts when dlock has seen it grant locks for half of the lease bound (15 s for \
leases of 30 s): by then holders have renewed their locks there. 2m is enough for leases of up to a \
minute. Without --wait, as a readiness probe, a node that grants counts at once:
  dlock ready --nodes redis://localhost:6379
A node in quarantine is not dead: do not make a liveness probe of this.

Exit codes: 0 all nodes grant locks (--majority: more than half); 69 some do not; 77, 78 one refuses \
the user, or has no module.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waits_has_seen_each_node_grant_for_half_of_the_bound() {
        let grants = Readiness { id: String::new(), refuses: None, bound: Duration::ZERO };
        let (grants, long_ago) = (Ok(grants), Instant::now().checked_sub(Duration::from_secs(16)));
        let granting = [("old".to_owned(), long_ago.unwrap())].into();
        let mut seen = Observed { granting, bound: Duration::from_secs(30) };
        assert!(seen.lacks("new", &grants, true).is_some());
        assert!(seen.lacks("new", &grants, false).is_none(), "a probe looks once");
        assert!(seen.lacks("old", &grants, true).is_none());
    }
}
