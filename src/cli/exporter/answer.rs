//! Which request gets what.

use dlock_client::Token;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use super::hosts::Hosts;
use super::metrics;

/// The content of a site.
pub trait Shown: Send + Sync + 'static {
    /// The metrics, in the OpenMetrics format.
    fn metrics(&self) -> impl Future<Output = String> + Send;

    /// The content of the page, as JSON. `None`: there is no page.
    fn state(&self) -> impl Future<Output = Option<String>> + Send;
}

/// The parts of the site from which requests are answered.
pub struct Site<S> {
    pub shown: S,
    /// The names by which it is called. `None`: any.
    pub hosts: Option<Hosts>,
}

type HttpResponse = Response<Full<Bytes>>;

impl<S: Shown> Site<S> {
    /// The answer to a request.
    pub async fn answer(&self, request: &Request<Incoming>) -> HttpResponse {
        let path = request.uri().path();
        if is_health(request) {
            return text(StatusCode::OK, "ok\n");
        }
        let allows = |hosts: &Hosts| hosts.allow(request.uri(), request.headers());
        if !self.hosts.as_ref().is_none_or(allows) {
            return text(StatusCode::MISDIRECTED_REQUEST, NOT_MEANT);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        }
        match path {
            "/metrics" => {
                let text = self.shown.metrics().await;
                match accepts_open_metrics(request.headers()) {
                    true => answer(StatusCode::OK, metrics::TYPE, text),
                    false => answer(StatusCode::OK, metrics::PLAIN_TYPE, metrics::plain(&text)),
                }
            }
            "/" | "/state" => self.page(path).await,
            _ => nothing(),
        }
    }

    async fn page(&self, path: &str) -> HttpResponse {
        let Some(hosts) = &self.hosts else { return nothing() };
        if !hosts.is_local {
            return text(StatusCode::FORBIDDEN, LOCAL_ONLY);
        }
        if path == "/" {
            return page();
        }
        match self.shown.state().await {
            Some(state) => answer(StatusCode::OK, "application/json", state),
            None => nothing(),
        }
    }
}

/// True for the probe of this program's health, which needs nothing of the nodes.
pub fn is_health<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/healthz"
}

fn nothing() -> HttpResponse {
    text(StatusCode::NOT_FOUND, "there is nothing here; /metrics and /healthz are there\n")
}

/// True if a client wants the OpenMetrics format at least as much as Prometheus' text format. Who says nothing
/// of it, as curl, gets the other one, which every tool reads.
fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let ranges: Vec<(&str, f32)> = lines.flat_map(|line| line.split(',')).map(range).collect();
    let wanted = |kind: &str| {
        let asked = ranges.iter().filter(|(range, _)| range.eq_ignore_ascii_case(kind));
        asked.map(|(_, quality)| *quality).fold(0.0, f32::max)
    };
    let open = wanted("application/openmetrics-text");
    open > 0.0 && open >= wanted("text/plain")
}

/// A media range without its parameters, and how much it is wanted.
fn range(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    (kind, quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0)))
}

/// The page. Nothing runs in it but its own script, which this answer alone names.
fn page() -> HttpResponse {
    let token = Token::random();
    let nonce = token.as_str();
    let mut page = answer(StatusCode::OK, "text/html; charset=utf-8", PAGE.replace("NONCE", nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    page
}

fn text(status: StatusCode, text: &'static str) -> HttpResponse {
    answer(status, "text/plain; charset=utf-8", text)
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Headers of every answer.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const PAGE: &str = include_str!("page.html");
const NOT_MEANT: &str = "this server is not called so: see --host\n";
const LOCAL_ONLY: &str = "the page is shown on this machine only: listen on a loopback address\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_a_client_wants_more() {
        let accepts = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            accepts_open_metrics(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert!(accepts(prometheus));
        assert!(accepts("Application/OpenMetrics-Text; version=1.0.0"));
        for other in [
            "text/plain;version=0.0.4",
            "*/*",
            "",
            "text/html, */*;q=0.1",
            "text/plain, application/openmetrics-text;q=0.9",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=nonsense",
        ] {
            assert!(!accepts(other), "{other}");
        }
        assert!(!accepts_open_metrics(&HeaderMap::new()));
    }
}
