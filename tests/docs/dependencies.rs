//! The reason for each dependency.

use std::fs;

use crate::page;

const MANIFESTS: [&str; 11] = [
    "Cargo.toml",
    "src/bindings/Cargo.toml",
    "src/client/Cargo.toml",
    "src/core/Cargo.toml",
    "src/module/Cargo.toml",
    "src/nodejs/Cargo.toml",
    "src/python/Cargo.toml",
    "tests/Cargo.toml",
    "tests/harness/Cargo.toml",
    "tests/judges/Cargo.toml",
    "tests/proof/Cargo.toml",
];

#[test]
fn each_dependency_has_a_reason() {
    let page = page::read("docs/contributing/map.md").text;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let named: Vec<&str> = rows.flat_map(|crates| crates.split(", ")).collect();
    for manifest in MANIFESTS {
        let text = fs::read_to_string(page::top().join(manifest)).expect("the manifest is there");
        for name in dependencies(&text) {
            assert!(named.contains(&name), "{manifest}: {name} is not in docs/contributing/map.md");
        }
    }
}

/// The crates of others that a manifest names.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let entries = manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        }
        inside && line.contains('=') && !line.starts_with('#')
    });
    let names = entries.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.starts_with("dlock-") && *name != "harness")
}
