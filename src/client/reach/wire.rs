//! One connection to a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, Value};
use tokio::sync::watch;

use super::failure::{redis_error, server_error};
use crate::report::NodeError;

/// A connection on which many requests can be under way; the node answers them in their order.
/// It is closed when the last clone is gone.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Inner>);

struct Inner {
    connection: MultiplexedConnection,
    /// Whether the connection broke.
    closed: watch::Receiver<bool>,
    /// Nothing new is sent over it: it broke, or the node did not answer in time.
    retired: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) async fn open(client: &redis::Client, within: Duration) -> Result<Wire, NodeError> {
        let retired = Arc::new(AtomicBool::new(false));
        let broken = Arc::clone(&retired);
        let (closes, closed) = watch::channel(false);
        let notice = move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                broken.store(true, Ordering::Release);
                closes.send_replace(true);
            }
            Ok::<(), SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE)
            .set_push_sender(notice);
        match client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(connection) => Ok(Wire(Arc::new(Inner { connection, closed, retired }))),
            Err(error) => Err(NodeError::not_connected(client, &error, within)),
        }
    }

    /// Sends a command and waits for its answer. Requests that are first polled one after the
    /// other are sent in that order.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, NodeError> {
        let mut connection = self.0.connection.clone();
        match connection.send_packed_command(command).await {
            Ok(Value::ServerError(error)) => Err(server_error(&error)),
            Ok(value) => Ok(value),
            Err(error) => {
                let error = redis_error(&error);
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
        self.0.retired.load(Ordering::Acquire)
    }

    /// Resolves when the connection has broken.
    pub(crate) async fn closed(&self) {
        let mut closed = self.0.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub(crate) fn is(&self, other: &Wire) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// How many requests can be queued before their senders have to wait.
const PIPELINE: usize = 1024;
