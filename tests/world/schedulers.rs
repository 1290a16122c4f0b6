//! The units of docs/schedulers.md, as systemd judges them.

use std::fs;
use std::process::Command;

use harness::program;
use tempfile::TempDir;

use crate::client::top;

#[test]
fn systemd_finds_the_service_and_its_timer_good() {
    let page = fs::read_to_string(top().join("docs/schedulers.md")).expect("it is there");
    let units = page.split("```ini\n").skip(1).filter_map(|rest| rest.split("```").next());
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, unit) in ["nightly.service", "nightly.timer"].iter().zip(units) {
        let program = program::path().display().to_string();
        let path = folder.path().join(name);
        fs::write(&path, unit.replace("/usr/bin/dlock", &program)).expect("there is room");
        verify.arg(path);
    }
    assert_eq!(verify.get_args().count(), 4, "the page has two units");
    let said = program::run(&mut verify);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:#?}");
}
