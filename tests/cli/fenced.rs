//! `dlock fenced MARK -- COMMAND`.

use harness::{Kind, Server, program};

use crate::{address, dlock, on_two_servers, servers};

on_two_servers! {
    fn a_late_holder_is_told_and_changes_nothing(kind: Kind) {
        let server = servers(kind, 1);
        let fenced = |fence: &str, command: &[&str]| {
            dlock(&server, &[&["fenced", "--fence", fence, "mark", "--"][..], command].concat())
        };
        assert_eq!(fenced("7", &["SET", "a", "1"]).with_code(0).out, "OK\n");
        assert_eq!(fenced("7", &["GET", "a"]).with_code(0).out, "1\n");
        let late = fenced("6", &["SET", "a", "2"]).with_code(75);
        assert!(late.err.contains("a later holder has been there, with fence 7"), "{}", late.err);
        assert_eq!((late.out.as_str(), late.err.lines().count()), ("", 1));
        assert_eq!(server[0].run("GET a").text(), "1");
        assert_eq!(fenced("8", &[]).with_code(0).out, "OK\n");
        assert_eq!(server[0].run("DLOCK.MARK mark").int(), 8);
        assert_eq!(fenced("8", &["NOPE"]).with_code(65).out, "");
        assert_eq!(fenced("8", &["GET", "nothing"]).with_code(0).out, "\n");
    }
}

#[test]
fn run_passes_its_fence_on() {
    let nodes = servers(Kind::Redis82, 3);
    let data = Server::start(Kind::Redis82);
    let script = format!(
        "\"$DLOCK\" --node-timeout {} fenced --data {} '{{a}}:mark' -- SET a $DLOCK_FENCE",
        program::PATIENT,
        address(&data)
    );
    let mut command = program::command(&crate::addresses(&nodes));
    command.env("DLOCK", program::path()).args(["run", "a", "-c", &script]);
    program::run(&mut command).with_code(0);
    let fence = data.run("DLOCK.MARK {a}:mark").int();
    assert_eq!(data.run("GET a").text(), fence.to_string());
    program::run(&mut command).with_code(0);
    assert!(data.run("DLOCK.MARK {a}:mark").int() > fence);
    let password = format!("redis://:secret@{}", address(&data));
    data.run("CONFIG SET requirepass secret");
    let mut command = program::command(&crate::addresses(&nodes));
    command.env("DLOCK_DATA", password).args(["fenced", "--fence", "1", "{a}:mark"]);
    program::run(&mut command).with_code(75);
}

#[test]
fn wrong_usage_has_its_code() {
    let nodes = servers(Kind::Redis82, 2);
    dlock(&nodes, &["fenced", "mark", "--", "GET", "a"]).with_code(64);
    dlock(&nodes, &["fenced", "--fence", "1 2", "mark", "--", "GET", "a"]).with_code(64);
    let which = dlock(&nodes, &["fenced", "--fence", "7", "mark", "--", "GET", "a"]).with_code(64);
    assert!(which.err.contains("--data"), "{}", which.err);
    let away = ["fenced", "--fence", "7", "--data", "127.0.0.1:1", "mark", "--", "GET", "a"];
    dlock(&nodes, &away).with_code(69);
}
