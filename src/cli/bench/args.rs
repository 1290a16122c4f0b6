//! The arguments of `dlock bench`, and their limits.

use std::time::Duration;

use clap::ValueEnum;

use super::round::Round;
use crate::say::duration;

/// Measure the nodes: cost of a lock, waits, fairness
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Number of clients that want the same lock (contended), from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: u16,

    /// Time for which each of them holds it: between 0 and 10s
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = hold)]
    hold: Duration,

    /// Length of each part's measurement: between 100ms and 10m (contended warms up before that)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub time: Duration,

    /// The leases, between 100ms and 10m: if this command is killed, its locks are gone after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = ttl)]
    pub ttl: Duration,

    /// Only these parts
    #[arg(long, value_name = "PART,…", value_delimiter = ',', default_values_t = Part::ALL)]
    only: Vec<Part>,
}

/// The parts of the measurement.
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
    within(duration::parse(text)?, Duration::ZERO..=Duration::from_secs(10), "0ms and 10s")
}

fn time(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_millis(100)..=Duration::from_secs(600);
    within(duration::parse(text)?, limits, "100ms and 10m")
}

fn ttl(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_millis(100)..=Duration::from_secs(600);
    within(duration::parse(text)?, limits, "100ms and 10m")
}

fn within(
    given: Duration,
    limits: std::ops::RangeInclusive<Duration>,
    said: &str,
) -> Result<Duration, String> {
    if limits.contains(&given) { Ok(given) } else { Err(format!("must be between {said}")) }
}

const NOTES: &str = "\
The load is bounded: each client has one request under way, and sends the next after the answer.
`cycle` and `quorum` are one client each, but on a fast network one client can keep a node's processor
busy. `contended` is --clients clients, each with connections of its own: up to 2 x --clients to each
node. If others use the nodes, begin gently:

  dlock bench --only cycle --time 500ms

All keys begin with dlock-bench:<random>, so a run touches no lock of anybody else, nor of another run;
the user needs a right to such keys. A run leaves nothing behind, also after Ctrl-C.

The parts:
  cycle      ACQUIRE and RELEASE on each node by itself, in turns with a PING: which node is slow.
             A PING writes nothing, so with an append-only file most of the difference is the file
  quorum     the same over all nodes, by the library, in turns with a PING to all of them.
             Failed acquisitions are counted (FAILURES), and are in no percentile
  contended  many clients take turns with one lock. Before --time there is a warm-up: all clients
             connect and each takes the lock once (JSON counts in `cold` those that did not). After
             --time there is a last round for clients that still wait. If --time is short, both are
             short as well

What `contended` shows:
  HELD       the share of the time for which somebody held the lock
  JAIN       Jain's index of fairness: 1 if all clients got the same, 1/n if one of n got all
  WAIT       from the request to the grant, with failures on the way. ≥ means at least: waits at or
             below this rank were cut off at the end (in JSON wait_at_least_ms)
  ONE ROUND  clients x hold (in JSON ideal_ms): how long a round takes if handing over costs nothing.
             A wait is one hold less: the holds of the others

  dlock bench --clients 50 --hold 20ms --time 30s

Exit codes: 0 measured; 69 no majority of the nodes; 64 wrong usage; 128+n if signal n ended it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limits_is_refused_by_their_name() {
        assert_eq!(hold("0"), Ok(Duration::ZERO));
        assert_eq!(hold("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(hold("10.1s"), Err("must be between 0ms and 10s".to_owned()));
        assert_eq!(time("99ms"), Err("must be between 100ms and 10m".to_owned()));
        assert!(time("10m").is_ok() && time("601").is_err());
        assert!(
            ttl("100ms").is_ok()
                && ttl("99ms").is_err()
                && ttl("10m").is_ok()
                && ttl("601").is_err()
        );
    }
}
