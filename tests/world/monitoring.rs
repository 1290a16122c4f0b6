//! docs/monitoring, as the tools that read it judge it: promtool and systemd.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::exporter::Exporter;
use harness::{Kind, Server, program};
use tempfile::TempDir;

use crate::{installed, top};

/// A file of docs/monitoring.
pub fn file(name: &str) -> String {
    let path = top().join("docs/monitoring").join(name);
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn promtool_has_nothing_against_the_metrics() {
    let server = Server::start(Kind::Redis82);
    let exporter = Exporter::start(&[format!("127.0.0.1:{}", server.port())], &[]);
    server.run("DLOCK.ACQUIRE job:42 alice 60000");
    let _bob = server.waiter("DLOCK.ACQUIRE job:42 bob 60000 WAIT 0");
    harness::eventually("the hot key is seen", || {
        exporter.metrics().iter().any(|line| line.starts_with("dlock_hot_waiting{"))
    });
    let text = exporter.get("/metrics").body;
    let said = promtool(Path::new("."), &["check", "metrics"], &text);
    assert_eq!(said, "", "promtool has something against them");
}

#[test]
fn promtool_finds_the_configuration_and_the_rules_good() {
    let folder = top().join("docs/monitoring");
    let said = promtool(&folder, &["check", "config", "--lint-fatal", "prometheus.yml"], "");
    assert!(said.contains("prometheus.yml is valid"), "{said}");
    let said = promtool(&folder, &["check", "rules", "--lint-fatal", "alerts.yml"], "");
    assert!(said.contains("8 rules found"), "{said}");
}

/// Each alert: its condition, its text, and the absence of it.
#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let cases = top().join("tests/world/alerts.test.yml");
    fs::write(folder.path().join("alerts.yml"), file("alerts.yml")).expect("there is room");
    fs::copy(&cases, folder.path().join("alerts.test.yml")).expect("there is room");
    let said = promtool(folder.path(), &["test", "rules", "alerts.test.yml"], "");
    assert!(said.contains("SUCCESS"), "{said}");
    let cases = fs::read_to_string(cases).expect("it is there");
    for line in file("alerts.yml").lines() {
        let Some(alert) = line.trim().strip_prefix("- alert: ") else { continue };
        assert!(cases.contains(&format!("alertname: {alert}\n")), "{alert} is tested");
    }
}

#[test]
fn systemd_finds_the_unit_good_and_safe() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let program = program::path().display().to_string();
    let unit = file("dlock-exporter.service").replace("/usr/bin/dlock", &program);
    assert!(unit.contains(&program), "{unit}");
    let path = folder.path().join("dlock-exporter.service");
    fs::write(&path, unit).expect("there is room");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&path);
        let said = program::run(&mut command);
        assert_eq!(said.code, Some(0), "{said:#?}");
        said
    };
    // The page of the manual is installed with the program.
    assert_eq!(analyze(&["verify", "--man=no"]).err, "");
    // 10 is a service that may do everything.
    analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]);
}

/// The output of promtool, which must end with 0.
#[track_caller]
fn promtool(folder: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(installed("prometheus/usr/bin/promtool"));
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is there: scripts/world.sh");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it is ours");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("it prints text");
    assert!(output.status.success(), "{}\n{said}\n{input}", output.status);
    said
}
