//! The page of results: `results.md`, and the pictures beside it.
//!
//! - [`tables`]: the figures;
//! - [`bars`], [`curves`] and [`distances`]: the pictures, drawn with [`paint`];
//! - [`machine`]: what it was measured on.

mod bars;
mod curves;
mod distances;
mod machine;
mod paint;
mod tables;
#[cfg(test)]
mod tests;

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
const PICTURES: [&str; 5] = ["contention", "waits", "distance", "uncontended", "growth"];

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

/// The command that makes the page again; where the page goes does not matter.
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

/// The titles of the groups, each once.
fn titles(report: &Report) -> Vec<&'static str> {
    let mut titles: Vec<&str> = Vec::new();
    for section in &report.sections {
        if !titles.contains(&section.title) {
            titles.push(section.title);
        }
    }
    titles
}

/// True if a picture belongs under this title.
fn belongs(picture: &str, title: &str) -> bool {
    let about = match picture {
        "contention" | "waits" => tables::CONTENTION,
        "distance" => tables::DISTANCE,
        "uncontended" => tables::UNCONTENDED,
        _ => tables::GROWTH,
    };
    about == title
}

fn pictures(report: &Report) -> Result<Vec<Picture>, String> {
    let mut pictures = Vec::new();
    let here = settings(&report.contests, false);
    if !here.is_empty() {
        let about = "p99 wait of each library";
        pictures.push(("contention", about, contention(&here)?));
        let heading = [
            "How long one waits, by percentile",
            "one lock, in a closed loop; logarithmic scales, less is better",
        ];
        pictures.push(("waits", "waits by percentile", curves::curves(heading, &here)?));
    }
    if report.contests.iter().any(|one| one.setting.each_way.is_some()) {
        let heading = [
            "Turns a second, by distance",
            "how far clients and nodes are from each other, each way; logarithmic scale, more is better",
        ];
        let picture = distances::distances(heading, &report.contests)?;
        pictures.push(("distance", "turns a second over distance", picture));
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

/// The contests that were measured over links, or without, setting by setting.
fn settings(contests: &[Contest], over_links: bool) -> Vec<Vec<&Contest>> {
    let mut settings: Vec<Vec<&Contest>> = Vec::new();
    for one in contests.iter().filter(|one| one.setting.each_way.is_some() == over_links) {
        match settings.iter_mut().find(|known| known[0].setting == one.setting) {
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
        let setting = libraries[0].setting;
        let round = setting.ideal();
        Panel {
            title: setting.heading(),
            bars: libraries.iter().map(bar).collect(),
            ideal: Some((round, format!("one round, clients × hold: {}", time(round)))),
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
