//! One figure, with its comparison and its target.

use crate::measure::Compared;

/// The bound that a figure must keep.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most this much.
    AtMost(f64),
    /// At least this much.
    AtLeast(f64),
    /// None: it is there for comparison.
    None,
}

/// The verdict on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The target is reached.
    Reached,
    /// The target is missed.
    Missed,
    /// The figure is only known as a bound, which proves neither.
    Unproved,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measured work.
    pub what: String,
    /// The module's figure, in `unit`.
    pub ours: f64,
    /// The other side of the comparison.
    pub against: String,
    /// The other side's figure, in `unit`.
    pub theirs: Option<f64>,
    /// The unit of `ours` and `theirs`.
    pub unit: &'static str,
    /// The figure that the target bounds: the ratio, if there is one, else `ours`.
    pub ratio: Option<f64>,
    /// The target.
    pub target: Target,
    /// True for `ours`, and for `theirs`, if the figure is at least this much, and may be more.
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

    /// A figure with a target of its own.
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

    /// The same figures. A figure marked here may be more than was measured.
    pub fn at_least(self, ours: bool, theirs: bool) -> Row {
        Row { at_least: [ours, theirs], ..self }
    }

    /// Both figures with their unit; empty for a missing one.
    pub fn figures(&self) -> [String; 2] {
        let [ours, theirs] = self.at_least.map(|at_least| if at_least { "≥ " } else { "" });
        let text = |mark, figure| format!("{mark}{} {}", digits(figure), self.unit);
        [text(ours, self.ours), self.theirs.map(|figure| text(theirs, figure)).unwrap_or_default()]
    }

    /// The target's bound, in signs.
    pub fn bound(&self) -> Option<String> {
        match self.target {
            Target::AtMost(most) => Some(format!("≤ {most}")),
            Target::AtLeast(least) => Some(format!("≥ {least}")),
            Target::None => None,
        }
    }

    /// The other side of the comparison, in a list of names.
    pub fn beside_whom(&self) -> String {
        if self.against.is_empty() { String::new() } else { format!(" (to {})", self.against) }
    }

    /// The figure that the target bounds.
    fn figure(&self) -> f64 {
        self.ratio.unwrap_or(self.ours)
    }

    /// The range of the figure: above the measured one if `ours` may be more, below if it is a ratio and
    /// `theirs` may be more.
    fn span(&self) -> [f64; 2] {
        let [ours, theirs] = self.at_least;
        let low = if theirs && self.ratio.is_some() { 0.0 } else { self.figure() };
        [low, if ours { f64::INFINITY } else { self.figure() }]
    }

    /// The figure that the target bounds, in digits; `?` if it is not known. It has enough digits to tell it
    /// from the bound.
    pub fn figure_text(&self) -> String {
        let [low, high] = self.span();
        let mark = match (low == self.figure(), high == self.figure()) {
            (true, false) => "≥ ",
            (false, true) => "≤ ",
            (false, false) => return "?".to_owned(),
            _ => "",
        };
        let mut text = digits(self.figure());
        let bound = match self.target {
            Target::AtMost(bound) | Target::AtLeast(bound) => Some(bound),
            Target::None => None,
        };
        let same = |text: &str| text.parse().ok() == bound;
        for decimals in 3..10 {
            if Some(self.figure()) == bound || !same(&text) {
                break;
            }
            text = format!("{:.decimals$}", self.figure());
        }
        format!("{mark}{text}")
    }

    /// The verdict on the target, if there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        let [low, high] = self.span();
        let (reached, missed) = match self.target {
            Target::AtMost(most) => (high <= most, low > most),
            Target::AtLeast(least) => (low >= least, high < least),
            Target::None => return None,
        };
        Some(match (reached, missed) {
            (true, _) => Verdict::Reached,
            (_, true) => Verdict::Missed,
            // Not a number: it has no verdict.
            _ if self.figure().is_nan() => Verdict::Missed,
            _ => Verdict::Unproved,
        })
    }
}

impl Verdict {
    /// The verdict's word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "MISSED",
            Verdict::Unproved => "NOT PROVED",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::{Row, Target, Verdict};
    use crate::measure::Compared;

    fn row(ours: f64, theirs: f64, target: Target) -> Row {
        Row::compared("it", "that", "ms", Compared::once(ours, theirs), target)
    }

    #[test]
    fn a_figure_that_may_be_more_reaches_no_upper_bound() {
        let target = Target::AtMost(1.5);
        let verdict = |ours, more, theirs_more| {
            let row = row(ours, 1.0, target).at_least(more, theirs_more);
            (row.figure_text(), row.verdict().unwrap())
        };
        assert_eq!(verdict(1.25, false, false), ("1.250".to_owned(), Verdict::Reached));
        assert_eq!(verdict(1.25, true, false), ("≥ 1.250".to_owned(), Verdict::Unproved));
        assert_eq!(verdict(1.75, true, false), ("≥ 1.750".to_owned(), Verdict::Missed));
        assert_eq!(verdict(1.25, false, true), ("≤ 1.250".to_owned(), Verdict::Reached));
        assert_eq!(verdict(1.75, false, true), ("≤ 1.750".to_owned(), Verdict::Unproved));
        assert_eq!(verdict(1.75, true, true), ("?".to_owned(), Verdict::Unproved));
    }

    #[test]
    fn a_lower_bound_is_reached_by_what_may_be_more() {
        let verdict =
            |ours| Row::alone("it", "", ours, Target::AtLeast(0.99)).at_least(true, false);
        assert_eq!(verdict(1.0).verdict(), Some(Verdict::Reached));
        assert_eq!(verdict(0.9).verdict(), Some(Verdict::Unproved));
        assert_eq!(verdict(f64::NAN).at_least(false, false).verdict(), Some(Verdict::Missed));
    }

    #[test]
    fn a_figure_just_beyond_its_bound_does_not_read_as_the_bound() {
        assert_eq!(row(1.50004, 1.0, Target::AtMost(1.5)).figure_text(), "1.50004");
        assert_eq!(row(0.98999, 1.0, Target::AtLeast(0.99)).figure_text(), "0.98999");
        assert_eq!(row(1.5, 1.0, Target::AtMost(1.5)).figure_text(), "1.500");
    }
}
