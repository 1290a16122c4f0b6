//! The printed report: a [`row`] for each figure, and a word for each missing one.

mod row;

use std::any::Any;
use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe};

use harness::Kind;
use serde_json::{Value, json};

use crate::contention::Contest;
pub use row::{Row, Target, Verdict, digits};

/// Prints rows as they come, or all of them as JSON.
pub struct Report {
    as_json: bool,
    /// The sections, in the order of measurement.
    pub sections: Vec<Section>,
}

/// The figures of one group on one server.
pub struct Section {
    /// The server.
    pub kind: Kind,
    /// The group's title.
    pub title: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// Remarks besides the figures.
    pub notes: Vec<String>,
    /// The missing figures.
    pub gaps: Vec<Gap>,
}

/// A missing figure, or several.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The missing figure.
    pub what: String,
    /// The reason why it is missing.
    pub why: String,
}

impl Report {
    /// An empty report.
    pub fn new(as_json: bool) -> Report {
        Report { as_json, sections: Vec::new() }
    }

    /// Begins the rows of another server.
    pub fn server(&self, kind: Kind, version: &str) {
        if self.as_json {
            return;
        }
        println!("\n{} ({version})", kind.name());
        let (what, against) = ("measured", "against");
        println!(
            "  {what:<44} {:>12} {:>12}  {against:<29} {:>9}  target",
            "dlock", "other", "ratio"
        );
    }

    /// Begins the rows of another group.
    pub fn group(&mut self, kind: Kind, title: &'static str) {
        let (rows, notes, gaps) = (Vec::new(), Vec::new(), Vec::new());
        self.sections.push(Section { kind, title, rows, notes, gaps });
    }

    /// Measures something and adds its rows. A measurement that cannot go on panics: the table then shows it
    /// as missing, and the rows after it follow.
    pub fn attempt(&mut self, what: impl Into<String>, measure: impl FnOnce(&mut Report)) {
        // A report that lacks a row is whole: rows are added one at a time.
        let measured = panic::catch_unwind(AssertUnwindSafe(|| measure(self)));
        if let Err(panicked) = measured {
            self.not_measured(what, said(&*panicked));
        }
    }

    /// One more.
    pub fn add(&mut self, kind: Kind, row: Row) {
        if !self.as_json {
            println!("{}", line(&row));
        }
        let section = self.sections.last_mut().expect("a group has begun");
        debug_assert_eq!(section.kind, kind);
        section.rows.push(row);
    }

    /// Notes the failures of libraries in one setting, and links that were off.
    pub fn contests(&mut self, contests: &[Contest]) {
        for Contest { setting, name, waits, ping } in contests {
            let setting = setting.name();
            if waits.failures > 0 {
                let (count, last) = (waits.failures, &waits.complaint);
                self.note(format!("{name}, {setting}: {count} failures, the last is: {last}"));
            }
            if let Some((ping, off)) = ping.and_then(|ping| Some((ping, ping.off()?))) {
                let (took, wanted, off) = (digits(ping.ms), digits(ping.wanted), off * 100.0);
                self.note(format!(
                    "{name}, {setting}: the links are off by {off:+.0} %: a PING took {took} ms \
                     meanwhile, and not {wanted} ms"
                ));
            }
        }
    }

    /// Adds a remark besides the figures.
    pub fn note(&mut self, text: String) {
        if !self.as_json {
            println!("  {text}");
        }
        self.sections.last_mut().expect("a group has begun").notes.push(text);
    }

    /// Notes that a figure of this group is missing.
    pub fn not_measured(&mut self, what: impl Into<String>, why: String) {
        let gap = Gap { what: what.into(), why };
        if !self.as_json {
            let why = gap.why.lines().next().unwrap_or_default();
            println!("  {:<44} {NOT_MEASURED}: {why}", gap.what);
        }
        self.sections.last_mut().expect("a group has begun").gaps.push(gap);
    }

    /// True if everything could be measured.
    pub fn complete(&self) -> bool {
        self.sections.iter().all(|section| section.gaps.is_empty())
    }

    /// The number of targets that are reached, the number of all, and the others.
    pub fn verdicts(&self) -> (usize, usize, Vec<(Kind, &Row)>) {
        let judged: Vec<_> = self.rows().filter(|(_, row)| row.verdict().is_some()).collect();
        let all = judged.len();
        let reached = |(_, row): &(Kind, &Row)| row.verdict() == Some(Verdict::Reached);
        let others: Vec<_> = judged.into_iter().filter(|one| !reached(one)).collect();
        (all - others.len(), all, others)
    }

    /// All rows, each with its server.
    pub fn rows(&self) -> impl Iterator<Item = (Kind, &Row)> {
        self.sections.iter().flat_map(|section| section.rows.iter().map(|row| (section.kind, row)))
    }

    /// All gaps, each with its server.
    pub fn gaps(&self) -> impl Iterator<Item = (Kind, &Gap)> {
        self.sections.iter().flat_map(|section| section.gaps.iter().map(|gap| (section.kind, gap)))
    }

    /// Ends the report: prints the number of missed targets, and the missing figures.
    pub fn end(&self) {
        if self.as_json {
            let figures = Value::Array(self.sections.iter().flat_map(json).collect());
            println!("{figures:#}");
            return;
        }
        let (reached, all, others) = self.verdicts();
        println!("\n{reached} of {all} targets reached");
        for (kind, row) in others {
            let (word, server) = (row.verdict().map_or("", Verdict::word), kind.name());
            println!("  {word} on {server}: {}{}", row.what, row.beside_whom());
        }
        for (kind, gap) in self.gaps() {
            println!("  {NOT_MEASURED} on {}: {}", kind.name(), gap.what);
        }
    }
}

/// The words in place of a missing figure in tables.
pub const NOT_MEASURED: &str = "not measured";

/// The words of a panic.
fn said(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panicked.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned())
}

fn line(row: &Row) -> String {
    let [ours, theirs] = row.figures();
    let mut line = format!(
        "  {:<44} {ours:>12} {theirs:>12}  {:<29} {:>9}",
        row.what,
        row.against,
        row.ratio.map(|_| row.figure_text()).unwrap_or_default()
    );
    if let (Some(bound), Some(verdict)) = (row.bound(), row.verdict()) {
        let _ = write!(line, "  {bound:<7} {}", verdict.word());
    }
    line.trim_end().to_owned()
}

fn json(section: &Section) -> Vec<Value> {
    let server = section.kind.name();
    let row = |row: &Row| {
        let (bound, target) = match row.target {
            Target::AtMost(most) => (Some("at most"), Some(most)),
            Target::AtLeast(least) => (Some("at least"), Some(least)),
            Target::None => (None, None),
        };
        json!({
            "server": server,
            "group": section.title,
            "measured": row.what,
            "unit": row.unit,
            "dlock": row.ours,
            "against": (!row.against.is_empty()).then_some(&row.against),
            "other": row.theirs,
            "ratio": row.ratio,
            // True for `dlock`, and for `other`, if it may be more. A ratio is then known only as a bound.
            "at_least": row.at_least,
            "bound": bound,
            "target": target,
            "verdict": row.verdict().map(|verdict| verdict.word().to_lowercase()),
        })
    };
    let note = |text| json!({ "server": server, "group": section.title, "note": text });
    let mut values: Vec<Value> = section.rows.iter().map(row).collect();
    values.extend(section.notes.iter().map(note));
    values.extend(section.gaps.iter().map(|Gap { what, why }| {
        json!({ "server": server, "group": section.title, "measured": what, "not_measured": why })
    }));
    values
}

#[cfg(test)]
mod tests {
    use harness::Kind;

    use super::{Report, Row, Target};

    #[test]
    fn a_row_that_panics_is_a_gap_and_the_others_go_on() {
        let mut report = Report::new(true);
        report.group(Kind::Redis82, "Rows");
        let figure = |what: &str| Row::alone(what, "ms", 1.0, Target::None);
        report.attempt("the first", |report| report.add(Kind::Redis82, figure("the first")));
        report.attempt("the second", |report| {
            report.add(Kind::Redis82, figure("a half of the second"));
            panic!("the machine is too slow: {}", 7);
        });
        report.attempt("the third", |report| report.add(Kind::Redis82, figure("the third")));
        let rows: Vec<&str> = report.rows().map(|(_, row)| row.what.as_str()).collect();
        assert_eq!(rows, ["the first", "a half of the second", "the third"]);
        let gaps: Vec<_> = report.gaps().map(|(_, gap)| (&gap.what[..], &gap.why[..])).collect();
        assert_eq!(gaps, [("the second", "the machine is too slow: 7")]);
        assert!(!report.complete());
    }
}
