//! The state of a connection: who is there, and what it has asked for.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::OnceLock;

use dlock_client::operator::Caller;
use tokio::sync::mpsc;
use tokio::task::block_in_place;

use super::Agent;
use super::losses::CHANNEL;
use super::peer::Peer;
use super::reply::{Protocol, Reply};
use super::room::Share;
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
    pub name: Vec<u8>,
    pub tie: Arc<Tie>,
    /// The text about the process, once it is needed.
    about: OnceLock<String>,
    channels: BTreeSet<Vec<u8>>,
    messages: Option<mpsc::Receiver<String>>,
}

impl Session {
    pub fn new(id: u64, peer: Peer) -> Session {
        Session {
            id,
            peer,
            protocol: Protocol::Resp2,
            is_known: false,
            share: None,
            name: Vec::new(),
            about: OnceLock::new(),
            tie: Arc::new(Tie::new()),
            channels: BTreeSet::new(),
            messages: None,
        }
    }

    /// Lets the client in, and counts the connection as one of its user's. False: the user has too many.
    pub fn log_in(&mut self, agent: &Arc<Agent>) -> bool {
        if self.share.is_none() {
            self.share = Share::take(agent, self.peer.owner());
        }
        self.is_known = self.share.is_some();
        if self.is_known {
            agent.room.remove_stranger(self.id);
        }
        self.is_known
    }

    /// The META of a lock: what the system knows of the process, and what the caller says. The former comes first, so the
    /// caller cannot put another process in its place.
    pub fn meta(&self, given: &[u8], host: &str) -> Vec<u8> {
        // A directory of users may be slow to answer.
        let about = self.about.get_or_init(|| block_in_place(|| self.peer.about(host))).as_bytes();
        let space: &[u8] = if given.is_empty() { b"" } else { b" " };
        let mut meta = [about, space, given].concat();
        meta.truncate(Caller::LONGEST_ABOUT);
        meta
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
            self.messages = Some(agent.losses.subscribe(self.id, self.peer.owner(), &self.tie));
        }
    }

    pub fn unsubscribe(&mut self, agent: &Agent, channel: &[u8]) {
        if self.channels.remove(channel) && channel == CHANNEL {
            agent.losses.unsubscribe(self.id);
            self.messages = None;
        }
    }

    /// The next message of its channels.
    pub async fn message(&mut self) -> Reply {
        let message = match &mut self.messages {
            Some(messages) => messages.recv().await,
            None => None,
        };
        let Some(message) = message else { return pending().await };
        let words = [b"message", CHANNEL, message.as_bytes()];
        Reply::Push(words.into_iter().map(Reply::text).collect())
    }

    /// Goes back to how it was when it began. Locks stay.
    pub fn reset(&mut self, agent: &Agent) {
        for channel in std::mem::take(&mut self.channels) {
            self.channels.insert(channel.clone());
            self.unsubscribe(agent, &channel);
        }
        self.protocol = Protocol::Resp2;
        self.is_known = self.peer != Peer::Tcp;
        self.name.clear();
    }

    /// Ends the locks that end with the connection.
    pub fn end(&mut self, agent: &Agent) {
        agent.room.remove_stranger(self.id);
        agent.losses.unsubscribe(self.id);
        self.tie.end();
    }
}
