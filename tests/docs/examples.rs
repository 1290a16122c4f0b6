//! Programs to copy: a page shows exactly the tested program, and each program is on a page.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::program;

use crate::page;

/// The folder of the programs to copy.
const PROGRAMS: &str = "docs/agent";
/// The pages of these. One of them names each program.
const PAGES: [&str; 3] = ["docs/agent.md", "docs/leader-election.md", "docs/php.md"];

/// Generators of the system, which never give two processes the same token.
const RANDOM: [&str; 7] = [
    "/dev/urandom",
    "crypto/rand",
    "getrandom(",
    "random_bytes(",
    "randomBytes(",
    "secrets.",
    "SecureRandom.",
];

#[test]
fn a_program_on_a_page_is_the_file_that_is_tested() {
    let (page, file) = (page::read("docs/php.md"), page::read("docs/agent/phpredis.php"));
    let shown = page.text.split("```php\n").nth(1).and_then(|rest| rest.split("```").next());
    let (from, to) = (file.path.display(), page.path.display());
    assert!(shown == Some(&file.text), "copy {from} into {to}");
}

#[test]
fn each_program_is_named_by_its_page() {
    let text: String = PAGES.iter().map(|page| page::read(page).text).collect();
    for file in programs() {
        let link = format!("]({})", file.strip_prefix("docs").expect("it is there").display());
        assert!(text.contains(&link), "no link to {file:?}");
    }
}

#[test]
fn each_program_takes_its_token_from_the_systems_generator() {
    for file in programs() {
        let text = page::read(&file).text;
        assert!(RANDOM.iter().any(|random| text.contains(random)), "{file:?}");
    }
}

#[test]
fn a_program_without_its_agent_blames_no_other_holder() {
    let program = page::top().join("docs/agent/lock.sh");
    let said = program::run(Command::new("sh").arg(program).arg("no-such.sock"));
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(!said.err.contains("another client"), "{said:#?}");
}

/// The programs to copy, as paths from the top of the tree.
fn programs() -> Vec<PathBuf> {
    let entries = fs::read_dir(page::top().join(PROGRAMS)).expect("it is there");
    let path = |entry: fs::DirEntry| PathBuf::from(PROGRAMS).join(entry.file_name());
    entries.map(|entry| path(entry.expect("it can be read"))).collect()
}
