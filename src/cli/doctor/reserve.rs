//! Checks of the servers of a fail-over: replicas, and the Sentinels that decide it.

use super::check::{USUAL_TTL_MS, shown};
use super::facts::{Asked, NodeAnswers, Reserve};
use super::finding::Finding;

/// All findings about one node.
pub fn findings(reserve: &Reserve) -> Vec<Finding> {
    let mut all = no_replica(reserve);
    for (name, said) in &reserve.replicas {
        let found = match said {
            Err(why) => vec![silent("replica", why)],
            Ok(answers) => of_replica(answers, reserve),
        };
        all.extend(found.into_iter().map(|finding| finding.about(name)));
    }
    all.extend(unfenced(reserve));
    all.extend(of_sentinels(&reserve.sentinels));
    all
}

fn silent(what: &str, why: &str) -> Finding {
    Finding::warning("stand_by", format!("this {what} cannot be asked: {why}"))
        .why("it cannot help when the primary fails")
        .fix("start it, give this user the right, or correct what it tells of its address (announce-ip; or ?map= in the node's address)")
}

fn no_replica(reserve: &Reserve) -> Vec<Finding> {
    let finding = || {
        Finding::warning("stand_by", "there is no replica")
            .why("nothing takes over when the primary fails")
            .fix("REPLICAOF host port, on another server with the module")
            .about(&reserve.primary.name)
    };
    let are_told = reserve.sentinels.iter().any(|(_, said)| said.is_ok());
    (are_told && reserve.replicas.is_empty()).then(finding).into_iter().collect()
}

fn of_replica(replica: &NodeAnswers, reserve: &Reserve) -> Vec<Finding> {
    if !replica.has_module() {
        let finding =
            Finding::error("replica_module", "this replica runs without the module dlock")
                .why("it has no locks and no records of done ones; and when it is promoted, no client gets a lock")
                .fix(
                    "stop it; remove its RDB and AOF, so that it receives all data anew; loadmodule \
                     /path/to/libdlock.so (in its configuration file); start it",
                );
        return vec![finding];
    }
    let mut found = Vec::new();
    if replica.info("master_link_status").is_some_and(|status| status != "up") {
        found.push(
            Finding::warning("replica_link", "this replica is cut off from its primary")
                .why("it does not receive locks; leases that it has not received are lost when it is promoted")
                .fix("look at its log; check masterauth, masteruser and the network"),
        );
    }
    let Ok(primary) = &reserve.primary.answers else { return found };
    let theirs = |name: &str| replica.config(name);
    let differing = primary.settings().filter_map(|(name, value)| {
        let other = theirs(name).filter(|other| *other != value)?;
        Some((name, value, other))
    });
    for (name, value, other) in differing {
        let words = format!("{name} is {other} at this replica, and {value} at its primary");
        let finding = match name == MAX_TTL {
            true => Finding::error("replica_setting", words)
                .why("a replica that is promoted before its primary has told it how long leases run assumes its own setting: two holders are possible, or nothing is granted for too long"),
            false => Finding::warning("replica_setting", words)
                .why("after a promotion other rules hold than before"),
        };
        found.push(finding.fix(format!(
            "CONFIG SET {name} {value} there, and the same in its configuration file"
        )));
    }
    found
}

/// Finds a primary that would go on granting while it is cut off from its replicas.
fn unfenced(reserve: &Reserve) -> Option<Finding> {
    let needed = reserve.primary.answers.as_ref().ok()?.config_number(MIN)?;
    let words = "min-replicas-to-write is 0, though it can be replaced by a replica";
    let why = "cut off from the others, it goes on granting to the clients that reach it, beside the promoted replica";
    let fix = "set min-replicas-to-write and min-replicas-max-lag on all its servers, as docs/fail-over.md says; with one replica only, locks then need both";
    let finding = match reserve.replicas.len() {
        _ if needed != 0 => return None,
        0 => return None,
        1 => Finding::hint("old_primary", words),
        _ => Finding::warning("old_primary", words),
    };
    Some(finding.why(why).fix(fix).about(&reserve.primary.name))
}

fn of_sentinels(sentinels: &[(String, Asked)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, said) in sentinels {
        match said {
            Err(why) => found.push(silent("Sentinel", why).about(name)),
            Ok(fields) => {
                let number = |field: &str| fields.get(field)?.parse::<i64>().ok();
                let others = number("num-other-sentinels").unwrap_or(0);
                let down_after = number("down-after-milliseconds").unwrap_or(0);
                let of_this = [too_few(others + 1), slow(down_after)].into_iter().flatten();
                found.extend(of_this.map(|finding| finding.about(name)));
            }
        }
    }
    found
}

fn too_few(known: i64) -> Option<Finding> {
    (known < 3).then(|| {
        Finding::warning("sentinels", format!("this Sentinel knows of {known} in all"))
            .why("a majority of the Sentinels has to agree on a fail-over: with fewer than three none may be away")
            .fix("start three, on machines that do not fail together")
    })
}

fn slow(down_after: i64) -> Option<Finding> {
    (down_after * 3 > USUAL_TTL_MS).then(|| {
        let found = format!("down-after-milliseconds is {down_after}");
        Finding::warning("sentinels", found)
            .why(format!("a primary that is gone is not replaced before; leases of {} may end meanwhile, though their holders work", shown(USUAL_TTL_MS)))
            .fix("SENTINEL SET NAME down-after-milliseconds 5000, at each of them")
    })
}

const MIN: &str = "min-replicas-to-write";
const MAX_TTL: &str = "dlock.max-ttl";
