//! What is wrong with TLS, in words and without names of a library's own types.

use harness::{Papers, Server};

use crate::dlock_at;

/// Asserts that these words, and none of a library, tell what is wrong with a node.
#[track_caller]
fn assert_told(node: &str, words: &str) {
    for command in [&["run", "-n", "job", "--", "true"][..], &["inspect", "job"], &["ls"]] {
        let said = dlock_at(&[node.to_owned()], command).with_code(69);
        assert!(said.err.contains(words), "no {words:?} in {}", said.err);
        for foreign in [
            "InvalidContentType",
            "UnknownIssuer",
            "DnsName",
            "IpAddress",
            "peer certificate",
            "corrupt",
        ] {
            assert!(!said.err.contains(foreign), "{foreign}: {}", said.err);
        }
    }
}

fn running(papers: &Papers, wants: &str) -> (Server, u16) {
    let (server, port) = papers.server(wants);
    (server.start(), port)
}

fn ca(papers: &Papers) -> String {
    papers.path("ca.pem").display().to_string()
}

#[test]
fn tls_at_a_port_that_does_not_speak_it() {
    let server = Server::start(harness::Kind::Redis82);
    assert_told(&format!("rediss://127.0.0.1:{}", server.port()), "does that port speak TLS?");
}

#[test]
fn no_tls_at_a_port_that_speaks_nothing_else() {
    let papers = Papers::valid();
    let (_server, port) = running(&papers, "no");
    assert_told(&format!("redis://127.0.0.1:{port}"), "write rediss://");
}

#[test]
fn an_authority_that_nobody_here_trusts() {
    let papers = Papers::valid();
    let (_server, port) = running(&papers, "no");
    assert_told(&format!("rediss://127.0.0.1:{port}"), "name the right one with ?ca=FILE");
    let others = Papers::valid();
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&others));
    assert_told(&url, "its certificate is not signed by an authority that is trusted here");
}

#[test]
fn a_certificate_for_another_name() {
    let papers = Papers::valid();
    let (_server, port) = running(&papers, "no");
    let url = format!("rediss://localhost:{port}?ca={}", ca(&papers));
    assert_told(&url, "its certificate is for 127.0.0.1, not for localhost");
}

#[test]
fn a_certificate_that_has_expired() {
    let papers = Papers::expired();
    let (_server, port) = running(&papers, "no");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&papers));
    assert_told(&url, "its certificate has expired");
}

#[test]
fn a_node_that_wants_a_certificate() {
    let papers = Papers::valid();
    let (_server, port) = running(&papers, "yes");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&papers));
    assert_told(&url, "it wants a certificate from the client");
}
