//! Data on a server.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use dlock_client::{Key, Late, NodeState};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, Value};

use crate::global::Global;
use crate::nodes::{self, NOT_GIVEN};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::stdout;

/// Sends the command, and prints the reply in redis-cli's plain form.
pub async fn run(
    words: &[OsString],
    data: Option<&str>,
    mark: &OsStr,
    fence: u64,
    global: &Global,
) -> Result<Exit, Failure> {
    let mut command = redis::cmd("DLOCK.FENCED");
    command.arg(mark.as_bytes()).arg(fence);
    for word in words {
        command.arg(word.as_bytes());
    }
    let url = url(data, global)?;
    let is_default = data.is_none() && nodes::is_default(global);
    let address = dlock_client::Address::read(&url)?;
    let within = nodes::timeout(global);
    let key = Key::from(mark.as_bytes());
    let server = address.primary_of(&key, within).await.map_err(|error| {
        let words = format!("{}: {error}", address.name());
        Failure::new(Kind::from(error), words)
    })?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(within));
    let said = async {
        let mut connection = server.endpoint.connect(config, within).await?;
        command.query_async::<Value>(&mut *connection).await
    };
    let reply = said.await.map_err(|error| {
        let mut failure = failure(&server.name, &error);
        let has_no_module = failure.message.contains("unknown command");
        if is_default && (has_no_module || failure.kind == Kind::Unreachable) {
            failure.message.push_str(&format!("\n{NOT_GIVEN}"));
        }
        failure
    })?;
    let mut text = Vec::new();
    write(&mut text, &reply).map_err(|error| Failure::internal(&error))?;
    stdout::print(text)?;
    Ok(Exit::OK)
}

/// Returns the address of the server with the data.
fn url(data: Option<&str>, global: &Global) -> Result<String, Failure> {
    if let Some(url) = data {
        return Ok(url.to_owned());
    }
    match &nodes::urls(global)?[..] {
        [only] => Ok(only.clone()),
        _ => Err(Failure::usage(
            "several nodes are named, and one of them has the data: name it with --data URL or in DLOCK_DATA",
        )),
    }
}

fn failure(name: &str, error: &RedisError) -> Failure {
    if let Some(late) = Late::of(error) {
        return Failure::new(Kind::Lost, late);
    }
    let state = match error.code() {
        Some(code) if error.kind() != ErrorKind::Io => {
            NodeState::Refused(format!("{code} {}", error.detail().unwrap_or_default()))
        }
        _ => NodeState::Unreachable(error.to_string()),
    };
    Failure::new(Kind::from(&state), format_args!("{name}: {error}"))
}

fn write(out: &mut impl Write, reply: &Value) -> io::Result<()> {
    match reply {
        Value::Nil => writeln!(out),
        Value::Int(n) => writeln!(out, "{n}"),
        Value::Okay => writeln!(out, "OK"),
        Value::SimpleString(text) => writeln!(out, "{text}"),
        Value::BulkString(bytes) => {
            out.write_all(bytes)?;
            writeln!(out)
        }
        Value::Double(n) => writeln!(out, "{n}"),
        Value::Boolean(yes) => writeln!(out, "{yes}"),
        Value::Array(items) | Value::Set(items) => items.iter().try_for_each(|i| write(out, i)),
        Value::Map(pairs) => pairs.iter().try_for_each(|(name, value)| {
            write(out, name)?;
            write(out, value)
        }),
        other => writeln!(out, "{other:?}"),
    }
}
