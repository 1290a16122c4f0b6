//! Tests of the page, and of the files in its folder.

use std::fs;
use std::time::Duration;

use harness::Kind;
use serde_json::json;

use super::{PICTURES, command, prepare, tables, write};
use crate::contention::{Contest, Setting};
use crate::measure::Compared;
use crate::nodes::Ping;
use crate::peers::{BARE, Crowd, PEERS, Waits};
use crate::report::{Report, Row, Target};

const KIND: Kind = Kind::Redis82;

fn contest(name: &'static str, nodes: usize, ms: f64, cut_off: f64) -> Contest {
    let waits = json!({
        "library": format!("{name} 1.0"),
        "waits_ms": [[ms, ms], [ms / 2.0]],
        "cut_off_ms": [cut_off],
        "hold_ms_mean": 5.0,
        "seconds": 1.0,
        "failures": 0,
    });
    let waits = Waits::read(&waits).unwrap();
    let crowd = Crowd { clients: 2, hold: Duration::from_millis(5), seconds: 1 };
    let setting = Setting { kind: KIND, nodes, crowd, each_way: None };
    Contest { setting, name, waits, ping: None }
}

fn report() -> Report {
    let mut report = Report::new(true);
    let compared = Compared { ours: 2.0, theirs: 1.0, ratio: 2.0 };
    report.group(KIND, tables::GROWTH);
    let row = |what, against, target| Row::compared(what, against, "µs", compared, target);
    report.add(KIND, row("much of it", "little of it", Target::AtMost(1.5)));
    report.group(KIND, tables::CONTENTION);
    report.add(KIND, Row::alone("Jain's index", "", 1.0, Target::AtLeast(0.99)));
    report.add(KIND, row("grants", "some lock", Target::None));
    for nodes in [1, 5] {
        let some_lock = contest("some lock", nodes, 900.0, 2700.0);
        report.contests(vec![contest("dlock", nodes, 10.0, 1.0), some_lock]);
    }
    report.group(KIND, tables::DISTANCE);
    let mut away = contest("dlock", 1, 10.0, 1.0);
    away.setting.each_way = Some(Duration::from_millis(5));
    away.ping = Some(Ping { ms: 10.0, wanted: 10.1 });
    report.contests(vec![away]);
    report.group(KIND, tables::UNCONTENDED);
    report.add(KIND, row("acquire", BARE.name, Target::None));
    report.add(KIND, row("acquire", PEERS[0].name, Target::None));
    report
}

#[test]
fn a_page_shows_every_picture_and_every_figure_once() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path()).unwrap();
    write(folder.path(), &report(), &[(KIND, "8.2.3".to_owned())], &[]).unwrap();
    let page = fs::read_to_string(folder.path().join("results.md")).unwrap();
    for name in PICTURES {
        assert!(page.contains(&format!("({name}.svg)")), "{name} is not on the page:\n{page}");
        let picture = fs::read_to_string(folder.path().join(format!("{name}.svg"))).unwrap();
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    }
    assert!(page.contains("redis-8.2 (8.2.3)"), "{page}");
    assert!(page.contains("dlock 1.0, some lock 1.0"), "{page}");
    // In the table of the libraries, and not among the targets.
    assert!(page.contains("| some lock | 900 ms | ≥ 2.70 s | ≥ 270.0 |"), "{page}");
    assert!(!page.contains("| grants |"), "{page}");
    // Three turns in a second, 5 ms of each held, over links with a round trip of 10 ms.
    assert!(page.contains("| dlock | 3.000 | 1.00 | 328 ms | 32.83 | 10 ms |"), "{page}");
}

#[test]
fn a_page_names_the_targets_that_are_missed() {
    let text = tables::verdicts(&report());
    let wanted = "\n1 of 2 targets are reached; missed are:\n\n\
                  - redis-8.2: much of it (to little of it): 2.000, and not ≤ 1.5\n";
    assert_eq!(text, wanted);
}

#[test]
fn a_page_says_what_was_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report();
    report.not_measured("acquire, some lock", "it failed".to_owned());
    report.note("some lock: 3 failures, the last is: gone".to_owned());
    write(folder.path(), &report, &[], &[(KIND, tables::GROWTH)]).unwrap();
    let page = fs::read_to_string(folder.path().join("results.md")).unwrap();
    let wanted = [
        "- not measured on redis-8.2: acquire, some lock: it failed\n",
        "| acquire, some lock |  | not measured |  |\n",
        "- not yet measured on redis-8.2: Much of everything\n",
        "some lock: 3 failures, the last is: gone\n",
    ];
    for text in wanted {
        assert!(page.contains(text), "{text} is not on the page:\n{page}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_into_is_known_before() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = prepare(&file.path().join("folder")).unwrap_err();
    assert!(error.contains("folder"), "{error}");
}

#[test]
fn what_one_server_did_not_measure_stands_beside_the_figures_of_the_others() {
    let mut report = Report::new(true);
    for (kind, measured) in [(Kind::Redis70, false), (Kind::Redis82, true)] {
        report.group(kind, tables::GROWTH);
        report.attempt("it", |report| {
            assert!(measured, "too slow");
            report.add(kind, Row::alone("it", "ms", 1.0, Target::None));
        });
    }
    let table = tables::section(&report, tables::GROWTH);
    let wanted = "\n| | to | redis-7.0 | redis-8.2 | target |\n|---|---|--:|--:|--:|\n\
                  | it |  | not measured | **1.000 ms** |  |\n";
    assert_eq!(table, wanted);
}

#[test]
fn a_page_without_the_other_libraries_has_no_pictures_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report();
    report.contests.clear();
    report.sections.truncate(1);
    fs::write(folder.path().join("contention.svg"), "of a run before").unwrap();
    fs::write(folder.path().join("mine.svg"), "somebody's").unwrap();
    write(folder.path(), &report, &[], &[]).unwrap();
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["growth.svg", "mine.svg", "results.md"]);
}

#[test]
fn the_command_leaves_out_where_the_page_goes() {
    let shown = |line: &str| command(line.split_whitespace().map(str::to_owned));
    assert_eq!(shown("--page target/bench"), "make bench");
    assert_eq!(shown("--page target/bench --quick"), "make bench ARGS=--quick");
    assert_eq!(shown("--only growth --quick"), "make bench ARGS='--only growth --quick'");
}
