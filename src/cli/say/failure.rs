//! Why a subcommand ends early.

use std::fmt::Display;

use dlock_client::Error;
use serde_json::{Value, json};

use super::exit::Exit;
use super::kind::Kind;
use super::stderr::{self, complain};

/// Why a subcommand ends early.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    /// The kind's own, unless the user has chosen another.
    pub exit: Exit,
    /// For stderr; may have several lines. Empty: there is nothing to say.
    pub message: String,
}

impl Failure {
    pub fn new(kind: Kind, message: impl Display) -> Failure {
        Failure { kind, exit: kind.exit(), message: message.to_string() }
    }

    pub fn usage(message: impl Display) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    /// A bug, or the system refuses something.
    pub fn internal(error: &impl Display) -> Failure {
        Failure::new(Kind::Internal, error)
    }

    /// Says it on stderr.
    pub fn report(self, as_json: bool) -> Exit {
        match as_json {
            true if self.message.is_empty() => {}
            true => stderr::event(&self.event()),
            false => complain(self.message),
        }
        self.exit
    }

    /// For programs.
    pub fn event(&self) -> Value {
        json!({"event": "error", "kind": self.kind.name(), "message": self.message})
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(Kind::from(&error), error)
    }
}
