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
        let (what, against) = (what.into(), String::new());
        Row { what, ours, against, theirs: None, unit, ratio: None, target }
    }

    /// The same figure, beside one that sets it in relation.
    pub fn beside(self, against: impl Into<String>, theirs: f64) -> Row {
        Row { against: against.into(), theirs: Some(theirs), ..self }
    }

    /// Both figures with their unit; empty for a missing one.
    pub fn figures(&self) -> [String; 2] {
        let text = |figure| format!("{} {}", digits(figure), self.unit);
        [text(self.ours), self.theirs.map(text).unwrap_or_default()]
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

    /// The figure that the target bounds, with enough digits to tell it from the bound.
    pub fn figure_text(&self) -> String {
        let mut text = digits(self.figure());
        let bound = match self.target {
            Target::AtMost(bound) | Target::AtLeast(bound) => Some(bound),
            Target::None => None,
        };
        for decimals in 3..10 {
            if Some(self.figure()) == bound || text.parse().ok() != bound {
                break;
            }
            text = format!("{:.decimals$}", self.figure());
        }
        text
    }

    /// True if the target is reached, if there is one. What is not a number reaches none.
    pub fn is_reached(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(most) => Some(self.figure() <= most),
            Target::AtLeast(least) => Some(self.figure() >= least),
            Target::None => None,
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
    use super::{Row, Target};
    use crate::measure::Compared;

    #[test]
    fn a_figure_just_beyond_its_bound_does_not_read_as_the_bound() {
        let text = |ours, target| {
            Row::compared("it", "that", "ms", Compared::once(ours, 1.0), target).figure_text()
        };
        assert_eq!(text(1.50004, Target::AtMost(1.5)), "1.50004");
        assert_eq!(text(0.98999, Target::AtLeast(0.99)), "0.98999");
        assert_eq!(text(1.5, Target::AtMost(1.5)), "1.500");
    }
}
