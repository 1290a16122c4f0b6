//! A client: its nodes, and its memory of them.

use std::env;
use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use dlock_core::limits::MAX_NODE_TIMEOUT;
use dlock_core::quorum::LONGEST_TIMEOUT;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use crate::acquire::lock::Lock;
use crate::key::Key;
use crate::options::given;
use crate::reach::address::{self, Address};
use crate::reach::identity::Identities;
use crate::reach::node::Node;
use crate::report::error::Error;
use crate::report::notice::{Listener, Notice};
use crate::shared::Shared;
use crate::shared::background::Background;
use crate::shared::memory::Memory;

/// A client of one or more nodes. Clones are cheap, and share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// Settings of a client before it connects.
#[derive(Clone, Default)]
#[must_use]
pub struct ClientBuilder {
    /// URLs of the nodes; `None`: the environment's `DLOCK_NODES`.
    nodes: Option<Vec<String>>,
    node_timeout: Option<Duration>,
    listener: Listener,
}

impl Client {
    /// Connects to the nodes of a comma-separated list of URLs:
    ///
    /// - `redis://[user][:password@]host[:port][/db]`;
    /// - `rediss://…` with TLS; `?ca=FILE` replaces the system's CA certificates; `&cert=FILE&key=FILE` is the
    ///   client's own certificate; all files are in PEM form, and read again for each connection;
    /// - `unix:///path[?user=…&pass=…&db=…]`;
    /// - `redis+sentinel://[user:password@]s1[:26379],s2,…/NAME[/db]`: the primary that Sentinels watch under
    ///   this name, followed through fail-overs. User and password belong to the servers; for Sentinels that
    ///   need a login add `?sentinel-user=…&sentinel-pass=…`;
    /// - `redis+cluster://[user:password@]h1[:6379],h2,…`: a Redis Cluster, found through these of its
    ///   servers. A cluster is *one* node: each key is at one of its primaries.
    ///
    /// The last two have a form with TLS as well: `rediss+sentinel://…`, for servers and Sentinels, and
    /// `rediss+cluster://…`. Without a scheme, a path is a unix socket, and a name is a host. If servers announce an
    /// address that cannot be reached from here, replace it: `?map=10.0.0.5:6379=localhost:7001`. This option may be
    /// repeated, and given without ports.
    ///
    /// The order of the list has no meaning: the client sorts it.
    ///
    /// Special characters in a password are written as in any URL: `%40` for `@`, `%2C` for a
    /// comma.
    ///
    /// # Errors
    /// Fails as [`ClientBuilder::connect`].
    pub async fn connect(nodes: &str) -> Result<Client, Error> {
        Client::builder().nodes([nodes]).connect().await
    }

    /// Returns a builder for a client with settings of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Number of nodes, whether they answer or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.shared.nodes.len()
    }

    /// Returns the nodes, in the order of their addresses.
    #[cfg(feature = "operator")]
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.shared.nodes.iter()
    }

    /// Returns a lock to acquire. Nothing is sent yet.
    pub fn lock(&self, key: impl Into<Key>) -> Lock {
        Lock::new(Arc::clone(&self.shared), key.into())
    }

    /// Waits until releases under way are done: of dropped guards, and at nodes that refused for the
    /// moment or did not answer. Returns false if that takes longer than `within`.
    pub async fn released(&self, within: Duration) -> bool {
        self.shared.background.idle(within).await
    }

    /// Waits until releases under way are done, for at most one node time-out, and closes the idle
    /// connections. Guards stay valid.
    pub async fn close(&self) {
        self.rest(ready(())).await;
    }

    /// Releases all locks that guards renew, for the end of a program, and closes the client.
    #[cfg(feature = "operator")]
    pub async fn end(&self) {
        self.shared.ended.send_replace(());
        self.rest(self.shared.ended.closed()).await;
    }

    async fn rest(&self, first: impl Future<Output = ()>) {
        let within = self.shared.node_timeout.unwrap_or(LONGEST_TIMEOUT);
        let rests = async {
            first.await;
            self.released(within).await
        };
        if !timeout(within, rests).await.unwrap_or(false) {
            debug!("some releases are not answered yet");
        }
        for node in &self.shared.nodes {
            node.hang_up();
        }
    }
}

impl ClientBuilder {
    /// Sets the nodes: a URL each, or comma-separated lists of them. Without this call the client takes them
    /// from the environment's `DLOCK_NODES`.
    pub fn nodes<S: Into<String>>(mut self, nodes: impl IntoIterator<Item = S>) -> ClientBuilder {
        self.nodes.get_or_insert_default().extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Sets the time-out of a request to a node, connecting included. The default is a twentieth of a lock's
    /// lease, at least 50 ms and at most a second. The limit is an hour, and for a lock a quarter of the lease.
    pub fn node_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.node_timeout = Some(timeout);
        self
    }

    /// Sets a listener for each [`Notice`]: news for an operator while locks go on working. The library calls
    /// it on its own tasks, so the listener must return quickly.
    pub fn notify(mut self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> ClientBuilder {
        self.listener = Listener::new(listener);
        self
    }

    /// Connects. A majority of the nodes is enough; the client tries the others again when it needs them.
    ///
    /// # Errors
    /// Fails when an address or the time-out is not valid, or two addresses lead to the same node. Also fails when no
    /// majority can be used: nodes do not answer, are replicas, or lack the module.
    pub async fn connect(self) -> Result<Client, Error> {
        let client = self.connect_later()?;
        client.shared.check().await?;
        Ok(client)
    }

    /// Makes a client that connects to the nodes when it needs them. [Waiting](Lock::acquire) for a lock then
    /// also waits for the nodes. Like everything here, the client runs inside a tokio runtime.
    ///
    /// # Errors
    /// Fails when an address or the time-out is not valid.
    pub fn connect_later(self) -> Result<Client, Error> {
        if let Some(timeout) = self.node_timeout
            && !(Duration::from_millis(1)..=LONGEST_NODE_TIMEOUT).contains(&timeout)
        {
            return Err(Error::Usage(format!(
                "the node time-out must be between 1 ms and 1 hour long, not {}",
                given(timeout)
            )));
        }
        let nodes = match self.nodes {
            Some(nodes) => nodes,
            None => Address::of_environment(env::var("DLOCK_NODES").ok().as_deref())?,
        };
        let addresses = address::read_all(&nodes)?;
        let places = 0..addresses.len();
        let timeout = self.node_timeout.unwrap_or(LONGEST_TIMEOUT);
        let identities = Arc::new(Identities::new(addresses, self.listener.clone(), timeout));
        let taken = identities.taken();
        let node = |place| Arc::new(Node::new(place, Arc::clone(&identities)));
        let nodes = places.map(node).collect();
        let ClientBuilder { node_timeout, listener, .. } = self;
        let (memory, background) = (Memory::default(), Background::new());
        let ended = watch::Sender::default();
        let shared = Shared { nodes, taken, node_timeout, memory, background, listener, ended };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |nodes: &Vec<String>| -> Vec<String> {
            nodes.iter().map(|node| address::without_secrets(node)).collect()
        };
        f.debug_struct("ClientBuilder")
            .field("nodes", &self.nodes.as_ref().map(shown))
            .field("node_timeout", &self.node_timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("nodes", &self.shared.nodes).finish_non_exhaustive()
    }
}

const LONGEST_NODE_TIMEOUT: Duration = Duration::from_millis(MAX_NODE_TIMEOUT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_is_shown_without_passwords() {
        let nodes = ["redis://me:secret@a", "unix:///run/x?pass=secret", "redis://b:6379"];
        let shown = format!("{:?}", Client::builder().nodes(nodes));
        assert!(shown.contains(r#"["redis://a", "unix:///run/x", "redis://b:6379"]"#), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[tokio::test]
    async fn a_node_time_out_has_bounds() {
        let made = |timeout| {
            let client = Client::builder().nodes(["redis://127.0.0.1:1"]).node_timeout(timeout);
            client.connect_later().map_err(|error| error.to_string())
        };
        for timeout in [Duration::from_millis(1), Duration::from_secs(3600)] {
            assert!(made(timeout).is_ok(), "{timeout:?}");
        }
        let between = "the node time-out must be between 1 ms and 1 hour long, not ";
        for (timeout, shown) in [
            (Duration::from_micros(999), "999µs"),
            (Duration::from_millis(3_600_001), "3600.001s"),
            (Duration::MAX, "without end"),
        ] {
            assert_eq!(made(timeout).err(), Some(format!("{between}{shown}")));
        }
    }
}
