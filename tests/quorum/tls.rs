//! Nodes behind TLS: certificates are checked, always. Redis 7.0 is the server here that has TLS.

use std::fs;

use dlock_client::{Client, Error};
use harness::{Certificates, Quorum};

use crate::coordinator::{LONG, NODE_TIMEOUT, assert_holds, connect, ms, run, take};

#[test]
fn a_node_is_reached_through_tls_with_an_authority_of_ones_own() {
    let certificates = Certificates::valid();
    let (quorum, port) = node(&certificates, "no");
    run(async {
        let url = format!("rediss://127.0.0.1:{port}?ca={}", certificates.path("ca.pem").display());
        let client = connect(&[url]).await;
        let guard = take(&client, "job", LONG).await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        let name = client.nodes().next().map(|node| node.name().to_owned());
        assert_eq!(name, Some(format!("rediss://127.0.0.1:{port}")));
    });
}

#[test]
fn a_program_shows_a_certificate_of_its_own_where_the_node_wants_one() {
    let certificates = Certificates::valid();
    let (_quorum, port) = node(&certificates, "yes");
    run(async {
        let file = |name: &str| certificates.path(name).display().to_string();
        let ca = file("ca.pem");
        let (cert, key) = (file("node.pem"), file("node.key"));
        let with = format!("rediss://127.0.0.1:{port}?ca={ca}&cert={cert}&key={key}");
        let client = connect(&[with]).await;
        take(&client, "job", LONG).await.release().await.expect("it is held");
        let without = try_connect(&format!("rediss://127.0.0.1:{port}?ca={ca}")).await;
        assert!(matches!(without, Err(Error::Connect { .. })), "{:?}", without.err());
    });
}

#[test]
fn renewed_certificates_are_used_for_the_next_connection() {
    let (certificates, others) = (Certificates::valid(), Certificates::valid());
    let (quorum, port) = node(&certificates, "yes");
    let own = ["node.pem", "node.key"].map(|name| others.path(name));
    run(async {
        let ca = certificates.path("ca.pem");
        let [cert, key] = own.each_ref().map(|path| path.display());
        let url = format!("rediss://127.0.0.1:{port}?ca={}&cert={cert}&key={key}", ca.display());
        let client = Client::builder().nodes([&url]).node_timeout(NODE_TIMEOUT);
        let client = client.connect_later().expect("they are certificates");
        let refused =
            client.lock("job").try_acquire().await.map(drop).expect_err("of no authority");
        assert!(refused.to_string().contains("certificate"), "{refused}");
        for (name, path) in ["node.pem", "node.key"].iter().zip(&own) {
            fs::copy(certificates.path(name), path).expect("it is replaced");
        }
        take(&client, "job", LONG).await.release().await.expect("it is held");
        // Without files the last ones serve.
        own.iter().for_each(|path| fs::remove_file(path).expect("it is there"));
        quorum[0].run("CLIENT KILL TYPE normal SKIPME yes");
        take(&client, "job", LONG).await.release().await.expect("it is held");
    });
}

#[test]
fn tls_at_a_port_without_it_is_asked_about_whichever_time_is_over_first() {
    let quorum = Quorum::start(1);
    let port = quorum[0].port();
    run(async {
        let shapes = ["rediss://127.0.0.1:PORT", "rediss+cluster://127.0.0.1:PORT"];
        for shape in shapes.into_iter().chain(["rediss+sentinel://127.0.0.1:PORT/main"]) {
            let url = shape.replace("PORT", &port.to_string());
            for timeout in [ms(200), ms(2_000)] {
                let client = Client::builder().nodes([&url]).node_timeout(timeout);
                let client = client.connect_later().expect("it is an address");
                let error = client.lock("job").try_acquire().await.map(drop).expect_err(shape);
                assert!(error.to_string().contains("does that port speak TLS?"), "{error}");
            }
        }
    });
}

/// A node that speaks TLS at the port. `wants`: its demand for client certificates.
fn node(certificates: &Certificates, wants: &str) -> (Quorum, u16) {
    let (server, port) = certificates.server(wants);
    (Quorum::of(vec![server]), port)
}

async fn try_connect(url: &str) -> Result<Client, Error> {
    Client::builder().nodes([url]).node_timeout(NODE_TIMEOUT).connect().await
}
