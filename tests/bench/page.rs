//! The page of results: `results.md`, and the pictures beside it.
//!
//! - [`tables`]: the figures;
//! - [`bars`] and [`curves`]: the pictures, drawn with [`paint`];
//! - [`machine`]: what it was measured on.

mod bars;
mod curves;
mod machine;
mod paint;
mod tables;

use std::env;
use std::fs;
use std::io;
use std::path::Path;

use harness::Kind;

use crate::contention::Contest;
use crate::peers::{BARE, COMMANDS, DLOCK, PEERS};
use crate::report::{Report, Row, digits};
use bars::{Bar, Panel, bars};
use paint::{OURS, PALE, color, time};

/// A picture: its file's name, what it shows, and itself.
type Picture = (&'static str, &'static str, String);

/// The page itself.
pub const NAME: &str = "results.md";
/// All pictures that there may be.
const PICTURES: [&str; 4] = ["contention", "waits", "uncontended", "growth"];

/// Makes the folder if there is none, and finds out whether files can be written into it.
pub fn prepare(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let probe = folder.join(".probe");
    put(&probe, "")?;
    fs::remove_file(&probe).map_err(|error| failed(&probe, &error))
}

/// Writes everything into a folder; what is measured only later is named.
pub fn write(
    folder: &Path,
    report: &Report,
    servers: &[(Kind, String)],
    to_come: &[(Kind, &str)],
) -> Result<(), String> {
    let pictures = pictures(report)?;
    let mut page = tables::head(
        &machine::machine(),
        &machine::today(),
        &command(env::args().skip(1)),
        servers,
        report,
    );
    page += &tables::gaps(report, to_come);
    page += &tables::verdicts(report);
    for title in titles(report) {
        page += &format!("\n## {title}\n");
        let shown = pictures.iter().filter(|(name, ..)| belongs(name, title));
        for (name, about, _) in shown {
            page += &format!("\n![{about}]({name}.svg)\n");
        }
        page += &tables::section(report, title);
    }
    for name in PICTURES {
        let path = folder.join(format!("{name}.svg"));
        match pictures.iter().find(|(known, ..)| *known == name) {
            Some((.., picture)) => put(&path, picture)?,
            // Of a run before, which measured more.
            None if path.exists() => {
                fs::remove_file(&path).map_err(|error| failed(&path, &error))?
            }
            None => {}
        }
    }
    put(&folder.join(NAME), &page)
}

/// The whole file, or what was there before.
fn put(path: &Path, text: &str) -> Result<(), String> {
    let unfinished = path.with_extension("unfinished");
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// How it can be had again; where the page goes does not matter.
fn command(words: impl Iterator<Item = String>) -> String {
    let mut rest = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        if word == "--page" {
            words.next();
        } else {
            rest.push(word);
        }
    }
    match rest.as_slice() {
        [] => "make bench".to_owned(),
        [one] => format!("make bench ARGS={one}"),
        several => format!("make bench ARGS='{}'", several.join(" ")),
    }
}

/// Of the groups, each once.
fn titles(report: &Report) -> Vec<&'static str> {
    let mut titles: Vec<&str> = Vec::new();
    for section in &report.sections {
        if !titles.contains(&section.title) {
            titles.push(section.title);
        }
    }
    titles
}

/// Whether a picture belongs under this title.
fn belongs(picture: &str, title: &str) -> bool {
    let about = match picture {
        "contention" | "waits" => tables::CONTENTION,
        "uncontended" => tables::UNCONTENDED,
        _ => tables::GROWTH,
    };
    about == title
}

fn pictures(report: &Report) -> Result<Vec<Picture>, String> {
    let mut pictures = Vec::new();
    let settings = settings(&report.contests);
    if !settings.is_empty() {
        let about = "p99 wait of each library";
        pictures.push(("contention", about, contention(&settings)?));
        let heading = [
            "How long one waits, by percentile",
            "one lock, in a closed loop; logarithmic scales, less is better",
        ];
        pictures.push(("waits", "waits by percentile", curves::curves(heading, &settings)?));
    }
    let rows = |title| -> Vec<(Kind, &Row)> {
        let sections = report.sections.iter().filter(move |section| section.title == title);
        sections.flat_map(|one| one.rows.iter().map(|row| (one.kind, row))).collect()
    };
    let uncontended_rows = rows(tables::UNCONTENDED);
    if !uncontended_rows.is_empty() {
        let about = "acquiring a free lock with each library";
        pictures.push(("uncontended", about, uncontended(&uncontended_rows)?));
    }
    let growth_rows = rows(tables::GROWTH);
    if !growth_rows.is_empty() {
        pictures.push(("growth", "costs when there is much of everything", growth(&growth_rows)?));
    }
    Ok(pictures)
}

/// What was measured, setting by setting.
fn settings(contests: &[Contest]) -> Vec<Vec<&Contest>> {
    let mut settings: Vec<Vec<&Contest>> = Vec::new();
    for one in contests {
        match settings.iter_mut().find(|known| known[0].same_setting(one)) {
            Some(known) => known.push(one),
            None => settings.push(vec![one]),
        }
    }
    settings
}

fn contention(settings: &[Vec<&Contest>]) -> Result<String, String> {
    let panel = |libraries: &Vec<&Contest>| {
        let bar = |one: &&Contest| {
            let p99 = one.waits.percentile(0.99);
            Bar {
                label: one.name.to_owned(),
                figure: p99.ms,
                text: format!("{}{}", if p99.at_least { "≥ " } else { "" }, time(p99.ms)),
                color: color(one.name),
            }
        };
        let first = libraries[0];
        let ideal = (first.ideal(), format!("one round, clients × hold: {}", time(first.ideal())));
        Panel {
            title: first.heading(),
            bars: libraries.iter().map(bar).collect(),
            ideal: Some(ideal),
        }
    };
    let panels: Vec<Panel> = settings.iter().map(panel).collect();
    let heading = [
        "p99 wait for one lock that many want",
        "who gives it back asks again at once; logarithmic scale, shorter is better",
    ];
    bars(heading, &panels, true, time)
}

fn uncontended(rows: &[(Kind, &Row)]) -> Result<String, String> {
    let mut panels: Vec<Panel> = Vec::new();
    let micros = |figure: f64| format!("{figure:.0} µs");
    let known =
        |row: &Row| PEERS.iter().chain([&BARE, &COMMANDS]).any(|peer| peer.name == row.against);
    for (kind, row) in rows.iter().filter(|(_, row)| known(row)) {
        let bar = |label: &str, figure: f64| Bar {
            label: label.to_owned(),
            figure,
            text: micros(figure),
            color: color(label),
        };
        let title = format!("{}, {}", row.what, kind.name());
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel { title, bars: vec![bar(DLOCK.name, row.ours)], ideal: None });
        }
        let panel = panels.last_mut().expect("one was just pushed");
        let theirs = row.theirs.unwrap_or_default();
        if row.against == BARE.name {
            panel.ideal = Some((theirs, format!("bare sockets: {}", micros(theirs))));
        } else {
            panel.bars.push(bar(&row.against, theirs));
        }
    }
    let heading = [
        "How long it takes to have a lock that nobody else wants",
        "median, one client, servers on the same machine; shorter is better",
    ];
    bars(heading, &panels, false, micros)
}

fn growth(rows: &[(Kind, &Row)]) -> Result<String, String> {
    let mut panels: Vec<Panel> = Vec::new();
    for (kind, row) in rows {
        let bar = |label: &str, figure: f64, color| Bar {
            label: label.to_owned(),
            figure,
            text: format!("{} µs", digits(figure)),
            color,
        };
        if panels.last().is_none_or(|panel| panel.title != kind.name()) {
            let title = kind.name().to_owned();
            panels.push(Panel { title, bars: Vec::new(), ideal: None });
        }
        let panel = panels.last_mut().expect("one was just pushed");
        panel.bars.push(bar(&row.what, row.ours, OURS));
        panel.bars.push(bar(&row.against, row.theirs.unwrap_or_default(), PALE));
    }
    let heading = [
        "What a command costs the server when there is much of everything",
        "CPU time; dark: with many, pale: with few; logarithmic scale, shorter is better",
    ];
    bars(heading, &panels, true, |figure| format!("{figure} µs"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use harness::Kind;
    use serde_json::json;

    use super::{PICTURES, command, prepare, tables, write};
    use crate::contention::Contest;
    use crate::measure::Compared;
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
        Contest { kind: KIND, nodes, crowd, name, waits }
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
            report.contest(contest("dlock", nodes, 10.0, 1.0));
            report.contest(contest("some lock", nodes, 900.0, 2700.0));
        }
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
}
