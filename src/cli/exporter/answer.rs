//! Which request gets what.

use dlock_client::Token;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::door::Door;
use super::lookout::Lookout;
use super::web::{Visit, Web};
use super::{metrics, state};

/// What answers are made of.
pub struct Desk {
    pub lookout: Lookout,
    pub door: Door,
    pub shows_meta: bool,
    /// Who may come in, if not everybody.
    pub web: Option<Web>,
}

type HttpResponse = Response<Full<Bytes>>;

impl Desk {
    /// The answer to a request.
    pub async fn answer(&self, request: &Request<Incoming>, visit: &Visit) -> HttpResponse {
        let path = request.uri().path();
        if path == "/healthz" {
            return text(StatusCode::OK, "ok\n");
        }
        if !self.door.is_meant(request.uri(), request.headers()) {
            return text(StatusCode::MISDIRECTED_REQUEST, NOT_MEANT);
        }
        if let Some(users) = &visit.users
            && !users.know(request.headers()).await
        {
            return who_are_you();
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        }
        match path {
            "/metrics" => {
                let look = self.lookout.look().await;
                answer(StatusCode::OK, metrics::TYPE, metrics::text(look))
            }
            "/" | "/state" if !self.door.is_local && !visit.is_known => {
                text(StatusCode::FORBIDDEN, LOCAL_ONLY)
            }
            "/" => page(),
            "/state" => {
                let look = self.lookout.look().await;
                let state = state::of(&look, self.shows_meta).to_string();
                answer(StatusCode::OK, "application/json", state)
            }
            _ => text(StatusCode::NOT_FOUND, "there are /, /metrics and /healthz\n"),
        }
    }
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

fn who_are_you() -> HttpResponse {
    let mut answer = text(StatusCode::UNAUTHORIZED, "name and password, please\n");
    let challenge = HeaderValue::from_static("Basic realm=\"dlock\", charset=\"UTF-8\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    answer
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

/// What every answer says.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const PAGE: &str = include_str!("page.html");
const NOT_MEANT: &str = "this server is not called so: see --host\n";
const LOCAL_ONLY: &str = "the page is shown on this machine only: listen on a loopback address, or let \
                          --web-config ask who comes\n";
