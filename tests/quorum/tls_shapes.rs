//! Sentinels and clusters behind TLS, with users and passwords.

use dlock_client::{Client, Error};
use harness::sentinel::{NAME, Sentinel};
use harness::{Builder, Certificates, Cluster, Server, eventually};

use crate::coordinator::{LONG, NODE_TIMEOUT, run, until, until_extended_at, wait_for};

/// Another user than the tests' own; it may lock only keys with this beginning.
const APP: &str = "user app on >s3cret ~job* &* +@all";

/// A server behind TLS, which also speaks it to other servers.
fn server(certificates: &Certificates) -> (Builder, u16) {
    let (builder, port) = certificates.server("no");
    (builder.config(APP).config("tls-replication yes"), port)
}

/// A primary with a replica, and the Sentinel that watches them over TLS. The Sentinel has a user of its own.
struct Watched {
    servers: [Server; 2],
    sentinel: Sentinel,
    port: u16,
}

impl Watched {
    #[track_caller]
    fn start(certificates: &Certificates) -> Watched {
        let (primary, at) = server(certificates);
        let primary = primary.start();
        let (replica, _) = server(certificates);
        let replica = replica.config(&format!("replicaof 127.0.0.1 {at}")).start();
        primary.until_streaming_to(&replica);
        let file = |name: &str| certificates.path(name).display().to_string();
        let port = harness::ports::free();
        let more = [
            format!("tls-port {port}"),
            "tls-replication yes".to_owned(),
            format!("tls-cert-file {}", file("node.pem")),
            format!("tls-key-file {}", file("node.key")),
            format!("tls-ca-cert-file {}", file("ca.pem")),
            "tls-auth-clients no".to_owned(),
            "user watcher on >0ther ~* &* +@all".to_owned(),
            format!("sentinel auth-user {NAME} app"),
            format!("sentinel auth-pass {NAME} s3cret"),
        ];
        let sentinel = Sentinel::spawn_with(primary.kind(), at, 1, &more);
        eventually("the Sentinel knows both servers", || sentinel.knows(1, 0) == Some(true));
        Watched { servers: [primary, replica], sentinel, port }
    }

    /// The node's URL, with these for the login of the servers, and more options.
    fn url(&self, certificates: &Certificates, login: &str, more: &str) -> String {
        let ca = certificates.path("ca.pem").display().to_string();
        format!("rediss+sentinel://{login}@127.0.0.1:{}/{NAME}?ca={ca}{more}", self.port)
    }
}

/// Asserts that a lock is refused: the user has no right to it.
async fn assert_has_few_rights(client: &Client) {
    let refused = client.lock("other").try_acquire().await.expect_err("it has no right to it");
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("NOPERM"), "{refused}");
}

async fn refused(url: String) -> String {
    let refused = Client::builder().nodes([url]).node_timeout(NODE_TIMEOUT).connect().await;
    refused.expect_err("it must not be let in").to_string()
}

#[test]
fn sentinels_and_their_servers_have_users_of_their_own_and_fail_over_behind_tls() {
    let certificates = Certificates::valid();
    let mut node = Watched::start(&certificates);
    let of_sentinel = "&sentinel-user=watcher&sentinel-pass=0ther";
    run(async {
        let url = node.url(&certificates, "app:s3cret", of_sentinel);
        let client = Client::builder().nodes([url]).node_timeout(NODE_TIMEOUT).connect().await;
        let client = client.expect("it is all there");
        let guard = wait_for(&client, "job", LONG).await;
        assert_has_few_rights(&client).await;
        let clients = node.sentinel.run("CLIENT LIST").text();
        assert!(clients.contains(" user=watcher "), "{clients}");
        node.servers[0].until_followed_by(&node.servers[1]);
        let before = node.sentinel.primary();
        node.servers[0].kill();
        until("another server is the primary", || node.sentinel.primary() != before).await;
        // A Sentinel closes all connections to a server when it changes the server's role.
        node.servers[1].drop_own_client();
        until_extended_at(&node.servers[1], &guard).await;
        guard.release().await.expect("it was never lost");
    });
}

#[test]
fn a_cluster_behind_tls_is_followed_where_its_slots_go() {
    let certificates = Certificates::valid();
    let started: Vec<(Server, u16)> = (0..3)
        .map(|_| {
            let (builder, port) = server(&certificates);
            (builder.cluster().config("tls-cluster yes").start(), port)
        })
        .collect();
    let ports: Vec<u16> = started.iter().map(|(_, port)| *port).collect();
    let tls = |server: &Server| -> u16 {
        server.run("CONFIG GET tls-port").items()[1].text().parse().expect("a port")
    };
    let cluster = Cluster::of(started.into_iter().map(|(server, _)| server).collect(), tls);
    let url = |login: &str, certificates: &Certificates| {
        let ca = certificates.path("ca.pem").display().to_string();
        format!("rediss+cluster://{login}@127.0.0.1:{},127.0.0.1:{}?ca={ca}", ports[0], ports[2])
    };
    run(async {
        let builder = Client::builder().nodes([url("app:s3cret", &certificates)]);
        let client = builder.node_timeout(NODE_TIMEOUT).connect().await.expect("it is all there");
        for place in 0..3 {
            let guard = wait_for(&client, &cluster.key(place, "job"), LONG).await;
            assert_eq!(cluster.nodes[place].holders(guard.key()), [guard.token().to_string()]);
            guard.release().await.expect("it is held");
        }
        assert_has_few_rights(&client).await;
        let key = cluster.key(0, "job");
        let guard = wait_for(&client, &key, LONG).await;
        let next = tokio::spawn(client.lock(key.as_str()).acquire());
        cluster.nodes[0].until_blocked(1);
        let slot = cluster.slot(&key);
        cluster.open(slot, 0, 1);
        // They speak TLS among themselves.
        let moved = cluster.nodes[0].run(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", ports[1]));
        assert_eq!(moved.text(), "OK");
        cluster.close(slot, 0, 1);
        cluster.nodes[1].until_blocked(1);
        guard.release().await.expect("it went along");
        let next = next.await.expect("it does not panic").expect("it is its turn");
        assert_eq!(cluster.nodes[1].holders(&key), [next.token().to_string()]);
        next.release().await.expect("it is held");
        let said = refused(url("app:wrong", &certificates)).await;
        assert!(said.contains("WRONGPASS"), "{said}");
        let said = refused(url("app:s3cret", &Certificates::valid())).await;
        assert!(said.contains("certificate"), "{said}");
    });
}
