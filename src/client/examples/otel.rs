//! OpenTelemetry traces and metrics of an application's locks: `cargo run -p dlock-redis --features otel
//! --example otel`, with nodes in DLOCK_NODES. The example prints what others send to a collector.

use std::env;
use std::error::Error;
use std::time::Duration;

use dlock_redis::Client;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes = env::var("DLOCK_NODES").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let (spans, counts) = (
        opentelemetry_stdout::SpanExporter::default(),
        opentelemetry_stdout::MetricExporter::default(),
    );
    let telemetry = Telemetry::start(spans, counts);
    let done = two_jobs(&nodes).await;
    telemetry.end()?;
    done
}

/// Providers that keep spans and metrics until they are exported.
pub struct Telemetry {
    /// Exports spans every five seconds.
    pub spans: SdkTracerProvider,
    /// Exports metrics every minute.
    pub counts: SdkMeterProvider,
}

impl Telemetry {
    /// Exports spans and metrics of all clients that are made from now on.
    pub fn start(spans: impl SpanExporter + 'static, counts: impl PushMetricExporter) -> Telemetry {
        // A client takes the meter provider that is set when it is made.
        let counts = SdkMeterProvider::builder().with_periodic_exporter(counts).build();
        global::set_meter_provider(counts.clone());
        // Spans are of the level DEBUG.
        let spans = SdkTracerProvider::builder().with_batch_exporter(spans).build();
        let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("example"));
        let of_dlock = Targets::new().with_target("dlock_redis", LevelFilter::DEBUG);
        tracing_subscriber::registry().with(layer.with_filter(of_dlock)).init();
        Telemetry { spans, counts }
    }

    /// Exports the rest.
    pub fn end(self) -> Result<(), OTelSdkError> {
        self.spans.shutdown()?;
        self.counts.shutdown()
    }
}

/// Two jobs that want the same lock: one has to wait for the other.
pub async fn two_jobs(nodes: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(nodes).await?;
    let job = async || client.lock("example:otel").run(async |_| work().await).await;
    let (first, second) = tokio::join!(job(), job());
    first.and(second)?;
    client.close().await;
    Ok(())
}

async fn work() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
