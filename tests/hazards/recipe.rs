//! The usual recipes on one server, as services write them, and dlock beside them. [`Party`] is their common
//! interface, so that one timeline runs with either.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, Value};

/// A service that takes a lock, with any recipe.
pub trait Party: Send {
    /// Connects on its own, through the server or network at this port.
    fn connect(port: u16) -> Self;

    /// Takes the lock for this many milliseconds, if it is free.
    fn try_lock(&mut self, key: &str, ttl: u64) -> bool;

    /// Releases the lock. True if that took a lock away.
    fn unlock(&mut self, key: &str) -> bool;

    /// True if this client has the lock at the server.
    fn holds(&mut self, key: &str) -> bool;

    /// The number of its lock, where the recipe has numbers.
    fn fence(&self) -> Option<i64>;
}

/// A service that waits for a lock, with any recipe.
pub trait Waiting: Party {
    /// Takes the lock when it is free, or gives up.
    fn lock_within(&mut self, key: &str, ttl: u64, limit: Duration) -> bool;
}

/// `SET key value NX PX ttl` with a random value, and a script that deletes the key if it still has
/// that value. A waiter tries again and again.
pub struct SetNx {
    client: Client,
    value: String,
}

/// `DLOCK.ACQUIRE` and `DLOCK.RELEASE`, with a random token.
pub struct Dlock {
    client: Client,
    token: String,
    fence: Option<i64>,
}

/// Deletes the key if it still has the caller's value.
pub const COMPARE_AND_DELETE: &str = "\
    if redis.call('get', KEYS[1]) == ARGV[1] then \
        return redis.call('del', KEYS[1]) \
    else \
        return 0 \
    end";

/// Clients in a hurry sleep this long between two attempts.
pub const HURRY: Duration = Duration::from_millis(10);

/// Takes a lock with this value, if there is no such key.
pub fn set_nx(client: &mut Client, key: &str, value: &str, ttl: u64) -> bool {
    match client.run(&format!("SET {key} {value} NX PX {ttl}")) {
        Value::Simple(ok) if ok == "OK" => true,
        Value::Null => false,
        other => panic!("SET NX was answered {other:?}"),
    }
}

/// True if a lock has this value.
pub fn has_value(client: &mut Client, key: &str, value: &str) -> bool {
    client.run(&format!("GET {key}")) == Value::Bulk(value.into())
}

impl Party for SetNx {
    fn connect(port: u16) -> SetNx {
        SetNx { client: connect(port), value: String::new() }
    }

    fn try_lock(&mut self, key: &str, ttl: u64) -> bool {
        self.value = random();
        set_nx(&mut self.client, key, &self.value, ttl)
    }

    fn unlock(&mut self, key: &str) -> bool {
        self.client.run_args(&["EVAL", COMPARE_AND_DELETE, "1", key, &self.value]).int() == 1
    }

    fn holds(&mut self, key: &str) -> bool {
        has_value(&mut self.client, key, &self.value)
    }

    fn fence(&self) -> Option<i64> {
        None
    }
}

impl Waiting for SetNx {
    fn lock_within(&mut self, key: &str, ttl: u64, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.value = random();
        loop {
            if set_nx(&mut self.client, key, &self.value, ttl) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(HURRY);
        }
    }
}

impl Dlock {
    fn acquire(&mut self, key: &str, ttl: u64, options: &str) -> bool {
        self.token = random();
        let words = format!("DLOCK.ACQUIRE {key} {} {ttl} {options}", self.token);
        self.fence = match self.client.run(&words) {
            Value::Int(fence) => Some(fence),
            Value::Null => None,
            other => panic!("DLOCK.ACQUIRE was answered {other:?}"),
        };
        self.fence.is_some()
    }
}

impl Party for Dlock {
    fn connect(port: u16) -> Dlock {
        Dlock { client: connect(port), token: String::new(), fence: None }
    }

    fn try_lock(&mut self, key: &str, ttl: u64) -> bool {
        self.acquire(key, ttl, "")
    }

    fn unlock(&mut self, key: &str) -> bool {
        self.client.run(&format!("DLOCK.RELEASE {key} {}", self.token)).int() == 1
    }

    fn holds(&mut self, key: &str) -> bool {
        self.client.run(&format!("DLOCK.CHECK {key} {}", self.token)).is_int()
    }

    fn fence(&self) -> Option<i64> {
        self.fence
    }
}

impl Waiting for Dlock {
    fn lock_within(&mut self, key: &str, ttl: u64, limit: Duration) -> bool {
        self.acquire(key, ttl, &format!("WAIT {}", limit.as_millis()))
    }
}

/// A unique name.
pub fn random() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn connect(port: u16) -> Client {
    Client::connect(port).unwrap_or_else(|error| panic!("cannot connect to port {port}: {error}"))
}
