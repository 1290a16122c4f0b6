//! Tokens, and requests of `dlock.compat`, whose clients have one node.

use std::future::Future;
use std::time::Duration;

use dlock_client::operator;
use dlock_client::{Client, Error, Key, NodeError, NodeState, Report, Token};
use pyo3::prelude::*;
use redis::{Cmd, Value};

use crate::arguments::text;
use crate::errors;

/// Reads a token.
pub(crate) fn token(given: &Bound<'_, PyAny>) -> PyResult<Token> {
    let read = text("token", given)?.parse::<Token>();
    read.map_err(|error| errors::usage(given.py(), error.to_string()))
}

/// Asks whether anybody holds the lock.
pub(crate) fn is_held(
    client: &Client,
    key: Key,
) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
    let inspect = command("DLOCK.INSPECT", &key);
    ask(client, key, inspect, |reply| {
        Ok(operator::inspection(reply)?.is_some_and(|lock| lock.is_held()))
    })
}

/// Asks whether the token holds the lock.
pub(crate) fn owns(
    client: &Client,
    key: Key,
    token: &str,
) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
    let mut check = command("DLOCK.CHECK", &key);
    check.arg(token);
    ask(client, key, check, |reply| Ok(*reply != Value::Nil))
}

/// Lets the lock end this much later, or this long from now. Returns whether the token holds it.
pub(crate) fn lengthen(
    client: &Client,
    key: Key,
    token: &str,
    by: Duration,
    from_now: bool,
) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
    let mut extend = match from_now {
        true => command("DLOCK.EXTEND", &key),
        false => {
            let mut add = redis::cmd("EVAL");
            add.arg(ADD).arg(1).arg(key.as_bytes());
            add
        }
    };
    extend.arg(token).arg(u64::try_from(by.as_millis()).unwrap_or(u64::MAX));
    ask(client, key, extend, |reply| Ok(*reply == Value::Int(1)))
}

/// Asks the node once: a request that adds to a lease must not arrive twice.
fn ask(
    client: &Client,
    key: Key,
    command: Cmd,
    read: fn(&Value) -> Result<bool, NodeError>,
) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
    let node = client.nodes().next().cloned();
    async move {
        let Some(node) = node else { return Err(Error::Usage("there is no node".to_owned())) };
        node.send(&command).await.and_then(|reply| read(&reply)).map_err(|error| {
            let state = NodeState::from(error);
            let refused = matches!(state, NodeState::Refused(_));
            let nodes = vec![Report { node: node.name().to_owned(), state }];
            match refused {
                true => Error::Refused { key, nodes },
                false => Error::NoQuorum { key, needed: 1, nodes },
            }
        })
    }
}

fn command(name: &str, key: &Key) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key.as_bytes());
    command
}

/// Adds to the rest of a lease, as the server knows it, in one step. The lock may be a string of redis-py's
/// Lock.
const ADD: &str = "
local function fields(list)
    local map = {}
    for at = 1, #list, 2 do map[list[at]] = list[at + 1] end
    return map
end
local seen = redis.call('DLOCK.INSPECT', KEYS[1])
if not seen then return 0 end
local lock = fields(seen)
local left = lock['ttl-ms']
if lock['mode'] ~= 'foreign' then
    local fence = redis.call('DLOCK.CHECK', KEYS[1], ARGV[1])
    if not fence then return 0 end
    for _, each in ipairs(lock['holders']) do
        local holder = fields(each)
        if holder['fence'] == fence then left = holder['ttl-ms'] end
    end
end
if not left then return 0 end
return redis.call('DLOCK.EXTEND', KEYS[1], ARGV[1], string.format('%.0f', left + ARGV[2]))
";
