//! The waits of one library's clients for one lock.

use serde_json::Value;

use crate::measure::{fairness, percentile};

/// The figures of one library.
#[derive(Clone, Debug)]
pub struct Waits {
    /// The average length of a hold, in milliseconds.
    pub hold: f64,
    /// The number of failed acquisitions and releases.
    pub failures: u64,
    /// Its program's last message about them.
    pub complaint: String,
    /// All waits in milliseconds; one that was cut off has its length so far.
    all: Vec<f64>,
    /// The number of times that each client had the lock.
    counts: Vec<u64>,
    seconds: f64,
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
            all: of_clients.into_iter().flatten().chain(cut_off).collect(),
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
            let share = self.rate() * self.hold / 10.0;
            return Err(format!("two clients held the lock at once: it was held {share:.0} %"));
        }
        Ok(())
    }

    /// The wait that this share of all does not exceed, in milliseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(self.all.clone(), share)
    }

    /// Jain's index of how often each client had the lock.
    pub fn fairness(&self) -> f64 {
        fairness(&self.counts)
    }

    /// The number of grants in a second.
    pub fn rate(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64 / self.seconds
    }
}

/// A list of numbers, none of them negative or missing.
pub fn numbers(list: &Value) -> Option<Vec<f64>> {
    let number = |item: &Value| item.as_f64().filter(|number| *number >= 0.0);
    list.as_array()?.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Waits;

    fn printed() -> serde_json::Value {
        json!({
            "waits_ms": [[3.0, 1.0, 2.0], [4.0]],
            "cut_off_ms": [2.5],
            "hold_ms_mean": 5.0,
            "seconds": 2.0,
            "failures": 0,
        })
    }

    #[test]
    fn a_wait_that_was_cut_off_counts_with_its_length_so_far() {
        let waits = Waits::read(&printed()).unwrap();
        let shown = [0.2, 0.4, 0.6, 0.8, 1.0].map(|share| waits.percentile(share));
        assert_eq!(shown, [1.0, 2.0, 2.5, 3.0, 4.0]);
    }

    #[test]
    fn fairness_and_rate_count_grants_only() {
        let waits = Waits::read(&printed()).unwrap();
        assert_eq!(waits.fairness(), 16.0 / (2.0 * 10.0));
        assert_eq!(waits.rate(), 2.0);
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
