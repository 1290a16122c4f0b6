//! The state of a connection: its peer, login, protocol and subscriptions.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::OnceLock;

use super::losses::{Behind, CHANNEL, Subscription};
use super::peer::Peer;
use super::reply::Protocol;
use super::room::Share;
use super::shared::Agent;
use super::tie::Tie;

/// The state of a connection.
pub struct Session {
    pub id: u64,
    pub peer: Peer,
    pub protocol: Protocol,
    /// True if it needs no password, or has given it.
    pub is_known: bool,
    /// `None`: it has never logged in.
    pub share: Option<Arc<Share>>,
    pub tie: Arc<Tie>,
    /// The text about the process, once it is needed.
    about: OnceLock<String>,
    channels: BTreeSet<Vec<u8>>,
    losses: Option<Subscription>,
}

impl Session {
    pub fn new(id: u64, peer: Peer) -> Session {
        Session {
            id,
            peer,
            protocol: Protocol::Resp2,
            is_known: false,
            share: None,
            about: OnceLock::new(),
            tie: Arc::new(Tie::default()),
            channels: BTreeSet::new(),
            losses: None,
        }
    }

    /// Lets the client in, and counts the connection as one of its user's. False: the user has too many.
    pub fn log_in(&mut self, agent: &Arc<Agent>) -> bool {
        if self.share.is_none() {
            self.share = agent.connections.add(self.peer.owner());
        }
        self.is_known = self.share.is_some();
        if self.is_known {
            agent.connections.remove_stranger(self.id);
        }
        self.is_known
    }

    /// The META of a lock: first the process as the system reports it, so that the client cannot replace it, then the
    /// client's own text.
    pub fn meta(&self, given: &[u8], host: &str) -> String {
        let about = self.about.get_or_init(|| self.peer.about(host));
        let space = if given.is_empty() { "" } else { " " };
        format!("{about}{space}{}", String::from_utf8_lossy(given))
    }

    pub fn channels(&self) -> &BTreeSet<Vec<u8>> {
        &self.channels
    }

    /// True if only commands about subscriptions are allowed.
    pub fn only_subscribes(&self) -> bool {
        self.protocol == Protocol::Resp2 && !self.channels.is_empty()
    }

    pub fn subscribe(&mut self, agent: &Agent, channel: &[u8]) {
        if self.channels.insert(channel.to_vec()) && channel == CHANNEL {
            self.losses = Some(agent.common.losses.subscribe(self.peer.owner()));
        }
    }

    pub fn unsubscribe(&mut self, channel: &[u8]) {
        if self.channels.remove(channel) && channel == CHANNEL {
            self.losses = None;
        }
    }

    /// The next loss, if the connection has subscribed to them.
    pub async fn loss(&mut self) -> Result<Arc<str>, Behind> {
        match &mut self.losses {
            Some(losses) => losses.next().await,
            None => pending().await,
        }
    }

    /// Restores the state at the beginning of the connection. Locks stay.
    pub fn reset(&mut self) {
        self.channels.clear();
        self.losses = None;
        self.protocol = Protocol::Resp2;
        self.is_known = self.peer != Peer::Tcp;
    }

    /// Ends the locks that end with the connection, unless the agent ends it: then its client may still be at work.
    pub fn end(&mut self, agent: &Agent) {
        agent.connections.remove_stranger(self.id);
        if !agent.ending.is_set() {
            self.tie.ended.set();
        }
    }
}
