//! The client library's telemetry in OpenTelemetry. A process of its own: the subscriber is set once for all.

// The example calls the library as its users do.
extern crate dlock_client as dlock_redis;

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_client::{Client, LossReason};
use harness::library::{assert_held, connect, run, take};
use harness::{Quorum, eventually};
use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::InMemoryMetricExporter;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SpanData};
use tokio::select;

#[path = "../src/client/examples/otel.rs"]
#[allow(dead_code)] // its main
mod example;

use example::{Telemetry, two_jobs};

#[test]
fn an_application_sees_how_its_locks_fare() {
    let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
    let telemetry = Telemetry::start(spans.clone(), metrics.clone());
    let mut quorum = Quorum::start(3);
    run(async {
        two_jobs(&quorum.urls().join(",")).await.expect("all is well");
        let client = connect(&quorum.urls(), Duration::from_secs(10)).await;
        fails_to_acquire(&client, &quorum).await;
        loses(&client, &quorum).await;
        let guard = take(&client, "c", Duration::from_secs(3)).await;
        quorum[2].kill();
        let failed = unreachable(&quorum[2].url());
        eventually("it is seen that the lock is not renewed there", || {
            telemetry.counts.force_flush().expect("it is not over");
            counted(&metrics).contains_key(&failed)
        });
        guard.release().await.expect("two nodes are a majority");
        client.close().await;
    });
    telemetry.spans.force_flush().expect("they are exported");
    // Figures kept in memory are forgotten at the end.
    let spans = spans.get_finished_spans().expect("they are kept");
    telemetry.end().expect("it is exported");
    let counts = counted(&metrics);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    for (name, expected) in [
        ("dlock.client.acquisition.duration/s", 5),
        ("dlock.client.acquisition.duration/s error.type=held", 1),
        ("dlock.client.acquisition.duration/s error.type=given_up", 1),
        ("dlock.client.hold.duration/s", 5),
        ("dlock.client.losses/{loss} error.type=ended", 1),
    ] {
        assert_eq!(count(name), expected, "{name} of {counts:#?}");
    }
    // One of the jobs waited, and so did the attempt that gave up. A waiter that goes to another gate waits twice.
    assert!(count("dlock.client.wait.duration/s") >= 2, "{counts:#?}");
    assert_spans(&spans);
}

/// The name and attributes of the counter of failed renewals at a node that is down.
fn unreachable(node: &str) -> String {
    format!("dlock.client.failed_renewals/{{request}} error.type=unreachable server.address={node}")
}

/// One that does not wait for a lock that is held, and one that gives up.
async fn fails_to_acquire(client: &Client, quorum: &Quorum) {
    let guard = take(client, "a", Duration::from_secs(30)).await;
    assert_held(client.lock("a").try_acquire().await);
    let queued = async {
        while !quorum.iter().any(|node| node.node("waiters").int() == 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    select! {
        _ = client.lock("a").acquire() => panic!("it is held"),
        () = queued => {}
    }
    guard.release().await.expect("it is held");
}

async fn loses(client: &Client, quorum: &Quorum) {
    let guard = take(client, "b", Duration::from_secs(3)).await;
    for node in quorum.iter() {
        node.run("DLOCK.BREAK b");
    }
    assert!(matches!(guard.lost().await.why, LossReason::Ended { .. }));
}

/// Both acquisitions of the example (one of them waited), and the failures.
#[track_caller]
fn assert_spans(spans: &[SpanData]) {
    let has = |span: &SpanData, key: &'static str, value: &str| {
        span.attributes.contains(&KeyValue::new(key, value.to_owned()))
    };
    let named = |name: &'static str| spans.iter().filter(move |span| span.name == name);
    let of_example = |span: &&SpanData| has(span, "key", "example:otel");
    assert_eq!(named("acquire").filter(of_example).count(), 2);
    assert_eq!(named("hold").filter(of_example).count(), 2);
    let wait = named("wait").find(of_example).expect("one had to wait");
    let told = |span: &SpanData| span.span_context.span_id() == wait.parent_span_id;
    assert!(named("acquire").filter(of_example).any(told), "a wait is a part of an acquisition");
    for why in ["held", "given_up"] {
        assert!(named("acquire").any(|span| has(span, "error.type", why)), "{why} in {spans:#?}");
    }
}

/// The counts, each by its name, unit and attributes.
fn counted(metrics: &InMemoryMetricExporter) -> BTreeMap<String, u64> {
    let exports = metrics.get_finished_metrics().expect("they are kept");
    let newest = exports.last().into_iter().flat_map(|export| export.scope_metrics());
    newest.flat_map(|scope| scope.metrics()).flat_map(points).collect()
}

fn points(metric: &Metric) -> Vec<(String, u64)> {
    match metric.data() {
        AggregatedMetrics::F64(MetricData::Histogram(times)) => times
            .data_points()
            .map(|point| (name(metric, point.attributes()), point.count()))
            .collect(),
        AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
            .data_points()
            .map(|point| (name(metric, point.attributes()), point.value()))
            .collect(),
        other => panic!("what is {}: {other:?}", metric.name()),
    }
}

fn name<'a>(metric: &Metric, attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    let shown = |one: &KeyValue| format!(" {}={}", one.key, one.value);
    let mut attributes: Vec<String> = attributes.map(shown).collect();
    attributes.sort();
    format!("{}/{}{}", metric.name(), metric.unit(), attributes.concat())
}
