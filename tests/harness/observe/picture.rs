//! The stored state of a lock: all of TOKENS except times and connections.

use std::collections::BTreeMap;

use crate::client::Client;
use crate::server::Server;
use crate::value::Value;

/// A lock as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The mode of the holds.
    pub mode: String,
    /// The number of permits, 0 without a limit.
    pub limit: i64,
    /// The holders by token.
    pub holders: BTreeMap<String, Holder>,
}

/// A holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its fence.
    pub fence: i64,
    /// Text for an operator.
    pub meta: String,
    /// True if the hold ends with a connection.
    pub ephemeral: bool,
}

impl Picture {
    /// The answer of TOKENS on this connection; `None` for a free lock.
    #[track_caller]
    pub fn of(client: &mut Client, key: &str) -> Option<Picture> {
        Picture::read(&client.run(&format!("DLOCK.TOKENS {key}")))
    }

    /// Reads an answer to TOKENS; `None` for a free lock.
    #[track_caller]
    pub fn read(lock: &Value) -> Option<Picture> {
        if lock.is_null() {
            return None;
        }
        let lock = lock.map();
        let holders = lock["holders"].items().iter().map(|one| {
            let holder = Holder {
                fence: one.at("fence").int(),
                meta: one.at("meta").text(),
                ephemeral: one.at("ephemeral").int() == 1,
            };
            (one.at("token").text(), holder)
        });
        Some(Picture {
            mode: lock["mode"].text(),
            limit: lock.get("limit").filter(|limit| !limit.is_null()).map_or(0, |n| n.int()),
            holders: holders.collect(),
        })
    }
}

impl Server {
    /// All locks of the first two databases, as `database/key`.
    #[track_caller]
    pub fn pictures(&self) -> BTreeMap<String, Picture> {
        let mut client = self.client();
        let mut pictures = BTreeMap::new();
        for db in 0..2 {
            client.run(&format!("SELECT {db}"));
            let keys = client.run("SCAN 0 COUNT 100000 TYPE dlock-key");
            for key in keys.items()[1].items() {
                if let Some(picture) = Picture::of(&mut client, &key.text()) {
                    pictures.insert(format!("{db}/{}", key.text()), picture);
                }
            }
        }
        pictures
    }
}
