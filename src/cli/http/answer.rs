//! The answer to each request.

use dlock_client::Token;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::hosts::Hosts;

/// The content of a site.
pub trait Content: Send + Sync + 'static {
    /// The metrics, in Prometheus' text format.
    fn metrics(&self) -> impl Future<Output = String> + Send;

    /// The content of the page, as JSON. `None`: there is no page.
    fn state(&self) -> impl Future<Output = Option<String>> + Send;
}

/// A site: its content, and the hosts it answers for.
pub struct Site<S> {
    pub content: S,
    /// The accepted names of the server. `None`: any.
    pub hosts: Option<Hosts>,
}

type HttpResponse = Response<Full<Bytes>>;

impl<S: Content> Site<S> {
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
            "/metrics" => answer(StatusCode::OK, METRICS, self.content.metrics().await),
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
        match self.content.state().await {
            Some(state) => answer(StatusCode::OK, "application/json", state),
            None => nothing(),
        }
    }
}

/// True for the probe of this program's health, which asks no node.
pub fn is_health<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/healthz"
}

fn nothing() -> HttpResponse {
    text(StatusCode::NOT_FOUND, "there is nothing here; /metrics and /healthz are there\n")
}

/// The page. Its own script is the only one that the browser runs there: a random name in this answer permits
/// it.
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

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PAGE: &str = include_str!("page.html");
const NOT_MEANT: &str = "this server is not called so: see --host\n";
const LOCAL_ONLY: &str = "the page is shown on this machine only: listen on a loopback address\n";
