//! Tables on a terminal: long keys, wide letters, and few columns.

use harness::Quorum;

use crate::run_terminal::on_a_terminal;

/// The lines that a terminal of this width shows.
fn shown(quorum: &Quorum, width: usize, command: &str) -> Vec<String> {
    let typed = on_a_terminal(quorum, &format!("stty rows 24 cols {width}; $DLOCK {command}"));
    let said = typed.ended().with_code(0);
    said.out.lines().map(|line| line.trim_end().to_owned()).collect()
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
