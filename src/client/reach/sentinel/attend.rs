//! The connection to one Sentinel, which asks it and receives its messages.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::SendError;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError, Value, cmd};
use tokio::select;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Watched;
use super::opinion::{Opinion, Opinions};
use crate::inspect::Fields;
use crate::printable::brief;
use crate::reach::address::host::Host;
use crate::reach::endpoint::Connection;
use crate::report::NodeError;

/// Asks the Sentinel in each round, after each message about a switch, and at intervals. Never ends.
pub(super) async fn attend(
    place: usize,
    watched: Arc<Watched>,
    opinions: Arc<watch::Sender<Opinions>>,
    mut round: watch::Receiver<u64>,
) {
    let Some(at) = watched.sentinels.get(place) else { return };
    let note =
        |round, opinion| opinions.send_modify(|opinions| opinions.note(place, round, opinion));
    loop {
        let asked = *round.borrow_and_update();
        match Session::open(at, &watched).await {
            Ok(session) => {
                let error = session.listen(&mut round, &note).await;
                debug!(sentinel = %at, %error, "a Sentinel does not answer any more");
                note(*round.borrow(), Opinion::from(error));
            }
            Err(error) => note(asked, Opinion::from(error)),
        }
        select! {
            _ = round.changed() => {}
            () = sleep(PAUSE) => {}
        }
    }
}

/// Asks a Sentinel for its data about the primary, and about its replicas.
pub(crate) async fn ask_about(at: &Host, watched: &Watched) -> Result<(Value, Value), NodeError> {
    let mut session = Session::open(at, watched).await?;
    let primary = session.run("MASTER", &watched.primary).await?;
    Ok((primary, session.run("REPLICAS", &watched.primary).await?))
}

/// A connection to a Sentinel, subscribed to its messages about switches.
struct Session<'a> {
    connection: Connection,
    /// Changes at each message; true once the connection has ended.
    events: watch::Receiver<bool>,
    watched: &'a Watched,
}

impl<'a> Session<'a> {
    async fn open(at: &Host, watched: &'a Watched) -> Result<Session<'a>, NodeError> {
        let endpoint = watched.access.endpoint(at).map_err(|error| failed(&error))?;
        let (happens, events) = watch::channel(false);
        let tell = move |push: PushInfo| {
            if matches!(push.kind, PushKind::Disconnection | PushKind::Message) {
                happens.send_replace(push.kind == PushKind::Disconnection);
            }
            Ok::<(), SendError>(())
        };
        let config =
            AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER)).set_push_sender(tell);
        let mut connection =
            endpoint.connect(config, ANSWER).await.map_err(|error| match error {
                error if error.is_timeout() => {
                    NodeError::no_connection(watched.access.uses_tls(), ANSWER)
                }
                error => failed(&error),
            })?;
        // Without permission to subscribe, the client asks at intervals only.
        if let Err(error) = connection.subscribe("+switch-master").await {
            debug!(sentinel = %at, %error, "a Sentinel does not tell of switches");
        }
        Ok(Session { connection, events, watched })
    }

    /// Repeats the question until the Sentinel does not answer.
    async fn listen(
        mut self,
        round: &mut watch::Receiver<u64>,
        note: &impl Fn(u64, Opinion),
    ) -> NodeError {
        loop {
            let asked = *round.borrow_and_update();
            match timeout(ANSWER, self.ask()).await {
                Ok(Ok(opinion)) => note(asked, opinion),
                Ok(Err(error)) => return error,
                Err(_) => return NodeError::TimedOut(ANSWER),
            }
            // Jitter: otherwise all clients would ask at the same time after a fail-over.
            let pause = LOOK_AGAIN.mul_f64(rand::random_range(0.75..1.25));
            // Frequent messages about switches must not cause as many questions.
            let happens = async {
                sleep(REST).await;
                self.events.changed().await.is_err() || *self.events.borrow_and_update()
            };
            select! {
                _ = round.changed() => {}
                broken = happens => if broken {
                    return NodeError::Unreachable("the connection broke".to_owned());
                },
                () = sleep(pause) => {}
            }
        }
    }

    async fn ask(&mut self) -> Result<Opinion, NodeError> {
        let name = &self.watched.primary;
        // First the epoch: after a switch between the two questions, the address must not get the new epoch.
        // Without permission for SENTINEL MASTER the epoch counts as 0.
        let epoch = match self.run("MASTER", name).await {
            Ok(reply) => epoch(&reply).unwrap_or(0),
            Err(NodeError::Refused(_)) => 0,
            Err(error) => return Err(error),
        };
        let address = self.run("GET-MASTER-ADDR-BY-NAME", name).await?;
        if address == Value::Nil {
            return Ok(Opinion::Unfit(format!("it watches no primary '{name}'")));
        }
        let Some(at) = read_host(&address) else {
            let said = brief(format_args!("{address:?}"));
            let words = format!("it gives no valid address of the primary '{name}': {said}");
            return Ok(Opinion::Unfit(words));
        };
        Ok(Opinion::There { at: self.watched.servers.map.reached(at), epoch })
    }

    async fn run(&mut self, question: &str, name: &str) -> Result<Value, NodeError> {
        let reply: Result<Value, RedisError> =
            cmd("SENTINEL").arg(question).arg(name).query_async(&mut *self.connection).await;
        match reply {
            Err(error) if error.to_string().contains("unknown command") => {
                Err(NodeError::Unfit(NO_SENTINEL.to_owned()))
            }
            reply => reply.map_err(|error| failed(&error)),
        }
    }
}

fn read_host(reply: &Value) -> Option<Host> {
    let [name, port] = reply.as_sequence()? else { return None };
    Host::told(&text(name)?, text(port)?.parse().ok()?)
}

fn epoch(reply: &Value) -> Option<u64> {
    Fields::of(reply)?.text("config-epoch")?.parse().ok()
}

fn text(value: &Value) -> Option<String> {
    redis::from_redis_value_ref(value).ok()
}

fn failed(error: &RedisError) -> NodeError {
    if error.is_timeout() { NodeError::TimedOut(ANSWER) } else { NodeError::from(error) }
}

/// Time-out of a Sentinel.
const ANSWER: Duration = Duration::from_secs(1);
/// Pause before a Sentinel that does not answer is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Shortest pause between an answer and the next question after a message.
const REST: Duration = Duration::from_millis(50);
/// Interval of questions: a switch can happen without a message.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const NO_SENTINEL: &str = "it is no Sentinel; for a server write redis://host:port";
