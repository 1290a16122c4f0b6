//! All checks: facts in, findings out. [`node`], [`limits`] and [`server`] check single nodes, and [`set`]
//! checks all of them together.

use super::facts::{Facts, NodeAnswers};
use super::finding::{Finding, merged};
use super::{limits, node, server, set};

/// Returns all findings, the worst first.
pub fn findings(nodes: &[Facts]) -> Vec<Finding> {
    let mut all = Vec::new();
    for facts in nodes {
        match &facts.answers {
            Err(why) => all.push(unreachable(why).about(&facts.name)),
            Ok(answers) => {
                let found = of_one(answers);
                all.extend(found.into_iter().map(|finding| finding.about(&facts.name)));
            }
        }
    }
    all.extend(set::CHECKS.iter().flat_map(|check| check(nodes)));
    merged(all)
}

fn of_one(answers: &NodeAnswers) -> Vec<Finding> {
    // Other findings would only hide that the server cannot be a node.
    let is_node = answers.has_module() && !answers.is_replica() && !answers.is_agent();
    let checks = if is_node {
        [node::BASICS, node::CHECKS, server::CHECKS].concat()
    } else {
        node::BASICS.to_vec()
    };
    let found = checks.iter().filter_map(|check| check(answers));
    found.chain(limits::findings(answers).filter(|_| is_node)).collect()
}

fn unreachable(why: &str) -> Finding {
    Finding::error("unreachable", format!("it cannot be asked: {why}"))
        .why("every lock needs the answer of a majority of the nodes; this one counts as a no")
        .fix("start it, or correct its address or password in DLOCK_NODES or --nodes")
}
