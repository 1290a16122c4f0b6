//! The libraries for Python and Node.js, where a node is more than one server, or behind TLS. Their behaviour
//! is the Rust library's; these tests check that it arrives in the other languages. The tests that need
//! single servers are in `tests/python` and `tests/nodejs`, in their languages.

mod speaker;

use std::time::Duration;

use harness::watched::Watched;
use harness::{Certificates, Kind, Server, apply, eventually};
use speaker::{Language, Speaker, in_every_language};

/// A server that does not answer must be left in time to find another.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Long enough for all servers to answer, even on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

#[apply(in_every_language)]
fn a_lock_is_held_while_sentinels_promote_another_server(language: Language) {
    let mut node = Watched::start(Kind::Redis82, 1);
    let mut program = Speaker::start(language, &node.url(), NODE_TIMEOUT);
    let fence = program.fence("lock job");
    node.until_followed(0);
    node.servers[0].kill();
    let now = node.promoted(0, &[0, 1, 2]);
    until_renewed_at(&node.servers[now]);
    assert_eq!(program.fence("check job"), fence);
    assert_eq!(program.ask("release job"), "released");
}

#[apply(in_every_language)]
fn a_lock_of_a_server_behind_tls_is_held(language: Language) {
    let certificates = Certificates::valid();
    let (server, port) = certificates.server("yes");
    let server = server.start();
    let file = |name: &str| certificates.path(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("node.pem"), file("node.key"));
    let url = format!("rediss://127.0.0.1:{port}?ca={ca}&cert={cert}&key={key}");
    let mut program = Speaker::start(language, &url, PATIENT);
    let fence = program.fence("lock job");
    assert_eq!(server.holders("job").len(), 1);
    assert_eq!(program.fence("check job"), fence);
    assert_eq!(program.ask("release job"), "released");
}

/// Waits until the holder has found its lock at a server.
#[track_caller]
fn until_renewed_at(server: &Server) {
    eventually("the server has renewed the lease", || {
        let extends = server.info("commandstats").remove("cmdstat_dlock.extend");
        extends.is_some_and(|extends| !extends.starts_with("calls=0,"))
    });
}
