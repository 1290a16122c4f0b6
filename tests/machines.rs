//! Files that generators of clients read, made from the table of commands.
//!
//! `src/commands/*.json` have the form of Valkey's modules. To write them anew:
//! `DLOCK_WRITE=1 cargo test -p dlock-tests --test machines`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dlock_core::command::doc::SINCE;
use dlock_core::command::{Arg, Command, Doc, Kind, Touch};
use serde_json::{Value, json};

#[test]
fn the_files_for_machines_are_made_from_the_table_of_commands() {
    let docs = || Command::ALL.iter().map(|command| command.doc());
    let want: BTreeMap<PathBuf, String> = docs()
        .map(|doc| {
            (format!("{}.json", doc.name.to_lowercase()), json!({ doc.name: described(doc) }))
        })
        .map(|(name, value)| (top().join("src/commands").join(name), pretty(&value)))
        .collect();
    if std::env::var_os("DLOCK_WRITE").is_some() {
        let _ = fs::remove_dir_all(top().join("src/commands"));
        fs::create_dir(top().join("src/commands")).expect("there is room");
        want.iter().for_each(|(path, text)| fs::write(path, text).expect("there is room"));
    }
    let there = fs::read_dir(top().join("src/commands")).expect("the folder is there").count();
    let is_old =
        |(path, text): &(&PathBuf, &String)| fs::read_to_string(path).ok().as_ref() != Some(text);
    let old: Vec<_> = want.iter().filter(is_old).map(|(path, _)| path).collect();
    let again =
        "out of date; write them anew: DLOCK_WRITE=1 cargo test -p dlock-tests --test machines";
    assert!(
        old.is_empty() && there == want.len(),
        "{old:#?} or other files beside them are {again}"
    );
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the tree")
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("it is JSON") + "\n"
}

/// A command as generators of clients read it.
fn described(doc: &Doc) -> Value {
    let mut flags = upper(doc.flags);
    flags.retain(|flag| flag != "GETKEYS-API");
    let mut described = json!({
        "summary": doc.summary,
        "complexity": doc.complexity,
        "group": "dlock",
        "module_since": SINCE,
        "arity": doc.arity,
        "command_flags": flags,
        "acl_categories": upper(&format!("{} dlock", doc.acl)),
    });
    if let Some(touch) = doc.key {
        described["key_specs"] = json!([{
            "flags": touches(touch, doc.flags.contains("getkeys-api")),
            "begin_search": {"index": {"pos": key(doc)}},
            "find_keys": {"range": {"lastkey": 0, "step": 1, "limit": 0}},
        }]);
    }
    if !doc.args.is_empty() {
        described["arguments"] = doc.args.iter().map(argument).collect();
    }
    described
}

fn argument(arg: &Arg) -> Value {
    // Names differ within a command: WAIT and KEEP both have an `ms`.
    let name = arg.word.map_or_else(|| arg.name.to_owned(), str::to_lowercase);
    let mut described = json!({ "name": name, "type": match arg.kind {
        Kind::Key => "key",
        Kind::Text | Kind::Rest => "string",
        Kind::Number => "integer",
        Kind::Word => "pure-token",
        Kind::OneOf(_) => "oneof",
    } });
    if let Some(word) = arg.word {
        described["token"] = word.into();
    }
    if arg.name != name {
        described["display"] = arg.name.into();
    }
    match arg.kind {
        Kind::Key => described["key_spec_index"] = 0.into(),
        Kind::Rest => described["multiple"] = true.into(),
        Kind::OneOf(args) => described["arguments"] = args.iter().map(argument).collect(),
        _ => (),
    }
    if arg.optional {
        described["optional"] = true.into();
    }
    described
}

fn upper(words: &str) -> Vec<String> {
    words.replace("deny-oom", "denyoom").to_uppercase().split(' ').map(str::to_owned).collect()
}

fn touches(touch: Touch, has_more_keys: bool) -> Vec<&'static str> {
    let mut flags = match touch {
        Touch::Reads => vec!["RO", "ACCESS"],
        Touch::Makes => vec!["RW", "ACCESS", "INSERT"],
        Touch::Changes => vec!["RW", "ACCESS", "UPDATE"],
        Touch::Removes => vec!["RW", "ACCESS", "DELETE"],
    };
    if has_more_keys {
        flags.push("INCOMPLETE");
    }
    flags
}

/// The position of the key; 0: no key.
fn key(doc: &Doc) -> usize {
    doc.args.iter().position(|arg| arg.kind == Kind::Key).map_or(0, |at| at + 1)
}
