//! A lease, as a script reads it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use dlock_client::Token;
use serde_json::json;

use super::take;
use crate::key::Named;
use crate::say::shell::quoted;
use crate::say::{bytes, stdout};

/// A lease, in the form that `acquire` and `extend` print.
pub struct ShownLease<'a> {
    pub name: &'a Named,
    pub token: &'a Token,
    pub fence: u64,
    pub left: Duration,
}

impl ShownLease<'_> {
    /// Prints the lease as a JSON object, or for a shell's `eval`. A reader that has gone is an error: the token
    /// would be lost.
    pub fn deliver(&self, as_json: bool) -> io::Result<()> {
        stdout::deliver(if as_json { self.json() } else { self.assignments() })
    }

    fn json(&self) -> Vec<u8> {
        let others = json!({
            "token": self.token.to_string(),
            "fence": self.fence,
            "deadline_ms": u64::try_from(take::deadline(self.left)).unwrap_or(u64::MAX),
        });
        bytes::line(&bytes::about(&self.name.key, others)).into_bytes()
    }

    fn assignments(&self) -> Vec<u8> {
        let mut text = b"export DLOCK_KEY=".to_vec();
        text.extend_from_slice(quoted(&self.name.typed).as_bytes());
        let (token, fence, deadline) = (self.token, self.fence, take::deadline(self.left));
        let rest = [
            format!("DLOCK_TOKEN={token}"),
            format!("DLOCK_FENCE={fence}"),
            format!("DLOCK_DEADLINE_MS={deadline}\n"),
        ];
        for assignment in rest {
            text.extend_from_slice(b"\nexport ");
            text.extend_from_slice(assignment.as_bytes());
        }
        text
    }
}
