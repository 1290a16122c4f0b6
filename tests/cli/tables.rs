//! Tables on a terminal: long keys, wide letters, and few columns.

use harness::Quorum;

use crate::run_terminal::on_a_terminal;

/// The lines that a terminal of this width shows.
fn shown(quorum: &Quorum, width: usize, command: &str) -> Vec<String> {
    let typed = on_a_terminal(
        quorum,
        &format!("stty rows 24 cols {width}; $DLOCK --node-timeout 5s {command}"),
    );
    let said = typed.ended().with_code(0);
    said.out.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_long_key_leaves_the_other_columns_whole() {
    let quorum = Quorum::start(1);
    let long = format!("{}\n", "k".repeat(300));
    for key in [&long, "鍵鍵", "job"] {
        quorum[0].client().run_args(&["DLOCK.ACQUIRE", key, "alice", "60000", "META", "host=a"]);
    }
    let lines = shown(&quorum, 80, "ls");
    assert_eq!(lines.len(), 4, "{lines:?}");
    let [heading, job, long, wide] = [0, 1, 2, 3].map(|line| lines[line].chars());
    // A wide letter takes two columns.
    let before = heading.clone().collect::<String>().find("MODE").expect("there is a heading");
    assert!(job.collect::<String>()[before..].starts_with("exclusive  1"), "{lines:?}");
    assert!(long.skip(before).collect::<String>().starts_with("exclusive  1"), "{lines:?}");
    assert!(wide.skip(before - 2).collect::<String>().starts_with("exclusive  1"), "{lines:?}");
    assert!(lines[2].contains("k…  exclusive") && lines[2].chars().count() <= 80, "{lines:?}");
}

#[test]
fn a_narrow_terminal_gets_a_line_for_each_cell_and_a_pipe_gets_everything() {
    let quorum = Quorum::start(1);
    let meta = format!("host={}", "a".repeat(100));
    quorum[0].client().run_args(&["DLOCK.ACQUIRE", "job", "alice", "60000", "META", &meta]);
    let lines = shown(&quorum, 50, "inspect job");
    assert!(lines.iter().any(|line| line.starts_with("WHAT    holds")), "{lines:?}");
    assert!(lines.contains(&format!("META    {meta}")), "{lines:?}");
    let lines = shown(&quorum, 50, "inspect job | cat");
    assert!(lines[0].starts_with("NODE") && lines[1].ends_with(&meta), "{lines:?}");
}
