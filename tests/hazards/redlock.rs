//! Redlock as it is usually written, over several servers: `SET key value NX PX ttl` on one after the other,
//! held when a majority replied OK, released by the script that compares and deletes.

use std::time::{Duration, Instant};

use harness::client::request;
use harness::{Client, Quorum, Value};

use crate::recipe::{COMPARE_AND_DELETE, random};

/// A client of several servers, with a connection to each.
pub struct Redlock {
    nodes: Vec<Link>,
    validity: Validity,
    /// This many nodes are enough.
    enough: usize,
}

/// The start of the lease in an implementation's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The moment before the first request, as the description of Redlock demands.
    FromTheFirstRequest,
    /// The moment of the majority's last answer, as in many implementations.
    FromTheLastAnswer,
}

/// A lock that the client believes to have.
#[derive(Clone, Debug)]
pub struct Held {
    pub key: String,
    /// Random: unique, and neither larger nor smaller than the one before.
    pub value: String,
    /// The end of the lock, in the client's view.
    pub until: Instant,
}

/// A connection to one server, made anew after a failure.
pub struct Link {
    port: u16,
    timeout: Duration,
    connection: Option<Client>,
}

impl Redlock {
    /// A client that sends its requests through the networks in front of the nodes.
    pub fn through_networks(quorum: &Quorum, timeout: Duration) -> Redlock {
        Redlock::at(quorum.iter().map(|node| node.network().port()), timeout)
    }

    /// A client with working networks.
    pub fn direct(quorum: &Quorum, timeout: Duration) -> Redlock {
        Redlock::at(quorum.iter().map(|node| node.port()), timeout)
    }

    /// A client of the servers at these ports.
    pub fn at(ports: impl IntoIterator<Item = u16>, timeout: Duration) -> Redlock {
        let nodes: Vec<Link> = ports.into_iter().map(|port| Link::new(port, timeout)).collect();
        let enough = nodes.len() / 2 + 1;
        Redlock { nodes, validity: Validity::FromTheFirstRequest, enough }
    }

    /// Sets the start of its leases.
    pub fn counting(self, validity: Validity) -> Redlock {
        Redlock { validity, ..self }
    }

    /// Tries to take a lock, once.
    pub fn lock(&mut self, key: &str, ttl: Duration) -> Option<Held> {
        let value = random();
        let begun = Instant::now();
        let granted = self.nodes.iter_mut().filter_map(|node| node.set(key, &value, ttl)).count();
        let from = match self.validity {
            Validity::FromTheFirstRequest => begun,
            Validity::FromTheLastAnswer => Instant::now(),
        };
        let drift = ttl / 100 + Duration::from_millis(2);
        let held = Held { key: key.to_owned(), value, until: from + ttl - drift };
        if granted >= self.enough && held.is_believed() {
            return Some(held);
        }
        self.unlock(&held);
        None
    }

    /// Releases it on all nodes. Returns the number of nodes that had it.
    pub fn unlock(&mut self, held: &Held) -> usize {
        let release = ["EVAL", COMPARE_AND_DELETE, "1", &held.key, &held.value];
        let answers = self.nodes.iter_mut().map(|node| node.ask(&release));
        answers.filter(|answer| *answer == Some(Value::Int(1))).count()
    }
}

impl Held {
    /// True while the client still relies on it.
    pub fn is_believed(&self) -> bool {
        Instant::now() < self.until
    }
}

impl Link {
    /// A link that is not connected yet.
    pub fn new(port: u16, timeout: Duration) -> Link {
        Link { port, timeout, connection: None }
    }

    fn set(&mut self, key: &str, value: &str, ttl: Duration) -> Option<()> {
        let ttl = ttl.as_millis().to_string();
        let answer = self.ask(&["SET", key, value, "NX", "PX", &ttl]);
        (answer == Some(Value::Simple("OK".to_owned()))).then_some(())
    }

    /// The answer, if it comes within the time-out. A connection that failed is not used again.
    pub fn ask(&mut self, words: &[&str]) -> Option<Value> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Client::connect(self.port).ok()?,
        };
        connection.try_send_raw(&request(words)).ok()?;
        let answer = connection.try_recv_within(self.timeout).ok()??;
        self.connection = Some(connection);
        Some(answer)
    }
}
