//! The targets of links.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use harness::program;
use tempfile::TempDir;

use crate::page::{self, Page};

#[test]
fn every_link_leads_somewhere() {
    let pages = page::all();
    let mut broken = Vec::new();
    for page in &pages {
        for Link { line, words, target } in links(page) {
            if let Err(why) = follow(page, &words, &target) {
                broken.push(format!("{}:{line}: {target}: {why}", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn every_page_of_docs_is_two_clicks_from_the_readme() {
    let pages = page::all();
    let linked_from = |page: &Page| -> Vec<PathBuf> {
        links(page).iter().map(|link| path_of(page, &link.target)).collect()
    };
    let first = linked_from(&page::read("README.md"));
    let clicked = pages.iter().filter(|page| first.contains(&page.path));
    let second: Vec<PathBuf> = clicked.flat_map(linked_from).collect();
    for Page { path, .. } in pages.iter().filter(|page| page.path.starts_with("docs")) {
        assert!(first.contains(path) || second.contains(path), "{}", path.display());
    }
}

#[test]
fn the_readme_can_be_read_in_one_sitting() {
    let lines = page::read("README.md").text.lines().count();
    assert!(lines <= 120, "{lines} lines");
}

struct Link {
    line: usize,
    words: String,
    target: String,
}

/// Its links and pictures, outside of examples.
fn links(page: &Page) -> Vec<Link> {
    let mut found = Vec::new();
    let mut in_example = false;
    for (index, line) in page.text.lines().enumerate() {
        in_example ^= line.trim_start().starts_with("```");
        if in_example {
            continue;
        }
        let parts: Vec<&str> = line.split("](").collect();
        for pair in parts.windows(2) {
            let target = pair[1].split(')').next().unwrap_or_default().to_owned();
            let words = pair[0].rsplit('[').next().unwrap_or_default().to_owned();
            found.push(Link { line: index + 1, words, target });
        }
    }
    found
}

fn follow(page: &Page, words: &str, target: &str) -> Result<(), String> {
    if target.starts_with("https://") {
        return Ok(());
    }
    let path = path_of(page, target);
    let file = page::top().join(&path);
    if !file.exists() {
        return Err("there is no such file".into());
    }
    if let Some(name) = name_in_code(words)
        && file.is_file()
        && !std::fs::read_to_string(&file).is_ok_and(|text| text.contains(name))
    {
        return Err(format!("the file has no {name}"));
    }
    match target.split_once('#') {
        Some((_, anchor)) if !anchors(&page::read(path)).contains(&anchor.to_owned()) => {
            Err("there is no such heading".into())
        }
        _ => Ok(()),
    }
}

/// The name in a link's words, of a test, say: the linked file must have it.
fn name_in_code(words: &str) -> Option<&str> {
    let name = words.strip_prefix('`')?.strip_suffix('`')?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

/// The file that a link of the page leads to, from the top of the tree.
fn path_of(page: &Page, target: &str) -> PathBuf {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() {
        return page.path.clone();
    }
    let joined = page.path.parent().unwrap_or(Path::new("")).join(file);
    let mut path = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{target} leads out of the tree"),
            part => path.push(part),
        }
    }
    path
}

/// The places of a page that a link can name: its headings, as they are spelled in addresses, and
/// its anchors.
fn anchors(page: &Page) -> Vec<String> {
    let lines = page.text.lines();
    lines
        .filter_map(|line| match line.split_once("<a name=\"") {
            Some((_, rest)) => rest.split('"').next().map(str::to_owned),
            None => line.starts_with('#').then(|| slug(line.trim_start_matches('#').trim())),
        })
        .collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// An archive is packed, and opened, as a user has it.
#[test]
fn links_of_packaged_pages_lead_to_packaged_files() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let run = |command: &mut Command| {
        let said = program::run(command.current_dir(folder.path()));
        assert_eq!(said.code, Some(0), "{said:#?}");
    };
    run(Command::new("python3").arg(page::top().join("scripts/packaged_docs.py")).arg("packed"));
    run(Command::new("tar").args(["--create", "--gzip", "--file", "archive.tar.gz", "packed"]));
    fs::remove_dir_all(folder.path().join("packed")).expect("the folder can be removed");
    run(Command::new("tar").args(["--extract", "--gzip", "--file", "archive.tar.gz"]));
    let opened = folder.path().join("packed");
    let (mut followed, mut broken) = (0, Vec::new());
    for Page { path, .. } in page::all() {
        let Ok(text) = fs::read_to_string(opened.join(&path)) else { continue };
        let packaged = Page { path, text };
        for link in links(&packaged).iter().filter(|link| !link.target.contains("://")) {
            followed += 1;
            if !opened.join(path_of(&packaged, &link.target)).exists() {
                broken.push(format!("{}:{}: {}", packaged.path.display(), link.line, link.target));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert!(followed > 100, "only {followed} were found");
}
