//! Errors of connections and servers, with advice.

use std::time::Duration;

use redis::{ConnectionAddr, ErrorKind, RedisError, ServerError};

use super::address::host::Host;
use super::endpoint::Endpoint;
use super::tls;
use crate::printable::brief;
use crate::report::code::code;
use crate::report::{Length, NodeError};

impl NodeError {
    /// Describes a failure to connect within this time, with advice about the address.
    #[must_use]
    pub fn not_connected(endpoint: &Endpoint, error: &RedisError, within: Duration) -> NodeError {
        match endpoint.info().addr() {
            _ if error.is_timeout() => NodeError::no_connection(endpoint.uses_tls(), within),
            ConnectionAddr::Tcp(..) | ConnectionAddr::TcpTls { .. }
                if error.is_connection_dropped() && !error.is_connection_refusal() =>
            {
                let tls = match endpoint.uses_tls() {
                    true => "does that port speak TLS? else write redis://",
                    false => "is it a TLS port? then write rediss://",
                };
                NodeError::Unreachable(format!("{HUNG_UP} ({MAX_CLIENTS}; {tls})"))
            }
            _ => NodeError::from(error),
        }
    }

    /// No answer while connecting, within this time.
    pub(crate) fn no_connection(tls: bool, within: Duration) -> NodeError {
        if !tls {
            return NodeError::TimedOut(within);
        }
        // A server without TLS reads the handshake as the beginning of a long command, and waits
        // for its end.
        let words = "(does that port speak TLS? else write redis://)";
        NodeError::Unreachable(format!("no answer within {} {words}", Length(within)))
    }

    /// Adds the server whose connection failed.
    pub(crate) fn at(self, host: &Host) -> NodeError {
        match self {
            NodeError::Unreachable(why) => NodeError::Unreachable(format!("{host}: {why}")),
            NodeError::Unfit(why) => NodeError::Unfit(format!("{host}: {why}")),
            // Only connecting has timed out: the server has no request to carry out.
            NodeError::TimedOut(after) => {
                NodeError::Unreachable(format!("{host}: no answer within {}", Length(after)))
            }
            error => error,
        }
    }
}

/// Translates an error of the server: a line that begins with its code.
pub(crate) fn server_error(error: &ServerError) -> NodeError {
    let line = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    of_line(line)
}

/// Translates an error of a connection, or of the server.
impl From<&RedisError> for NodeError {
    fn from(error: &RedisError) -> NodeError {
        let details = error.detail().unwrap_or_default();
        match (error.kind(), error.code()) {
            // A refused SELECT: the library for Redis drops its code.
            (_, Some("ERR")) if details.contains(NO_PERMISSION) => {
                of_line(format!("NOPERM {details}"))
            }
            (_, Some("ERR")) if details.contains(IS_BUSY) => of_line(format!("BUSY {details}")),
            (_, Some(code)) => of_line(format!("{code} {details}")),
            (ErrorKind::AuthenticationFailed, _) => NodeError::Refused(format!(
                "WRONGPASS the user or the password is not accepted: {details}"
            )),
            (ErrorKind::RESP3NotSupported, _) => {
                NodeError::Unfit("the server is too old: it does not know RESP3".to_owned())
            }
            (ErrorKind::Parse, _) => NodeError::Unreachable(NO_REDIS.to_owned()),
            _ => {
                let words = tls::explained(error).unwrap_or_else(|| plain(&error.to_string()));
                NodeError::Unreachable(words)
            }
        }
    }
}

const NO_PERMISSION: &str = "has no permissions";
const IS_BUSY: &str = "is busy running a";
const HUNG_UP: &str = "the connection was closed before the server answered";
const MAX_CLIENTS: &str = "are there too many clients? then raise maxclients";
const NO_REDIS: &str = "the server there does not speak the Redis protocol \
                        (is it a TLS port? then write rediss://)";

/// A server's error, with advice where its own text gives none.
fn of_line(line: String) -> NodeError {
    // Some servers repeat the arguments of an unknown command, and HELLO has the password.
    let line = brief(line.split(", with args").next().unwrap_or_default());
    if line.ends_with("at an agent") {
        return NodeError::Unfit(AN_AGENT.to_owned());
    }
    let unknown = line.starts_with("ERR unknown command");
    if unknown && line.to_ascii_uppercase().contains("DLOCK.") {
        return NodeError::Unfit(NO_MODULE.to_owned());
    }
    if code(&line) == "NOAUTH" {
        return NodeError::Refused(
            "NOAUTH a password is needed: redis://user:password@host".to_owned(),
        );
    }
    if ["MOVED", "ASK"].contains(&code(&line)) {
        return NodeError::Refused(format!("{line}{A_CLUSTER}"));
    }
    NodeError::Refused(line)
}

/// Advice after a cluster server's redirect, for the address of a single server.
pub(super) const A_CLUSTER: &str = " (a Redis Cluster: write redis+cluster://host:port)";

pub(super) const AN_AGENT: &str =
    "it is an agent and no node: give the addresses of the nodes behind it";

const NO_MODULE: &str = "the dlock module is not loaded (loadmodule /path/to/libdlock.so); \
                         for a Sentinel write redis+sentinel://host:26379/NAME";

/// The operating system's text without the number.
pub(crate) fn plain(text: &str) -> String {
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_the_module_is_told_so() {
        let unknown =
            of_line("ERR unknown command 'DLOCK.ACQUIRE', with args beginning".to_owned());
        assert_eq!(unknown, NodeError::Unfit(NO_MODULE.to_owned()));
        let agent = of_line("ERR unknown command 'DLOCK.INSPECT' at an agent".to_owned());
        assert_eq!(agent, NodeError::Unfit(AN_AGENT.to_owned()));
        let line = "ERR unknown command 'FOO'".to_owned();
        let told = format!("{line}, with args beginning with: 'AUTH' 'secret'");
        assert_eq!(of_line(told), NodeError::Refused(line));
        let busy = RedisError::from((
            redis::ErrorKind::Server(redis::ServerErrorKind::ResponseError),
            "",
            "Redis is busy running a script".to_owned(),
        ));
        assert_eq!(NodeError::from(&busy).to_string(), "BUSY Redis is busy running a script");
        assert_eq!(plain("Connection refused (os error 111)"), "Connection refused");
    }
}
