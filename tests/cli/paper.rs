//! `dlock completions`, `dlock man`, and the help.

use std::fs;

use tempfile::TempDir;

use crate::dlock_at;

const COMMANDS: [&str; 13] = [
    "run",
    "acquire",
    "extend",
    "release",
    "inspect",
    "ls",
    "break",
    "doctor",
    "top",
    "exporter",
    "dev",
    "completions",
    "man",
];

#[test]
fn a_shell_completes_every_command() {
    let said = dlock_at(&[], &["completions", "bash"]).with_code(0);
    assert!(COMMANDS.iter().all(|command| said.out.contains(command)), "{}", said.out);
}

#[test]
fn there_is_a_page_for_every_command() {
    let said = dlock_at(&[], &["man"]).with_code(0);
    assert!(said.out.contains(".TH dlock 1"), "{}", said.out);
    let folder = TempDir::new().expect("a temporary folder can be made");
    let pages = folder.path().join("man1");
    dlock_at(&[], &["man", "--dir", pages.to_str().unwrap()]).with_code(0);
    for command in COMMANDS {
        let page = pages.join(format!("dlock-{command}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(".SH SYNOPSIS"), "{command}: {text}");
    }
    let said = dlock_at(&[], &["man", "--dir", "/dev/null/x"]).with_code(70);
    assert!(said.err.contains("cannot write the pages into /dev/null/x: "), "{}", said.err);
}

#[test]
fn help_shows_no_password_of_the_environment() {
    let nodes = ["redis://me:hunter2@127.0.0.1".to_owned()];
    let said = dlock_at(&nodes, &["run", "--help"]).with_code(0);
    assert!(!said.out.contains("hunter2"), "{}", said.out);
}
