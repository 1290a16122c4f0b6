//! The methods of measurement: the server's own account of its CPU time, and two sides in turns.

use harness::Server;

/// The CPU time that a server has used so far, in seconds.
///
/// Only that of the main thread, which carries out every command: background threads write files and free
/// memory later, perhaps in the other side's turn.
fn cpu_seconds(server: &Server) -> f64 {
    let info = server.info("cpu");
    let sum = |user: &str, system: &str| -> Option<f64> {
        let field = |name: &str| info.get(name).and_then(|text| text.parse::<f64>().ok());
        Some(field(user)? + field(system)?)
    };
    sum("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        .or_else(|| sum("used_cpu_user", "used_cpu_sys"))
        .expect("INFO cpu has numbers")
}

/// A server's CPU time for some work, in microseconds for each of its operations.
pub fn cpu_micros(server: &Server, operations: usize, work: impl FnOnce()) -> f64 {
    let before = cpu_seconds(server);
    work();
    (cpu_seconds(server) - before) * 1e6 / operations as f64
}

/// The figures of the two sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The middle one of the first side's figures.
    pub ours: f64,
    /// The middle one of the second side's.
    pub theirs: f64,
    /// The middle one of the ratios between neighbours, and not the ratio of the middles: a slow phase of the
    /// machine slows both neighbours down.
    pub ratio: f64,
}

impl Compared {
    /// Compares figures of both sides that were taken one after the other.
    pub fn of_pairs(pairs: &[[f64; 2]]) -> Compared {
        let all = |pick: fn(&[f64; 2]) -> f64| median(pairs.iter().map(pick).collect());
        Compared {
            ours: all(|[ours, _]| *ours),
            theirs: all(|[_, theirs]| *theirs),
            ratio: all(|[ours, theirs]| ours / theirs),
        }
    }

    /// Two figures that were taken once.
    pub fn once(ours: f64, theirs: f64) -> Compared {
        Compared { ours, theirs, ratio: ours / theirs }
    }
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The module, or much of something.
    Ours,
    /// The other side of the comparison.
    Theirs,
}

/// Measures two sides in turns, many times.
pub fn in_turns(rounds: usize, mut measure: impl FnMut(Side) -> f64) -> Compared {
    // Not counted: the first time is always different.
    measure(Side::Ours);
    measure(Side::Theirs);
    let pairs: Vec<[f64; 2]> = (0..rounds)
        .map(|round| {
            if round % 2 == 0 {
                let ours = measure(Side::Ours);
                [ours, measure(Side::Theirs)]
            } else {
                let theirs = measure(Side::Theirs);
                [measure(Side::Ours), theirs]
            }
        })
        .collect();
    Compared::of_pairs(&pairs)
}

/// The middle one.
pub fn median(figures: Vec<f64>) -> f64 {
    percentile(figures, 0.5)
}

/// The least figure that this share of all does not exceed: the nearest rank.
pub fn percentile(mut figures: Vec<f64>, share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    // Products of fractions are not exact.
    let rank = (figures.len() as f64 * share - 1e-9).ceil() as usize;
    figures[rank.clamp(1, figures.len()) - 1]
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one of n has everything, 0 if all have nothing.
pub fn fairness(counts: &[u64]) -> f64 {
    if counts.iter().all(|count| *count == 0) {
        return 0.0;
    }
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    sum * sum / (counts.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::{fairness, percentile};

    #[test]
    fn fairness_is_one_for_equals_and_a_share_for_a_single_winner() {
        assert_eq!(fairness(&[7, 7, 7]), 1.0);
        assert_eq!(fairness(&[9, 0, 0, 0]), 0.25);
        assert_eq!(fairness(&[0, 0]), 0.0);
    }

    #[test]
    fn a_percentile_is_one_of_the_figures() {
        let figures = vec![4.0, 1.0, 3.0, 2.0];
        let shown = [0.0, 0.5, 0.51, 0.99, 1.0].map(|share| percentile(figures.clone(), share));
        assert_eq!(shown, [1.0, 2.0, 3.0, 4.0, 4.0]);
        let hundred = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(hundred, 0.99), 99.0);
    }
}
