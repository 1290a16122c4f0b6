//! One connection to a server.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{AsyncConnectionConfig, Cmd, Value, pipe};
use tokio::select;

use super::address::host::Host;
use super::endpoint::{Connection, Endpoint};
use super::failure::server_error;
use super::sentinel::primary_watch::PrimaryWatch;
use crate::report::NodeError;

/// A connection that carries many requests at once; the server answers them in order. Dropping the last
/// clone closes it.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Inner>);

struct Inner {
    connection: Connection,
    /// The server, where a node has several.
    host: Option<Host>,
    /// For a primary behind Sentinels: tells whether the server is still the primary.
    primary: Option<PrimaryWatch>,
    /// Number of changes of the node's server when this server had that place.
    tenure: OnceLock<u64>,
    /// True if no new request may use it, because the server did not answer in time.
    retired: AtomicBool,
}

impl Wire {
    pub(crate) async fn open(endpoint: &Endpoint, within: Duration) -> Result<Wire, NodeError> {
        Wire::open_to(endpoint, within, None, None).await
    }

    /// Opens a connection to one server of several.
    pub(crate) async fn open_to(
        endpoint: &Endpoint,
        within: Duration,
        host: Option<Host>,
        primary: Option<PrimaryWatch>,
    ) -> Result<Wire, NodeError> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE);
        match endpoint.connect(config, within).await {
            Ok(connection) => {
                let (tenure, retired) = (OnceLock::new(), AtomicBool::new(false));
                Ok(Wire(Arc::new(Inner { connection, host, primary, tenure, retired })))
            }
            Err(error) => Err(NodeError::not_connected(endpoint, &error, within)),
        }
    }

    /// Sets the number of changes of the node's server before this one.
    pub(crate) fn of_tenure(self, tenure: u64) -> Wire {
        self.0.tenure.get_or_init(|| tenure);
        self
    }

    /// See [`of_tenure`](Wire::of_tenure). An answer over this connection does not count once another server
    /// has the place: this server may belong to another node, and would have two votes.
    pub(crate) fn tenure(&self) -> u64 {
        self.0.tenure.get().copied().unwrap_or_default()
    }

    /// The server at the other end, where a node has several.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.0.host.as_ref()
    }

    /// Sends a command and waits for its answer. Requests are sent in the order of their first polls.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, NodeError> {
        let mut connection = (*self.0.connection).clone();
        self.answered(pin!(connection.send_packed_command(command))).await
    }

    /// Sends a command to a cluster server that is importing the key's slot.
    pub(crate) async fn send_asking(&self, command: &Cmd) -> Result<Value, NodeError> {
        let mut both = pipe();
        both.cmd("ASKING").add_command(command.clone());
        let answer = pin!(async {
            let mut connection = (*self.0.connection).clone();
            let answers = connection.send_packed_commands(&both, 0, 2).await?;
            // Where ASKING is refused, the command is answered with ASK once more.
            let refused = |answer: &Value| matches!(answer, Value::ServerError(_));
            let first = |asking, answer| if refused(&asking) { asking } else { answer };
            Ok(answers.into_iter().reduce(first).unwrap_or(Value::Nil))
        });
        self.answered(answer).await
    }

    /// Waits for an answer. The future is large, so it is not moved.
    async fn answered(
        &self,
        answer: Pin<&mut impl Future<Output = redis::RedisResult<Value>>>,
    ) -> Result<Value, NodeError> {
        let answer = select! {
            biased;
            answer = answer => answer,
            () = self.closed() => {
                self.retire();
                let left = self.0.primary.as_ref().filter(|primary| primary.is_left());
                let why = left.map_or_else(|| "the connection broke".to_owned(), PrimaryWatch::why);
                return Err(NodeError::Unreachable(why));
            }
        };
        match answer {
            Ok(Value::ServerError(error)) => Err(server_error(&error)),
            Ok(value) => Ok(value),
            Err(error) => {
                let error = NodeError::from(&error);
                if matches!(error, NodeError::Unreachable(_)) {
                    self.retire();
                }
                Err(error)
            }
        }
    }

    pub(crate) fn retire(&self) {
        self.0.retired.store(true, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::Acquire) || self.has_ended() || self.is_astray()
    }

    /// True if the connection has broken.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.connection.has_ended()
    }

    /// True if another server is the primary now.
    fn is_astray(&self) -> bool {
        self.0.primary.as_ref().is_some_and(PrimaryWatch::is_left)
    }

    /// Resolves when the connection has broken, or leads to a former primary. Waiting for this does not keep
    /// the connection open.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let (ended, primary) = (self.0.connection.ended(), self.0.primary.clone());
        async move {
            match primary {
                None => ended.await,
                Some(primary) => select! {
                    () = ended => {}
                    () = primary.left() => {}
                },
            }
        }
    }
}

/// Limit of queued requests before their senders have to wait.
const PIPELINE: usize = 1024;
