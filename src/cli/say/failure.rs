//! A failure that ends a subcommand early.

use std::fmt::Display;
use std::io;

use dlock_client::Error;
use serde_json::{Value, json};

use super::exit::Exit;
use super::kind::Kind;
use super::stderr::{self, complain};

/// A failure that ends a subcommand early.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    /// The kind's own exit code, unless the user has set another.
    pub exit: Exit,
    /// Text for stderr, of one or several lines. Empty: print nothing.
    pub message: String,
}

impl Failure {
    pub fn new(kind: Kind, message: impl Display) -> Failure {
        Failure { kind, exit: kind.exit(), message: message.to_string() }
    }

    pub fn usage(message: impl Display) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    /// A bug, or an error of the system.
    pub fn internal(error: &impl Display) -> Failure {
        Failure::new(Kind::Internal, error)
    }

    /// Reports the failure on stderr.
    pub fn report(self, as_json: bool) -> Exit {
        match as_json {
            true if self.message.is_empty() => {}
            true => stderr::event(&self.event()),
            false => complain(self.message),
        }
        self.exit
    }

    /// The event for programs.
    pub fn event(&self) -> Value {
        json!({"event": "error", "kind": self.kind.name(), "message": self.message})
    }
}

/// An error of the system.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::internal(&error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(Kind::from(&error), error)
    }
}
