//! Programs to copy: a page shows exactly the tested program, and each program is on a page.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::program;

use crate::page;

/// The folders of the programs to copy, each with its pages. One of these names each program.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("docs/examples", &["docs/any-client.md"]),
    ("docs/agent", &["docs/agent.md", "docs/leader-election.md", "docs/php.md"]),
];

/// The pages that show a whole program, and how they mark it.
const SHOWN: [(&str, &str, &str); 2] = [
    ("docs/any-client.md", "```python\n", "docs/examples/redis_py.py"),
    ("docs/php.md", "```php\n", "docs/agent/phpredis_renewed.php"),
];

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
    for (page, mark, file) in SHOWN {
        let (page, file) = (page::read(page), page::read(file));
        let shown = page.text.split(mark).nth(1).and_then(|rest| rest.split("```").next());
        let (from, to) = (file.path.display(), page.path.display());
        assert!(shown == Some(&file.text), "copy {from} into {to}");
    }
}

#[test]
fn each_program_is_named_by_its_page() {
    for (folder, pages) in PROGRAMS {
        let text: String = pages.iter().map(|page| page::read(page).text).collect();
        for file in files(folder) {
            let link = format!("]({})", file.strip_prefix("docs").expect("it is there").display());
            assert!(text.contains(&link), "no link to {file:?}");
        }
    }
}

#[test]
fn each_program_takes_its_token_from_the_systems_generator() {
    for file in PROGRAMS.iter().flat_map(|(folder, _)| files(folder)) {
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

/// The files of a folder, seen from the top of the tree.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(page::top().join(folder)).expect("it is there");
    let path = |entry: fs::DirEntry| PathBuf::from(folder).join(entry.file_name());
    entries.map(|entry| path(entry.expect("it can be read"))).collect()
}
