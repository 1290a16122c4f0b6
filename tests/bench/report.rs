//! The printed report: a [`row`] for each figure, and a word for each missing one.

mod row;

use std::any::Any;
use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe};

use harness::Kind;

use crate::contention::Contest;
pub use row::{Row, Target, digits};

/// Prints rows as they come.
#[derive(Default)]
pub struct Report {
    /// The servers, in the order of measurement.
    servers: Vec<Measured>,
}

/// The figures of one server.
struct Measured {
    kind: Kind,
    rows: Vec<Row>,
    /// The missing figures.
    gaps: Vec<String>,
}

impl Report {
    /// Begins the rows of another server.
    pub fn server(&mut self, kind: Kind, version: &str) {
        println!("\n{} ({version})", kind.name());
        let (what, against) = ("measured", "against");
        println!(
            "  {what:<44} {:>12} {:>12}  {against:<29} {:>9}  target",
            "dlock", "other", "ratio"
        );
        self.servers.push(Measured { kind, rows: Vec::new(), gaps: Vec::new() });
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
    pub fn add(&mut self, row: Row) {
        println!("{}", line(&row));
        self.server_now().rows.push(row);
    }

    /// Notes the failures of libraries in one setting, and links that were off.
    pub fn contests(&mut self, contests: &[Contest]) {
        for Contest { setting, name, waits, ping } in contests {
            let setting = setting.name();
            if waits.failures > 0 {
                let (count, last) = (waits.failures, &waits.complaint);
                println!("  {name}, {setting}: {count} failures, the last is: {last}");
            }
            if let Some((ping, off)) = ping.and_then(|ping| Some((ping, ping.off()?))) {
                let (took, wanted, off) = (digits(ping.ms), digits(ping.wanted), off * 100.0);
                println!(
                    "  {name}, {setting}: the links are off by {off:+.0} %: a PING took {took} ms \
                     meanwhile, and not {wanted} ms"
                );
            }
        }
    }

    /// Notes that a figure is missing.
    pub fn not_measured(&mut self, what: impl Into<String>, why: String) {
        let what = what.into();
        println!("  {what:<44} {NOT_MEASURED}: {}", why.lines().next().unwrap_or_default());
        self.server_now().gaps.push(what);
    }

    fn server_now(&mut self) -> &mut Measured {
        self.servers.last_mut().expect("a server has begun")
    }

    /// Ends the report: prints the number of missed targets, and the missing figures. True if everything
    /// could be measured.
    pub fn end(&self) -> bool {
        let rows = self.servers.iter().flat_map(|of| of.rows.iter().map(|row| (of.kind, row)));
        let (reached, missed): (Vec<_>, Vec<_>) = rows
            .filter_map(|(kind, row)| Some((kind, row, row.is_reached()?)))
            .partition(|(.., is_reached)| *is_reached);
        println!("\n{} of {} targets reached", reached.len(), reached.len() + missed.len());
        for (kind, row, _) in missed {
            println!("  MISSED on {}: {}{}", kind.name(), row.what, row.beside_whom());
        }
        let gaps = self.servers.iter().flat_map(|of| of.gaps.iter().map(|gap| (of.kind, gap)));
        for (kind, gap) in gaps.clone() {
            println!("  {NOT_MEASURED} on {}: {gap}", kind.name());
        }
        gaps.count() == 0
    }
}

/// The words in place of a missing figure.
const NOT_MEASURED: &str = "not measured";

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
    if let (Some(bound), Some(reached)) = (row.bound(), row.is_reached()) {
        let _ = write!(line, "  {bound:<7} {}", if reached { "reached" } else { "MISSED" });
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use harness::Kind;

    use super::{Report, Row, Target};

    #[test]
    fn a_row_that_panics_is_a_gap_and_the_others_go_on() {
        let mut report = Report::default();
        report.server(Kind::Redis82, "any");
        let figure = |what: &str| Row::alone(what, "ms", 1.0, Target::None);
        report.attempt("the first", |report| report.add(figure("the first")));
        report.attempt("the second", |report| {
            report.add(figure("a half of the second"));
            panic!("the machine is too slow: {}", 7);
        });
        report.attempt("the third", |report| report.add(figure("the third")));
        let rows: Vec<&str> = report.servers[0].rows.iter().map(|row| &*row.what).collect();
        assert_eq!(rows, ["the first", "a half of the second", "the third"]);
        assert_eq!(report.servers[0].gaps, ["the second"]);
        assert!(!report.end());
    }
}
