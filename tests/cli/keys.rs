//! Keys of any bytes, in every subcommand.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use harness::{Kind, apply, on_one_server};
use serde_json::Value;

use crate::acquire::shell_at;
use crate::{addresses, dlock, dlock_at, servers, take};

/// A key, and its text form.
const STRANGE: (&[u8], &str) = (b"job\xff\\ \x1b", r"job\xff\\ \x1b");

fn words<const N: usize>(words: [&[u8]; N]) -> [OsString; N] {
    words.map(|word| OsString::from_vec(word.to_vec()))
}

/// The fields of an object that name its key.
fn key(object: &Value) -> (&Value, &Value) {
    (&object["key"], &object["key_hex"])
}

fn shown() -> (Value, Value) {
    let hex: String = STRANGE.0.iter().map(|byte| format!("{byte:02x}")).collect();
    (STRANGE.1.into(), hex.into())
}

#[apply(on_one_server)]
fn a_command_runs_under_a_key_that_is_no_text(kind: Kind) {
    let servers = servers(kind, 1);
    let print = b"printf %s \"$DLOCK_KEY\" | od -An -tx1 | tr -d ' \\n'";
    let said = dlock(&servers, &words([b"run", b"--json", STRANGE.0, b"-c", print])).with_code(0);
    assert_eq!(said.out, shown().1, "the command gets the very bytes");
    let events: Vec<Value> =
        said.err.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name).expect("it is told");
    assert_eq!(key(of("acquired")), (&shown().0, &shown().1));
    assert_eq!(key(of("released")), (&shown().0, &shown().1));

    take(&servers, STRANGE.0, "alice", "");
    let said = dlock(&servers, &words([b"run", b"-n", STRANGE.0, b"--", b"true"])).with_code(1);
    let name = format!("lock '{}' is held", STRANGE.1);
    assert!(said.err.contains(&name), "{}", said.err);
    let escaped = ["run", "-n", "--escaped", STRANGE.1, "--", "true"];
    let said = dlock(&servers, &escaped).with_code(1);
    assert!(said.err.contains(&name), "{}", said.err);
}

#[apply(on_one_server)]
fn a_script_takes_extends_and_gives_back_a_key_that_is_no_text(kind: Kind) {
    let servers = servers(kind, 1);
    let script = r#"
        set -e
        lease=$("$DLOCK" acquire --ttl 5m "$(printf 'job\377 x')")
        eval "$lease"
        "$DLOCK" inspect "$DLOCK_KEY" > /dev/null
        "$DLOCK" extend --ttl 10m "$DLOCK_KEY" > /dev/null
        "$DLOCK" release --json "$DLOCK_KEY"
        lease=$("$DLOCK" acquire --escaped 'nul\x00')
        eval "$lease"
        "$DLOCK" extend --escaped --json "$DLOCK_KEY"
        "$DLOCK" release --escaped "$DLOCK_KEY"
    "#;
    let said = shell_at(&addresses(&servers), script).with_code(0).json();
    let released = (&Value::from(r"job\xff x"), &Value::from("6a6f62ff2078"));
    assert_eq!((key(&said[0]), &said[0]["released"]), (released, &true.into()));
    assert_eq!(said[1]["key"], "nul\0", "it is text, so it is as it is");
    assert!(said[1]["fence"].is_u64(), "{said:?}");
    assert_eq!(servers[0].run("DLOCK.NODE").at("leases").int(), 0);
}

#[apply(on_one_server)]
fn operators_see_find_and_end_a_lock_whose_key_is_no_text(kind: Kind) {
    let servers = servers(kind, 1);
    take(&servers, STRANGE.0, "alice", "META \x1b[2J");
    let seen = dlock(&servers, &["inspect", "--escaped", STRANGE.1]).with_code(0).out;
    assert!(seen.contains("\\x1b[2J") && !seen.contains('\x1b'), "{seen}");
    let listed = dlock(&servers, &["ls"]).with_code(0);
    assert!(listed.out.contains(&format!("\n{}  ", STRANGE.1)), "{}", listed.out);
    for arguments in [&["ls", "--json"][..], &["inspect", "--json", "--escaped", STRANGE.1]] {
        let said = dlock(&servers, arguments).with_code(0).json();
        assert_eq!(key(&said[0]), (&shown().0, &shown().1), "{arguments:?}");
    }
    let said = dlock(&servers, &words([b"break", b"--yes", b"--json", STRANGE.0])).with_code(0);
    let last = said.json().pop().expect("a line");
    assert_eq!((key(&last), &last["ended"]), ((&shown().0, &shown().1), &1.into()));
}

#[apply(on_one_server)]
fn a_key_may_begin_with_a_dash(kind: Kind) {
    let servers = servers(kind, 1);
    for given in [&["--key=-n"][..], &["--key", "-n"]] {
        let run = [&["run"], given, &["-c", "printf %s \"$DLOCK_KEY\""]].concat();
        assert_eq!(dlock(&servers, &run).with_code(0).out, "-n");
    }
    dlock(&servers, &["run", "a", "--key=-b", "--", "true"]).with_code(64);
    dlock(&servers, &["run", "a", "b", "--", "true"]).with_code(64);

    let said = dlock(&servers, &["acquire", "--json", "--", "-key"]).with_code(0).json();
    let token = said[0]["token"].as_str().expect("a token");
    dlock(&servers, &["inspect", "--", "-key"]).with_code(0);
    let fence = said[0]["fence"].to_string();
    dlock(&servers, &["extend", "--fence", &fence, "--", "-key", token]).with_code(0);
    dlock(&servers, &["release", "--", "-key", token]).with_code(0);
    take(&servers, b"-key", "alice", "");
    dlock(&servers, &["break", "--yes", "--", "-key"]).with_code(0);
}

/// Both in the help and in the error.
#[test]
fn the_help_tells_how_a_key_that_begins_with_a_dash_is_written() {
    for command in ["acquire", "extend", "release", "inspect", "break"] {
        let help = dlock_at(&[], &[command, "--help"]).with_code(0);
        assert!(help.out.contains("-- -key"), "{}", help.out);
        let said = dlock_at(&[], &[command, "-zebra"]).with_code(64);
        assert!(said.err.contains("'-- -zebra'") || said.err.contains("'-- -z'"), "{}", said.err);
    }
    let help = dlock_at(&[], &["run", "--help"]).with_code(0);
    assert!(help.out.contains("--key=-nightly"), "{}", help.out);
    let said = dlock_at(&[], &["run", "-zebra", "--", "true"]).with_code(64);
    assert!(said.err.contains("--key=-key"), "{}", said.err);
    assert!(!said.err.contains("'-- -z"), "that would be the command: {}", said.err);
}

#[apply(on_one_server)]
fn the_environment_of_a_command_has_escaped_keys_as_they_were_given(kind: Kind) {
    let servers = servers(kind, 1);
    let run = ["run", "--escaped", "nul\\x00", "-c", "printf %s \"$DLOCK_KEY\""];
    assert_eq!(dlock(&servers, &run).with_code(0).out, "nul\\x00");
}
