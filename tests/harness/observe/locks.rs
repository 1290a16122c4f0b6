//! Questions of the tests to a server about its locks, through public commands.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::client::Client;
use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;

/// The state that an error must leave as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// The fence counter.
    pub fence: i64,
    /// Leases of the whole node.
    pub leases: i64,
    /// Waiters of the whole node.
    pub waiters: i64,
    /// Keys of the first database.
    pub keys: i64,
}

impl Server {
    /// A field of DLOCK.NODE.
    #[track_caller]
    pub fn node(&self, field: &str) -> Value {
        self.run("DLOCK.NODE").at(field)
    }

    /// Reads the state that an error must leave as it was.
    #[track_caller]
    pub fn traces(&self) -> Traces {
        let node = self.run("DLOCK.NODE");
        Traces {
            fence: node.at("fence").int(),
            leases: node.at("leases").int(),
            waiters: node.at("waiters").int(),
            keys: self.run("DBSIZE").int(),
        }
    }

    /// The first tokens that hold a lock, in the order of TOKENS.
    #[track_caller]
    pub fn holders(&self, key: impl Display) -> Vec<String> {
        self.tokens(key, "holders")
    }

    /// The tokens that wait for a lock, in their order.
    #[track_caller]
    pub fn waiters(&self, key: &str) -> Vec<String> {
        self.tokens(key, "waiters")
    }

    /// The fields that TOKENS shows of the only holder of a lock.
    #[track_caller]
    pub fn holder(&self, key: impl Display) -> BTreeMap<String, Value> {
        let lock = self.run(&format!("DLOCK.TOKENS {key}"));
        let holders = lock.at("holders");
        assert_eq!(holders.items().len(), 1, "{lock:?}");
        holders.items()[0].map()
    }

    /// A new client with a waiting request: see [`Server::block`].
    #[track_caller]
    pub fn waiter(&self, words: &str) -> Client {
        let mut client = self.client();
        self.block(&mut client, words);
        client
    }

    /// Lets a client send a request that waits: it is blocked when this returns. If the wait is short and the
    /// machine slow, it has its answer already.
    #[track_caller]
    pub fn block(&self, client: &mut Client, words: &str) {
        let before = self.info_number("clients", "blocked_clients");
        client.send(words);
        eventually("a client is blocked, or has its answer", || {
            self.info_number("clients", "blocked_clients") > before || client.has_answer()
        });
    }

    /// Waits until the server has noticed the end of a connection.
    #[track_caller]
    pub fn until_gone(&self, client: i64) {
        let line = format!("id={client} ");
        eventually("the server notices that a client has gone", || {
            !self.run("CLIENT LIST").text().contains(&line)
        });
    }

    #[track_caller]
    fn tokens(&self, key: impl Display, list: &str) -> Vec<String> {
        let lock = self.run(&format!("DLOCK.TOKENS {key}"));
        if lock.is_null() {
            return Vec::new();
        }
        let people = lock.at(list);
        let tokens = people.items().iter().map(|one| one.at("token").text());
        tokens.collect()
    }
}
