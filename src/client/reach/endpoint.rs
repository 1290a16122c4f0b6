//! A server's address, and new connections to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisResult};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::socket;
use super::tls::Tls;
use crate::report::NodeError;

/// A server's address, its login and its TLS settings.
#[derive(Clone)]
pub struct Endpoint {
    info: ConnectionInfo,
    tls: Option<Arc<Tls>>,
    /// Addresses of the host, if they have been looked up.
    found: Vec<SocketAddr>,
}

/// A connection to a server. Dropping the last clone closes it, even with requests in flight.
#[derive(Clone)]
pub struct Connection {
    inner: MultiplexedConnection,
    driver: Arc<Driver>,
}

/// The task that writes requests and reads answers.
struct Driver {
    task: AbortHandle,
    /// Closes when that task has ended.
    runs: watch::Receiver<()>,
}

impl Endpoint {
    pub(crate) fn new(info: ConnectionInfo, tls: Option<Arc<Tls>>) -> Endpoint {
        Endpoint { info, tls, found: Vec::new() }
    }

    /// Looks up the host, and returns one endpoint: of its addresses the first that answers is used. If the host has
    /// several addresses of one family, they may be several servers, and each gets an endpoint.
    pub(crate) async fn each(&self, within: Duration) -> Result<Vec<Endpoint>, NodeError> {
        let found = timeout(within, socket::addresses(self.info.addr())).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let found = found.map_err(|error| NodeError::not_connected(self, &error.into(), within))?;
        let at = |found| Endpoint { found, ..self.clone() };
        let of_ipv6 = found.iter().filter(|at| at.is_ipv6()).count();
        Ok(match of_ipv6.max(found.len() - of_ipv6) {
            0 | 1 => vec![at(found)],
            _ => found.into_iter().map(|one| at(vec![one])).collect(),
        })
    }

    /// Returns the address and the login.
    #[must_use]
    pub fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Opens a new connection within this time.
    ///
    /// # Errors
    /// Fails when the server cannot be reached, is not trusted, or refuses the login.
    pub async fn connect(
        &self,
        config: AsyncConnectionConfig,
        within: Duration,
    ) -> RedisResult<Connection> {
        let connected = timeout(within, async {
            let stream = socket::open(&self.info, self.tls.as_deref(), &self.found).await?;
            let login = self.info.redis_settings();
            let (inner, driver) =
                MultiplexedConnection::new_with_config(login, stream, config).await?;
            let (works, runs) = watch::channel(());
            let task = tokio::spawn(async move {
                driver.await;
                drop(works);
            });
            let driver = Driver { task: task.abort_handle(), runs };
            Ok(Connection { inner, driver: Arc::new(driver) })
        });
        connected.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }
}

impl Connection {
    /// True if the connection has broken.
    pub(crate) fn has_ended(&self) -> bool {
        self.driver.runs.has_changed().is_err()
    }

    /// Resolves when the connection has broken. By then all answers have been delivered: a request that is sent
    /// while the connection breaks may get none. Waiting for this does not keep the connection open.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut runs = self.driver.runs.clone();
        async move { while runs.changed().await.is_ok() {} }
    }
}

impl Deref for Connection {
    type Target = MultiplexedConnection;

    fn deref(&self) -> &MultiplexedConnection {
        &self.inner
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut MultiplexedConnection {
        &mut self.inner
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", self.info.addr()).finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
