//! The report of `dlock bench --json`, and what must be true of it on any machine.

use harness::program::Said;
use serde_json::Value;

/// The report of a run, by part.
pub struct Report {
    pub cycles: Vec<Value>,
    pub quorum: Option<Value>,
    pub contended: Option<Value>,
}

impl Report {
    /// Reads it. A part that was not asked for has said nothing.
    #[track_caller]
    pub fn read(said: &Said) -> Report {
        let mut report = Report { cycles: Vec::new(), quorum: None, contended: None };
        for line in said.json() {
            match line["part"].as_str() {
                Some("cycle") => report.cycles.push(line),
                Some("quorum") => assert!(report.quorum.replace(line).is_none(), "{said:#?}"),
                Some("contended") => assert!(report.contended.replace(line).is_none(), "{said:#?}"),
                _ => panic!("no part: {line}"),
            }
        }
        report
    }

    /// The figures of the contended lock.
    #[track_caller]
    pub fn contended(&self) -> &Value {
        self.contended.as_ref().expect("the part `contended` has said something")
    }
}

/// A number of a line, such as `acquire_us/p50`.
#[track_caller]
pub fn number(line: &Value, path: &str) -> f64 {
    let number = line.pointer(&format!("/{path}")).and_then(Value::as_f64);
    let number = number.unwrap_or_else(|| panic!("no number {path}: {line}"));
    assert!(number.is_finite() && number >= 0.0, "{path}: {line}");
    number
}

/// Numbers of a line, none of which is smaller than the one before.
#[track_caller]
fn assert_in_order(line: &Value, paths: &[&str]) {
    let numbers: Vec<f64> = paths.iter().map(|path| number(line, path)).collect();
    assert!(numbers.is_sorted(), "{paths:?} are {numbers:?}: {line}");
}

/// Asserts that two numbers are the same, but for the digits that are not shown.
#[track_caller]
fn assert_about(one: f64, other: f64, line: &Value) {
    let allowed = 0.02 * other.abs() + 0.1;
    assert!((one - other).abs() <= allowed, "{one} is not about {other}: {line}");
}

#[track_caller]
pub fn assert_cycle(line: &Value, node: &str) {
    assert_eq!(line["node"], node, "{line}");
    assert!(line.get("error").is_none_or(Value::is_null), "{line}");
    for part in ["acquire_us", "release_us"] {
        assert_in_order(line, &[&format!("{part}/p50"), &format!("{part}/p99")]);
        assert!(number(line, &format!("{part}/p50")) > 0.0, "{line}");
    }
    assert!(number(line, "ping_us/p50") > 0.0, "{line}");
    // Half of all acquisitions take the median at least, so the mean is at least half of it.
    let half = (number(line, "acquire_us/p50") + number(line, "release_us/p50")) / 2.0;
    let per_second = number(line, "cycles_per_s");
    assert!(per_second > 0.0 && per_second <= 1.05 * 1e6 / half, "{line}");
}

#[track_caller]
pub fn assert_quorum(line: &Value, nodes: usize) {
    assert_eq!(line["nodes"], nodes, "{line}");
    assert_in_order(line, &["acquire_us/p50", "acquire_us/p99", "acquire_us/max"]);
    assert!(number(line, "acquire_us/p50") > 0.0, "{line}");
    assert!(number(line, "release_us/p50") > 0.0, "{line}");
    let ping = number(line, "ping_all_us/p50");
    assert!(ping > 0.0, "{line}");
    assert_about(number(line, "to_ping"), number(line, "acquire_us/p50") / ping, line);
}

/// A percentile of the waits, or what it is at least.
#[track_caller]
fn wait(line: &Value, percentile: &str) -> f64 {
    let known = !line["wait_ms"][percentile].is_null();
    let at_least = &line["wait_at_least_ms"][percentile];
    assert!(known == at_least.is_null(), "it is known, or what it is at least: {line}");
    number(line, &format!("{}/{percentile}", if known { "wait_ms" } else { "wait_at_least_ms" }))
}

#[track_caller]
pub fn assert_contended(line: &Value, nodes: usize, clients: u32, hold_ms: f64) {
    let clients = f64::from(clients);
    assert_eq!((&line["nodes"], number(line, "clients")), (&nodes.into(), clients), "{line}");
    assert_about(number(line, "hold_ms"), hold_ms, line);
    assert_about(number(line, "ideal_ms"), clients * hold_ms, line);
    let grants = line["grants"].as_u64().expect("a whole number") as f64;
    assert!(line["failures"].is_u64(), "{line}");
    assert!(grants >= 1.0, "{line}");
    let (least, most) = (number(line, "least"), number(line, "most"));
    assert!(least <= most && clients * least <= grants && grants <= clients * most, "{line}");

    let seconds = number(line, "seconds");
    let per_second = number(line, "per_second");
    let counted_otherwise = 2.0 / seconds;
    assert!(
        (per_second - grants / seconds).abs() <= 0.05 * per_second + counted_otherwise,
        "{line}"
    );
    assert!(number(line, "held_share") <= 1.0, "{line}");
    // Nobody else has it while it is held. At most one hold began before the end and lasted longer.
    assert!((grants - 1.0) * hold_ms <= seconds * 1000.0 + clients * hold_ms, "{line}");

    let waits = ["p50", "p90", "p99", "p999", "max"].map(|percentile| wait(line, percentile));
    assert!(waits.is_sorted(), "{line}");
    // From one that is not known on, none is.
    let unknown = |percentile: &str| line["wait_ms"][percentile].is_null();
    assert!(["p50", "p90", "p99", "p999", "max"].map(unknown).is_sorted(), "{line}");
    assert_eq!(unknown("max"), number(line, "unserved") > 0.0, "{line}");
    if hold_ms > 0.0 && clients > 1.0 && !unknown("p99") {
        let ideal = number(line, "ideal_ms");
        assert_about(number(line, "p99_to_ideal"), wait(line, "p99") / ideal, line);
    } else {
        assert!(line["p99_to_ideal"].is_null(), "{line}");
    }
    // Of all numbers between these two, half and half are the least fair.
    let jain = number(line, "jain");
    let least_fair = 4.0 * least * most / (least + most).powi(2);
    assert!(jain > 0.0 && jain <= 1.0 && jain >= least_fair - 0.01, "{line}");
    if least == most {
        assert_about(jain, 1.0, line);
    }
}
