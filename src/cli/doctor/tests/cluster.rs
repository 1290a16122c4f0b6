//! Servers that were given as one cluster.

use super::*;

#[test]
fn the_primaries_of_a_cluster_are_one_node() {
    let mut servers = three();
    for facts in &mut servers {
        (facts.node, facts.in_cluster) = (0, true);
        let answers = facts.answers.as_mut().unwrap();
        answers.info.as_mut().unwrap().set("cluster_enabled", "1");
    }
    assert_eq!(findings(&servers), []);
    servers[1].answers = Err("it is down".to_owned());
    let found: Vec<Finding> = findings(&servers);
    let checks: Vec<&str> = found.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["unreachable"], "{found:#?}");
}

#[test]
fn a_member_of_a_cluster_is_no_node_by_itself() {
    let cluster = |known: &'static str| {
        with(move |node| {
            node.info.as_mut().unwrap().set("cluster_enabled", "1");
            let lines = format!("cluster_state:ok\ncluster_known_nodes:{known}");
            node.cluster = Ok(Fields::of_lines(&lines));
        })
    };
    assert_only(&cluster("6"), Error, "cluster", "cluster-enabled no");
    assert_eq!(findings(&cluster("1")), []);
    let alone = findings(&cluster("6")[1..2]);
    assert_eq!((alone.len(), alone[0].severity), (1, Warning));
}
