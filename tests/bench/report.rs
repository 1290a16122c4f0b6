//! What is printed: one row a figure, with what it is measured against and what it must reach.

use std::fmt::Write;

use harness::Kind;

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
        let (what, against) = (what.into(), against.into());
        Row { what, ours, against, theirs: Some(theirs), unit, ratio: Some(ratio), target }
    }

    /// A figure that is bounded by itself.
    pub fn alone(what: impl Into<String>, unit: &'static str, ours: f64, target: Target) -> Row {
        let (what, against) = (what.into(), String::new());
        Row { what, ours, against, theirs: None, unit, ratio: None, target }
    }

    /// The same figure, beside one that sets it in relation.
    pub fn beside(self, against: impl Into<String>, theirs: f64) -> Row {
        Row { against: against.into(), theirs: Some(theirs), ..self }
    }

    /// Whether the target is reached, if there is one.
    fn reached(&self) -> Option<bool> {
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
    rows: Vec<(Kind, Row)>,
}

impl Report {
    /// With the table's head on its way.
    pub fn new(as_json: bool) -> Report {
        Report { as_json, rows: Vec::new() }
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

    /// One more.
    pub fn add(&mut self, kind: Kind, row: Row) {
        if !self.as_json {
            println!("{}", line(&row));
        }
        self.rows.push((kind, row));
    }

    /// Nothing more comes. How many targets are missed.
    pub fn end(self) {
        if self.as_json {
            let rows: Vec<String> = self.rows.iter().map(|(kind, row)| json(*kind, row)).collect();
            println!("[\n{}\n]", rows.join(",\n"));
            return;
        }
        let verdicts: Vec<bool> = self.rows.iter().filter_map(|(_, row)| row.reached()).collect();
        let reached = verdicts.iter().filter(|reached| **reached).count();
        println!("\n{reached} of {} targets reached", verdicts.len());
        for (kind, row) in &self.rows {
            if row.reached() == Some(false) {
                println!("  missed on {}: {}", kind.name(), row.what);
            }
        }
    }
}

fn line(row: &Row) -> String {
    let figure = |number: f64| format!("{} {}", digits(number), row.unit);
    let theirs = row.theirs.map(figure).unwrap_or_default();
    let ratio = row.ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
    let ratio = if row.unit.is_empty() { String::new() } else { ratio };
    let mut line = format!(
        "  {:<44} {:>12} {theirs:>12}  {:<22} {ratio:>9}",
        row.what,
        figure(row.ours),
        row.against
    );
    let bound = match row.target {
        Target::AtMost(most) => format!("≤ {most}"),
        Target::AtLeast(least) => format!("≥ {least}"),
        Target::None => return line.trim_end().to_owned(),
    };
    let verdict = if row.reached() == Some(true) { "reached" } else { "MISSED" };
    let _ = write!(line, "  {bound:<7} {verdict}");
    line
}

/// About four digits.
fn digits(number: f64) -> String {
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
         \"other\":{},\"ratio\":{},\"bound\":{bound},\"target\":{target},\"reached\":{}}}",
        kind.name(),
        row.what,
        row.unit,
        row.ours,
        if row.against.is_empty() { "null".to_owned() } else { format!("\"{}\"", row.against) },
        or_null(row.theirs),
        or_null(row.ratio),
        or_null(row.reached()),
    )
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}
