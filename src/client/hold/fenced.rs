//! A connection to data that refuses late holders.

use std::sync::Arc;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, Value};

use crate::hold::guard::Guard;
use crate::key::Key;
use crate::report::error::Error;

/// A connection that sends every command with the fence or the token of a guard, so that the server refuses
/// the command once a later holder has been there. Use it like any connection of the `redis` crate;
/// [`Late::of`] recognises the errors of refused commands.
///
/// Send reads with the fence, too: a value that was read before a later holder wrote must not be written
/// back.
#[derive(Clone)]
pub struct Fenced<C> {
    connection: C,
    /// The words in front of every command.
    before: Arc<[Vec<u8>]>,
}

/// A server's refusal of a command of a [`Fenced`] connection. The command was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a later holder has been there, with fence {seen}")]
pub struct Late {
    /// Largest fence that the mark has seen.
    pub seen: u64,
}

impl Guard {
    /// Wraps a connection to data that `mark` protects, on any server with the module: every command shows
    /// this guard's fence to the mark.
    ///
    /// # Errors
    /// Fails when the lock is shared or has permits: its holders have different fences at the same time.
    pub fn fenced<C>(&self, connection: C, mark: impl Into<Key>) -> Result<Fenced<C>, Error> {
        let fence = self.exclusive_fence()?.to_string().into_bytes();
        let mark = mark.into().as_bytes().to_vec();
        Ok(Fenced { connection, before: [b"DLOCK.FENCED".to_vec(), mark, fence].into() })
    }
}

impl Late {
    /// Reads an error of a server; `None` if the server refused for another reason.
    #[must_use]
    pub fn of(error: &RedisError) -> Option<Late> {
        let detail = (error.code()? == "STALE").then(|| error.detail())??;
        Some(Late { seen: detail.split(' ').next()?.parse().ok()? })
    }
}

impl<C> Fenced<C> {
    /// Returns the connection, without the fence.
    pub fn into_inner(self) -> C {
        self.connection
    }

    fn wrapped(&self, command: &Cmd) -> Cmd {
        let mut wrapped = Cmd::new();
        for word in
            self.before.iter().map(Vec::as_slice).chain(words(&command.get_packed_command()))
        {
            wrapped.arg(word);
        }
        wrapped
    }
}

impl<C: ConnectionLike + Send> ConnectionLike for Fenced<C> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let wrapped = self.wrapped(command);
        Box::pin(async move { self.connection.req_packed_command(&wrapped).await })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let mut wrapped = Pipeline::new();
        if pipeline.is_transaction() {
            wrapped.atomic();
        }
        for command in pipeline.cmd_iter() {
            wrapped.add_command(self.wrapped(command));
        }
        Box::pin(async move { self.connection.req_packed_commands(&wrapped, offset, count).await })
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// The words of a packed request. Only these include a cursor, which `Cmd` does not show otherwise.
fn words(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line(packed).map_or(&[][..], |(_, rest)| rest);
    std::iter::from_fn(move || {
        let (length, after) = line(rest)?;
        let length = str::from_utf8(length.get(1..)?).ok()?.parse().ok()?;
        let (word, after) = after.split_at_checked(length)?;
        rest = after.get(2..)?;
        Some(word)
    })
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((bytes.get(..end)?, bytes.get(end + 2..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_wrapped_as_it_is_its_cursor_too() {
        let before = ["DLOCK.FENCED", "mark", "7"].map(|word| word.as_bytes().to_vec());
        let fenced = Fenced { connection: (), before: before.into() };
        let mut command = redis::cmd("SSCAN");
        command.arg("a\r\nb").arg(b"\xff\0").arg("").cursor_arg(42).arg(5);
        let wrapped = fenced.wrapped(&command).get_packed_command();
        let all: Vec<&[u8]> = words(&wrapped).collect();
        let expected: [&[u8]; 9] =
            [b"DLOCK.FENCED", b"mark", b"7", b"SSCAN", b"a\r\nb", b"\xff\0", b"", b"42", b"5"];
        assert_eq!(all, expected);
    }
}
