//! How is measured: the server's own account of its CPU time, and two sides in turns.

use harness::Server;

/// What a server has spent so far.
///
/// The main thread alone, which carries out every command: background threads write files and free
/// memory when they get to it, which may be in somebody else's turn.
pub fn cpu_seconds(server: &Server) -> f64 {
    let info = server.info("cpu");
    let sum = |user: &str, system: &str| -> Option<f64> {
        let field = |name: &str| info.get(name).and_then(|text| text.parse::<f64>().ok());
        Some(field(user)? + field(system)?)
    };
    sum("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        .or_else(|| sum("used_cpu_user", "used_cpu_sys"))
        .expect("INFO cpu has numbers")
}

/// What a server spends on some work, in microseconds for each of its operations.
pub fn cpu_micros(server: &Server, operations: usize, work: impl FnOnce()) -> f64 {
    let before = cpu_seconds(server);
    work();
    (cpu_seconds(server) - before) * 1e6 / operations as f64
}

/// What two sides of a comparison come to.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The middle one of the first side's figures.
    pub ours: f64,
    /// The middle one of the second side's.
    pub theirs: f64,
    /// The middle one of the ratios between neighbours, which is not the ratio of the middles:
    /// what slows the machine down for a while slows both neighbours down.
    pub ratio: f64,
}

/// Measures two sides in turns, many times.
pub fn in_turns(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) -> Compared {
    // Not counted: the first time is never like the others.
    ours();
    theirs();
    let mut all: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        let (a, b) = if round % 2 == 0 {
            let a = ours();
            (a, theirs())
        } else {
            let b = theirs();
            (ours(), b)
        };
        for (figures, figure) in all.iter_mut().zip([a, b, a / b]) {
            figures.push(figure);
        }
    }
    let [ours, theirs, ratio] = all.map(median);
    Compared { ours, theirs, ratio }
}

/// The middle one.
pub fn median(figures: Vec<f64>) -> f64 {
    percentile(figures, 0.5)
}

/// The figure that this share of all does not exceed.
pub fn percentile(mut figures: Vec<f64>, share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let place = (figures.len() as f64 * share) as usize;
    figures[place.min(figures.len() - 1)]
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one of n has everything.
pub fn fairness(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    sum * sum / (counts.len() as f64 * squares)
}
