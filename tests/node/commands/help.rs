//! DLOCK.HELP: one line a command.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn every_command_has_one_line(kind: Kind) {
    let server = Server::start(kind);
    let help = server.run("DLOCK.HELP");
    let lines: Vec<String> = help.items().iter().map(|line| line.text()).collect();
    for command in [
        "ACQUIRE", "RELEASE", "EXTEND", "CHECK", "FENCED", "MARK", "INSPECT", "TOKENS", "BREAK",
        "NODE", "HELP",
    ] {
        let name = format!("DLOCK.{command}");
        let about = |line: &&String| line.split_whitespace().next() == Some(&name);
        assert_eq!(lines.iter().filter(about).count(), 1, "{name}: {lines:#?}");
    }
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:#?}");
}
