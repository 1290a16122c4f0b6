//! The arguments of `dlock bench`, and their limits.

use std::time::Duration;

use clap::ValueEnum;

use super::round::Round;
use crate::say::duration;

/// Measure the nodes: cost of a lock, waits, fairness
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// How many clients want the same lock (contended), from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: u16,

    /// How long each of them holds it: from 0 to 10s
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = hold)]
    hold: Duration,

    /// How long each part is measured: from 100ms to 10m (contended warms up before that)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub time: Duration,

    /// The leases, from 100ms to 10m: if this command is killed, nothing of it is left after so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = ttl)]
    pub ttl: Duration,

    /// Only these parts
    #[arg(long, value_name = "PART,…", value_delimiter = ',', default_values_t = Part::ALL)]
    only: Vec<Part>,

    /// Draw the waits and the grants of each client (contended) into this file, as SVG
    #[cfg(feature = "plot")]
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<std::path::PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Each node by itself: what it costs to take a free lock and to give it back
    Cycle,
    /// All nodes together: the same, beside a PING to all
    Quorum,
    /// Many clients, one lock: how long they wait, and whether all get the same
    Contended,
}

impl Part {
    const ALL: [Part; 3] = [Part::Cycle, Part::Quorum, Part::Contended];
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Cycle => "cycle",
            Part::Quorum => "quorum",
            Part::Contended => "contended",
        })
    }
}

impl Args {
    pub fn round(&self) -> Round {
        Round { clients: self.clients, hold: self.hold, time: self.time }
    }

    pub fn has(&self, part: Part) -> bool {
        self.only.contains(&part)
    }
}

fn hold(text: &str) -> Result<Duration, String> {
    within(duration::parse(text)?, Duration::ZERO..=Duration::from_secs(10), "0ms to 10s")
}

fn time(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_millis(100)..=Duration::from_secs(600);
    within(duration::parse(text)?, limits, "100ms to 10m")
}

fn ttl(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_millis(100)..=Duration::from_secs(600);
    within(duration::parse(text)?, limits, "100ms to 10m")
}

fn within(
    given: Duration,
    limits: std::ops::RangeInclusive<Duration>,
    said: &str,
) -> Result<Duration, String> {
    if limits.contains(&given) { Ok(given) } else { Err(format!("it can be from {said}")) }
}

const NOTES: &str = "\
The load is bounded: each client has one request under way, and sends the next when that is
answered. `cycle` and `quorum` are one client; still, on a fast network one client keeps a node's
processor busy (cycle). `contended` is --clients of them, each with connections of its own: up to
2 x --clients to a node. To begin gently, where others use the nodes:

  dlock bench --only cycle --time 500ms

The keys are dlock-bench:<random>:…, so no lock of anybody else is touched, and two runs at once do
not meet; a user of the nodes needs a right to such keys. Nothing is left behind, also after Ctrl-C.

The parts:
  cycle      ACQUIRE and RELEASE on each node by itself, in turns with a PING: which node is slow.
             A PING writes nothing, so with an append-only file most of the difference is the file
  quorum     the same over all nodes, by the library, in turns with a PING to all of them.
             Acquisitions that failed are counted (FAILURES), and are in no percentile
  contended  a lock goes round. On top of --time come a warm-up, in which all connect and each has
             the lock once (who did not is counted: in JSON cold), and a last round for those that
             still wait when the time is over. Where --time is short, both are cut short as well

What `contended` shows:
  HELD       for which share of the time somebody held the lock
  JAIN       Jain's index of fairness: 1 if all clients got the same, 1/n if one of n got all
  WAIT       from the ask to the grant, failures on the way included. ≥: at least, because waits at
             or below this rank were cut off at the end (in JSON wait_at_least_ms)
  ONE ROUND  clients x hold (in JSON ideal_ms): what the lock takes to go round, if handing over
             costs nothing. A wait is one hold less: those of the others

  dlock bench --clients 50 --hold 20ms --time 30s --plot waits.svg

Exit codes: 0 measured; 69 no majority of the nodes; 64 wrong usage; 128+n if signal n ended it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limits_is_refused_by_their_name() {
        assert_eq!(hold("0"), Ok(Duration::ZERO));
        assert_eq!(hold("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(hold("10.1s"), Err("it can be from 0ms to 10s".to_owned()));
        assert_eq!(time("99ms"), Err("it can be from 100ms to 10m".to_owned()));
        assert!(time("10m").is_ok() && time("601").is_err());
        assert!(
            ttl("100ms").is_ok()
                && ttl("99ms").is_err()
                && ttl("10m").is_ok()
                && ttl("601").is_err()
        );
    }
}
