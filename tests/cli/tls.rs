//! TLS errors, in words and without a library's type names.

use std::fs;

use harness::{Certificates, Server, program};

use crate::dlock_at;
use crate::running::Running;

/// Asserts that the error about a node has these words, and none of a library.
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

fn running(certificates: &Certificates, wants: &str) -> (Server, u16) {
    let (server, port) = certificates.server(wants);
    (server.start(), port)
}

fn ca(certificates: &Certificates) -> String {
    certificates.path("ca.pem").display().to_string()
}

#[test]
fn no_tls_at_a_port_that_speaks_nothing_else() {
    let certificates = Certificates::valid();
    let (_server, port) = running(&certificates, "no");
    assert_told(&format!("redis://127.0.0.1:{port}"), "write rediss://");
}

#[test]
fn an_untrusted_authority() {
    let certificates = Certificates::valid();
    let (_server, port) = running(&certificates, "no");
    assert_told(&format!("rediss://127.0.0.1:{port}"), "name the right one with ?ca=FILE");
    let others = Certificates::valid();
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&others));
    assert_told(&url, "its certificate is not signed by an authority that is trusted here");
}

#[test]
fn a_certificate_for_another_name() {
    let certificates = Certificates::valid();
    let (_server, port) = running(&certificates, "no");
    let url = format!("rediss://localhost:{port}?ca={}", ca(&certificates));
    assert_told(&url, "its certificate is for 127.0.0.1, not for localhost");
}

#[test]
fn a_certificate_that_has_expired() {
    let certificates = Certificates::expired();
    let (_server, port) = running(&certificates, "no");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&certificates));
    assert_told(&url, "its certificate has expired");
}

#[test]
fn a_node_that_wants_a_certificate() {
    let certificates = Certificates::valid();
    let (_server, port) = running(&certificates, "yes");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca(&certificates));
    assert_told(&url, "it wants a certificate from the client");
}

/// A machine's list of authorities is hundreds of files, and all clients that were cut off connect at once.
#[test]
fn system_certificates_are_read_once_and_not_for_each_connection() {
    let certificates = Certificates::valid();
    let (server, port) = running(&certificates, "no");
    let list = certificates.path("list.pem");
    fs::copy(certificates.path("ca.pem"), &list).expect("the folder can be written");
    let mut command = program::command(&[format!("rediss://127.0.0.1:{port}")]);
    command.env("SSL_CERT_FILE", &list).env_remove("SSL_CERT_DIR");
    command.args(["--node-timeout", program::PATIENT]).args(["run", "job", "--", "true"]);
    assert!(server.run("DLOCK.ACQUIRE job other 600000").is_int());
    let waiter = Running::of(command);
    server.until_blocked(1);
    fs::remove_file(list).expect("it is there");
    server.run("CLIENT KILL TYPE normal SKIPME yes");
    server.run("DLOCK.RELEASE job other");
    waiter.ended().with_code(0);
}
