//! What is printed: one row a figure, with what it is measured against and what it must reach.

use std::fmt::Write;

use harness::Kind;

use crate::contention::Contest;
use crate::measure::Compared;

/// The bound that a figure must keep.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most so much.
    AtMost(f64),
    /// At least so much.
    AtLeast(f64),
    /// None: it is there for comparison.
    None,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub what: String,
    /// What the module took, in `unit`.
    pub ours: f64,
    /// What it is measured against.
    pub against: String,
    /// What that took, in `unit`.
    pub theirs: Option<f64>,
    /// Of `ours` and `theirs`.
    pub unit: &'static str,
    /// What the target is about: the ratio, if there is one, else `ours`.
    pub ratio: Option<f64>,
    /// What must be reached.
    pub target: Target,
    /// Whether `ours`, and whether `theirs`, is at least so much, and may be more.
    pub at_least: [bool; 2],
}

impl Row {
    /// Two sides, and the ratio between them.
    pub fn compared(
        what: impl Into<String>,
        against: impl Into<String>,
        unit: &'static str,
        Compared { ours, theirs, ratio }: Compared,
        target: Target,
    ) -> Row {
        let row = Row::alone(what, unit, ours, target).beside(against, theirs);
        Row { ratio: Some(ratio), ..row }
    }

    /// A figure that is bounded by itself.
    pub fn alone(what: impl Into<String>, unit: &'static str, ours: f64, target: Target) -> Row {
        Row {
            what: what.into(),
            ours,
            against: String::new(),
            theirs: None,
            unit,
            ratio: None,
            target,
            at_least: [false; 2],
        }
    }

    /// The same figure, beside one that sets it in relation.
    pub fn beside(self, against: impl Into<String>, theirs: f64) -> Row {
        Row { against: against.into(), theirs: Some(theirs), ..self }
    }

    /// The same figures, of which one may be more than was measured.
    pub fn at_least(self, ours: bool, theirs: bool) -> Row {
        Row { at_least: [ours, theirs], ..self }
    }

    /// Both figures with their unit; nothing for one that is not there.
    pub fn figures(&self) -> [String; 2] {
        let [ours, theirs] = self.at_least.map(|at_least| if at_least { "≥ " } else { "" });
        let text = |mark, figure| format!("{mark}{} {}", digits(figure), self.unit);
        [text(ours, self.ours), self.theirs.map(|figure| text(theirs, figure)).unwrap_or_default()]
    }

    /// What must be reached, in signs.
    pub fn bound(&self) -> Option<String> {
        match self.target {
            Target::AtMost(most) => Some(format!("≤ {most}")),
            Target::AtLeast(least) => Some(format!("≥ {least}")),
            Target::None => None,
        }
    }

    /// What it is measured against, in a list of names.
    pub fn beside_whom(&self) -> String {
        if self.against.is_empty() { String::new() } else { format!(" (to {})", self.against) }
    }

    /// Whether the target is reached, if there is one.
    pub fn reached(&self) -> Option<bool> {
        let figure = self.ratio.unwrap_or(self.ours);
        match self.target {
            Target::AtMost(most) => Some(figure <= most),
            Target::AtLeast(least) => Some(figure >= least),
            Target::None => None,
        }
    }
}

/// Prints rows as they come, or all of them as JSON.
pub struct Report {
    as_json: bool,
    /// In the order in which they were measured.
    pub sections: Vec<Section>,
    /// What the clients of each library have waited.
    pub contests: Vec<Contest>,
    /// Why not everything could be measured.
    failure: Option<String>,
}

/// What was measured of one group on one server.
pub struct Section {
    /// The server.
    pub kind: Kind,
    /// The group's title.
    pub title: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Report {
    /// With the table's head on its way.
    pub fn new(as_json: bool) -> Report {
        Report { as_json, sections: Vec::new(), contests: Vec::new(), failure: None }
    }

    /// The rows of another server follow.
    pub fn server(&self, kind: Kind, version: &str) {
        if self.as_json {
            return;
        }
        println!("\n{} ({version})", kind.name());
        let (what, against) = ("measured", "against");
        println!(
            "  {what:<44} {:>12} {:>12}  {against:<22} {:>9}  target",
            "dlock", "other", "ratio"
        );
    }

    /// The rows of another group follow.
    pub fn group(&mut self, kind: Kind, title: &'static str) {
        self.sections.push(Section { kind, title, rows: Vec::new() });
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

    /// All waits of one library.
    pub fn contest(&mut self, contest: Contest) {
        self.contests.push(contest);
    }

    /// Something could not be measured: the rest is not worth measuring.
    pub fn give_up(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Why it was given up, if it was.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// All rows, each with its server.
    pub fn rows(&self) -> impl Iterator<Item = (Kind, &Row)> {
        self.sections.iter().flat_map(|section| section.rows.iter().map(|row| (section.kind, row)))
    }

    /// Nothing more comes: says how many targets are missed.
    pub fn end(&self) {
        if self.as_json {
            let rows: Vec<String> = self.rows().map(|(kind, row)| json(kind, row)).collect();
            println!("[\n{}\n]", rows.join(",\n"));
            return;
        }
        let verdicts: Vec<bool> = self.rows().filter_map(|(_, row)| row.reached()).collect();
        let reached = verdicts.iter().filter(|reached| **reached).count();
        println!("\n{reached} of {} targets reached", verdicts.len());
        for (kind, row) in self.rows() {
            if row.reached() == Some(false) {
                println!("  missed on {}: {}{}", kind.name(), row.what, row.beside_whom());
            }
        }
    }
}

fn line(row: &Row) -> String {
    let [ours, theirs] = row.figures();
    let mut line = format!(
        "  {:<44} {ours:>12} {theirs:>12}  {:<22} {:>9}",
        row.what,
        row.against,
        row.ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default()
    );
    if let Some(bound) = row.bound() {
        let verdict = if row.reached() == Some(true) { "reached" } else { "MISSED" };
        let _ = write!(line, "  {bound:<7} {verdict}");
    }
    line.trim_end().to_owned()
}

/// About four digits.
pub fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

fn json(kind: Kind, row: &Row) -> String {
    let (bound, target) = match row.target {
        Target::AtMost(most) => ("\"at most\"", most.to_string()),
        Target::AtLeast(least) => ("\"at least\"", least.to_string()),
        Target::None => ("null", "null".to_owned()),
    };
    // Names and units are plain words: no quotes, no controls.
    format!(
        "{{\"server\":\"{}\",\"measured\":\"{}\",\"unit\":\"{}\",\"dlock\":{},\"against\":{},\
         \"other\":{},\"at_least\":{:?},\"ratio\":{},\"bound\":{bound},\"target\":{target},\"reached\":{}}}",
        kind.name(),
        row.what,
        row.unit,
        row.ours,
        if row.against.is_empty() { "null".to_owned() } else { format!("\"{}\"", row.against) },
        or_null(row.theirs),
        row.at_least,
        or_null(row.ratio),
        or_null(row.reached()),
    )
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}
