//! The results as JSON: an object for each node of `cycle`, and one for each other part.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::contended::Contended;
use super::cycle::Cycle;
use super::figures::{Percentile, Times};
use super::quorum::Quorum;

pub fn cycle(node: &str, row: &Result<Cycle, String>) -> Value {
    match row {
        Ok(row) => json!({
            "part": "cycle",
            "node": node,
            "acquire_us": { "p50": micros(row.acquire.p50()), "p99": micros(row.acquire.p99()) },
            "release_us": { "p50": micros(row.release.p50()), "p99": micros(row.release.p99()) },
            "ping_us": ping(&row.ping),
            "cycles_per_s": rounded(row.per_second(), 1),
        }),
        Err(error) => json!({ "part": "cycle", "node": node, "error": error }),
    }
}

pub fn quorum(found: &Quorum) -> Value {
    json!({
        "part": "quorum",
        "nodes": found.nodes,
        "acquire_us": {
            "p50": micros(found.acquire.p50()),
            "p99": micros(found.acquire.p99()),
            "max": micros(found.acquire.max()),
        },
        "release_us": { "p50": micros(found.release.p50()), "p99": micros(found.release.p99()) },
        "ping_all_us": ping(&found.ping_all),
        "to_ping": found.to_ping().map(|ratio| rounded(ratio, 3)),
        "failures": found.failures,
    })
}

pub fn contended(found: &Contended) -> Value {
    let counts = &found.counts;
    let (mut waits, mut at_least) = (Map::new(), Map::new());
    for (name, share) in PERCENTILES {
        let wait = counts.waits.at(share);
        let known = wait.and_then(Percentile::exactly);
        waits.insert(name.to_owned(), known.map_or(Value::Null, millis));
        if let Some(Percentile::AtLeast(time)) = wait {
            at_least.insert(name.to_owned(), millis(time));
        }
    }
    json!({
        "part": "contended",
        "nodes": found.nodes,
        "clients": found.clients(),
        "hold_ms": millis(found.hold),
        "seconds": rounded(found.took.as_secs_f64(), 3),
        "grants": counts.total(),
        "per_second": rounded(found.per_second(), 1),
        "held_share": rounded(found.held_share(), 4),
        "wait_ms": waits,
        "wait_at_least_ms": at_least,
        "ideal_ms": millis(found.one_round()),
        "p99_to_ideal": found.p99_to_round().map(|ratio| rounded(ratio, 3)),
        "jain": found.jain().map(|jain| rounded(jain, 4)),
        "least": counts.least(),
        "most": counts.most(),
        "failures": counts.failures,
        "unserved": counts.unserved,
        "cold": counts.cold,
    })
}

fn ping(times: &Times) -> Value {
    if times.is_empty() { Value::Null } else { json!({ "p50": micros(times.p50()) }) }
}

fn micros(time: Duration) -> Value {
    rounded(time.as_secs_f64() * 1e6, 1)
}

fn millis(time: Duration) -> Value {
    rounded(time.as_secs_f64() * 1e3, 3)
}

/// A whole number is written as one.
fn rounded(value: f64, decimals: i32) -> Value {
    let factor = 10_f64.powi(decimals);
    let value = (value * factor).round() / factor;
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_as_such() {
        assert_eq!(millis(Duration::from_millis(5)).to_string(), "5");
        assert_eq!(millis(Duration::from_micros(500)).to_string(), "0.5");
        assert_eq!(micros(Duration::from_nanos(45_678)).to_string(), "45.7");
        assert_eq!(rounded(0.99996, 4).to_string(), "1");
    }
}
