//! The HTTP server of `dlock exporter` and `dlock agent`: metrics for Prometheus at `/metrics`, and `/healthz`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::say::stderr;

/// Serves metrics, in Prometheus' text format. Warnings go to stderr.
pub async fn serve<M, T>(listener: TcpListener, metrics: M, as_json: bool)
where
    M: Fn() -> T + Clone + Send + Sync + 'static,
    T: Future<Output = String> + Send,
{
    let open = Arc::new(Semaphore::new(OPEN));
    loop {
        let Ok(connection) = Arc::clone(&open).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = metrics.clone();
                tokio::spawn(async move {
                    let _ = timeout(LONGEST, serve_one(stream, metrics)).await;
                    drop(connection);
                });
            }
            Err(error) => {
                // Too many open files, for example: the cause may pass.
                stderr::warn(
                    "accept",
                    format_args!("cannot accept a connection: {error}"),
                    as_json,
                );
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves one request per connection: an idle one would count among the open ones.
async fn serve_one<T: Future<Output = String>>(stream: TcpStream, metrics: impl Fn() -> T) {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(match (request.method(), request.uri().path()) {
            (_, "/healthz") => answer(StatusCode::OK, TEXT, "ok\n"),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                answer(StatusCode::OK, METRICS, metrics().await)
            }
            (_, "/metrics") => answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n"),
            _ => answer(StatusCode::NOT_FOUND, TEXT, "valid paths: /metrics, /healthz\n"),
        })
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS).keep_alive(false);
    // A broken connection needs no error.
    let _ = server.max_buf_size(16 * 1024).serve_connection(TokioIo::new(stream), service).await;
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Metrics in Prometheus' text format, which every tool reads.
pub fn encoded(collector: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = encode(&mut text, &registry);
    plain(&text)
}

/// Converts OpenMetrics to Prometheus' text format. That lacks units, infos and a mark of the end, and names a
/// counter by its series.
fn plain(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let kinds: BTreeMap<&str, &str> =
        lines.iter().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let suffix = |name: &str| match kinds.get(name) {
        Some(&"counter") => "_total",
        Some(&"info") => "_info",
        _ => "",
    };
    let mut plain = String::with_capacity(text.len());
    for line in &lines {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                let rest = if (what, rest) == ("TYPE", "info") { "gauge" } else { rest };
                plain.push_str(&format!("# {what} {name}{} {rest}\n", suffix(name)));
            }
            (Some("#"), ..) => {}
            _ => {
                plain.push_str(line);
                plain.push('\n');
            }
        }
    }
    plain
}

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Limit of open connections. Further ones wait in the kernel.
const OPEN: usize = 512;
/// Time-out for the arrival of a request.
const HEADERS: Duration = Duration::from_secs(5);
/// Limit of a connection's length.
const LONGEST: Duration = Duration::from_secs(20);
