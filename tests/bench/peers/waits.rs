//! What clients of one library have waited for one lock.

use serde_json::Value;

use crate::measure::fairness;

/// What was measured of one library.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Its name and version, as its program says them.
    pub library: String,
    /// How long they held the lock, on average, in milliseconds.
    pub hold: f64,
    /// How often taking or giving back failed.
    pub failures: u64,
    /// All waits, the shortest first.
    sorted: Vec<Wait>,
    /// How often each client had the lock.
    counts: Vec<u64>,
    seconds: f64,
}

/// How long somebody waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// In milliseconds.
    pub ms: f64,
    /// The time was over before he had the lock: he would have waited for longer.
    pub cut_off: bool,
}

impl Waits {
    /// From what a program has printed.
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
        let ended = of_clients.into_iter().flatten().map(|ms| Wait { ms, cut_off: false });
        let mut sorted: Vec<Wait> =
            ended.chain(cut_off.into_iter().map(|ms| Wait { ms, cut_off: true })).collect();
        sorted.sort_by(|one, other| one.ms.total_cmp(&other.ms));
        Ok(Waits {
            library: field("library")?.as_str().ok_or("library: no text")?.to_owned(),
            hold: number("hold_ms_mean")?,
            failures: field("failures")?.as_u64().ok_or("failures: no number")?,
            sorted,
            counts,
            seconds: number("seconds")?,
        })
    }

    /// The wait that this share of all does not exceed.
    pub fn percentile(&self, share: f64) -> Wait {
        let place = (self.sorted.len() as f64 * share) as usize;
        self.sorted[place.min(self.sorted.len() - 1)]
    }

    /// The longest wait.
    pub fn longest(&self) -> Wait {
        self.percentile(1.0)
    }

    /// Jain's index of how often each client had the lock.
    pub fn fairness(&self) -> f64 {
        fairness(&self.counts)
    }

    /// How often anybody got the lock, in a second.
    pub fn rate(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64 / self.seconds
    }

    /// The part of the time in which somebody held it.
    pub fn held_share(&self) -> f64 {
        self.rate() * self.hold / 1e3
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

    use super::{Wait, Waits};

    fn printed() -> serde_json::Value {
        json!({
            "library": "some lock 1.0",
            "waits_ms": [[3.0, 1.0, 2.0], [4.0]],
            "cut_off_ms": [2.5],
            "hold_ms_mean": 5.0,
            "seconds": 2.0,
            "failures": 0,
        })
    }

    #[test]
    fn a_wait_that_was_cut_off_counts_among_the_others() {
        let waits = Waits::read(&printed()).unwrap();
        assert_eq!(waits.percentile(0.0), Wait { ms: 1.0, cut_off: false });
        assert_eq!(waits.percentile(0.5), Wait { ms: 2.5, cut_off: true });
        assert_eq!(waits.longest(), Wait { ms: 4.0, cut_off: false });
    }

    #[test]
    fn fairness_and_rate_count_grants_only() {
        let waits = Waits::read(&printed()).unwrap();
        assert_eq!(waits.fairness(), 16.0 / (2.0 * 10.0));
        assert_eq!(waits.rate(), 2.0);
        assert_eq!(waits.held_share(), 0.01);
    }

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        for name in ["library", "waits_ms", "cut_off_ms", "hold_ms_mean", "seconds", "failures"] {
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
    fn a_library_that_nobody_had_a_lock_from_is_refused() {
        let mut figures = printed();
        figures["waits_ms"] = json!([[], []]);
        assert!(Waits::read(&figures).is_err());
        figures["waits_ms"] = json!([[1.0, -1.0]]);
        assert!(Waits::read(&figures).is_err());
    }
}
