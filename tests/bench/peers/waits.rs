//! The waits of one library's clients for one lock.

use serde_json::Value;

use crate::measure::fairness;

/// The figures of one library.
#[derive(Clone, Debug)]
pub struct Waits {
    /// The average length of a hold, in milliseconds.
    pub hold: f64,
    /// The number of failed acquisitions and releases.
    pub failures: u64,
    /// Its program's last message about them.
    pub complaint: String,
    /// All waits, the shortest first.
    sorted: Vec<Observed>,
    /// The number of times that each client had the lock.
    counts: Vec<u64>,
    seconds: f64,
}

/// The length of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// The length, in milliseconds.
    pub ms: f64,
    /// True if the wait is at least this long, and may be longer.
    pub at_least: bool,
}

#[derive(Clone, Copy, Debug)]
struct Observed {
    ms: f64,
    /// The time was over before this client had the lock.
    cut_off: bool,
    /// The share of all waits that are longer than this one, as far as one can know.
    longer: f64,
}

impl Waits {
    /// Reads a program's output.
    pub fn read(figures: &Value) -> Result<Waits, String> {
        let field = |name: &str| figures.get(name).ok_or_else(|| format!("there is no {name}"));
        let number = |name: &str| field(name)?.as_f64().ok_or_else(|| format!("{name}: no number"));
        let of_clients = field("waits_ms")?.as_array().ok_or("waits_ms: no list")?;
        let of_clients: Option<Vec<Vec<f64>>> = of_clients.iter().map(numbers).collect();
        let of_clients = of_clients.ok_or("waits_ms: not lists of numbers")?;
        let cut_off = numbers(field("cut_off_ms")?).ok_or("cut_off_ms: not a list of numbers")?;
        if of_clients.iter().all(Vec::is_empty) {
            return Err("nobody ever had the lock".to_owned());
        }
        let counts = of_clients.iter().map(|list| list.len() as u64).collect();
        let waits = Waits {
            hold: number("hold_ms_mean")?,
            failures: field("failures")?.as_u64().ok_or("failures: no number")?,
            complaint: String::new(),
            sorted: observed(of_clients.into_iter().flatten(), cut_off),
            counts,
            seconds: number("seconds")?,
        };
        waits.held_by_one_at_a_time()?;
        Ok(waits)
    }

    /// Holds that do not overlap fit into the time, but for the last one, which may have been cut off.
    fn held_by_one_at_a_time(&self) -> Result<(), String> {
        let grants: u64 = self.counts.iter().sum();
        if (grants - 1) as f64 * self.hold > self.seconds * 1e3 {
            let share = self.held_share() * 100.0;
            return Err(format!("two clients held the lock at once: it was held {share:.0} %"));
        }
        Ok(())
    }

    /// The wait that this share of all does not exceed, as Kaplan and Meier estimate it: a wait that was cut
    /// off stands for those that were as long, and ended later. If it is unknown, it is at least as long as
    /// the longest.
    pub fn percentile(&self, share: f64) -> Wait {
        // Products of fractions are not exact.
        let longer = 1.0 - share + 1e-9;
        let found = self.sorted.iter().find(|one| !one.cut_off && one.longer <= longer);
        let last = self.sorted[self.sorted.len() - 1];
        found.map_or(Wait { ms: last.ms, at_least: true }, |one| Wait {
            ms: one.ms,
            at_least: false,
        })
    }

    /// The longest wait seen.
    pub fn longest(&self) -> Wait {
        let last = self.sorted[self.sorted.len() - 1];
        Wait { ms: last.ms, at_least: last.cut_off }
    }

    /// Jain's index of how often each client had the lock.
    pub fn fairness(&self) -> f64 {
        fairness(&self.counts)
    }

    /// The number of grants in a second.
    pub fn rate(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64 / self.seconds
    }

    /// The share of the time that it was held.
    pub fn held_share(&self) -> f64 {
        self.rate() * self.hold / 1e3
    }
}

/// The shortest first, each with the share of longer ones: every wait that ends takes its part of those that
/// had lasted as long until then.
fn observed(ended: impl Iterator<Item = f64>, cut_off: Vec<f64>) -> Vec<Observed> {
    let observed = |cut_off| move |ms| Observed { ms, cut_off, longer: 1.0 };
    let mut all: Vec<Observed> = ended.map(observed(false)).collect();
    all.extend(cut_off.into_iter().map(observed(true)));
    // Of two equal waits, the one that was cut off is the longer one.
    all.sort_by(|one, other| one.ms.total_cmp(&other.ms).then(one.cut_off.cmp(&other.cut_off)));
    let (mut longer, count) = (1.0, all.len());
    for (place, one) in all.iter_mut().enumerate() {
        if !one.cut_off {
            let lasting = (count - place) as f64;
            longer *= (lasting - 1.0) / lasting;
        }
        one.longer = longer;
    }
    all
}

/// A list of numbers, none of them negative or missing.
pub fn numbers(list: &Value) -> Option<Vec<f64>> {
    let number = |item: &Value| item.as_f64().filter(|number| *number >= 0.0);
    list.as_array()?.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Wait, Waits};

    fn printed() -> serde_json::Value {
        json!({
            "waits_ms": [[3.0, 1.0, 2.0], [4.0]],
            "cut_off_ms": [2.5],
            "hold_ms_mean": 5.0,
            "seconds": 2.0,
            "failures": 0,
        })
    }

    fn exactly(ms: f64) -> Wait {
        Wait { ms, at_least: false }
    }

    #[test]
    fn a_wait_that_was_cut_off_counts_as_one_that_went_on() {
        let waits = Waits::read(&printed()).unwrap();
        // After 2 ms 3 of 5 go on; of the two that are seen to go on to their end, one ends at 3 ms.
        let shown = [0.0, 0.2, 0.4, 0.5, 0.7, 0.71, 1.0].map(|share| waits.percentile(share));
        assert_eq!(shown, [1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0].map(exactly));
        assert_eq!(waits.longest(), exactly(4.0));
    }

    #[test]
    fn an_unfinished_wait_makes_the_end_unknown() {
        let mut figures = printed();
        figures["cut_off_ms"] = json!([9.0, 9.5]);
        let waits = Waits::read(&figures).unwrap();
        assert_eq!(waits.percentile(0.66), exactly(4.0));
        let unknown = Wait { ms: 9.5, at_least: true };
        assert_eq!([0.67, 0.99, 1.0].map(|share| waits.percentile(share)), [unknown; 3]);
        assert_eq!(waits.longest(), unknown);
    }

    #[test]
    fn without_any_that_was_cut_off_a_percentile_is_the_nearest_rank() {
        let mut figures = printed();
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        (figures["waits_ms"], figures["cut_off_ms"]) = (json!([hundred]), json!([]));
        let waits = Waits::read(&figures).unwrap();
        let shown = [0.01, 0.5, 0.99, 1.0].map(|share| waits.percentile(share));
        assert_eq!(shown, [1.0, 50.0, 99.0, 100.0].map(exactly));
    }

    #[test]
    fn fairness_and_rate_count_grants_only() {
        let waits = Waits::read(&printed()).unwrap();
        assert_eq!(waits.fairness(), 16.0 / (2.0 * 10.0));
        assert_eq!(waits.rate(), 2.0);
        assert_eq!(waits.held_share(), 0.01);
    }

    #[test]
    fn holds_that_do_not_fit_into_the_time_are_an_error() {
        let mut figures = printed();
        figures["hold_ms_mean"] = json!(660.0);
        assert!(Waits::read(&figures).is_ok(), "three fit, and a fourth had begun");
        figures["hold_ms_mean"] = json!(670.0);
        let error = Waits::read(&figures).unwrap_err();
        assert!(error.contains("at once"), "{error}");
    }

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        for name in ["waits_ms", "cut_off_ms", "hold_ms_mean", "seconds", "failures"] {
            for wrong in [None, Some(json!({"not": "this"}))] {
                let mut figures = printed();
                match wrong {
                    None => figures.as_object_mut().unwrap().remove(name),
                    Some(wrong) => figures.as_object_mut().unwrap().insert(name.to_owned(), wrong),
                };
                let error = Waits::read(&figures).unwrap_err();
                assert!(error.contains(name), "{name}: {error}");
            }
        }
    }

    #[test]
    fn a_library_without_a_grant_is_refused() {
        let mut figures = printed();
        figures["waits_ms"] = json!([[], []]);
        assert!(Waits::read(&figures).is_err());
        figures["waits_ms"] = json!([[1.0, -1.0]]);
        assert!(Waits::read(&figures).is_err());
    }
}
