//! Errors, losses and panics in one shape, which each language turns into its exceptions.

use std::time::Duration;

use dlock_client::{DoneInfo, Error, HolderInfo, Key, Loss, Report};

/// An error for another language, which chooses the class of the exception by the code.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// Code for programs, as in `dlock --json`.
    pub code: &'static str,
    /// Text for people.
    pub message: String,
    /// The lock.
    pub key: Option<Key>,
    /// The state of each node.
    pub nodes: Vec<Report>,
    /// Time until a retry can succeed.
    pub retry_after: Option<Duration>,
    /// The holder of the lock.
    pub holder: Option<Box<HolderInfo>>,
    /// Time until the lock is free.
    pub left: Option<Duration>,
    /// The holder that has left the lock done.
    pub done: Option<Box<DoneInfo>>,
    /// Fence of a lost lock, or of the holder that has left it done.
    pub fence: Option<u64>,
    /// Reason of the loss, for programs.
    pub why: Option<&'static str>,
}

impl Failure {
    /// A request that is not valid.
    #[must_use]
    pub fn usage(message: String) -> Failure {
        Error::Usage(message).into()
    }

    /// A panic with this message.
    #[must_use]
    pub fn panic(message: &str) -> Failure {
        let message = format!("a defect of dlock, please report it: {message}");
        Failure { code: "internal", message, ..Failure::default() }
    }

    /// The loss of a lock, for a reason of a binding.
    #[must_use]
    pub fn lost(key: &Key, fence: u64, why: &'static str, text: &str) -> Failure {
        let message = format!("lock {key:?} (fence {fence}) {text}");
        let (key, fence, why) = (Some(key.clone()), Some(fence), Some(why));
        Failure { code: "lost", message, key, fence, why, ..Failure::default() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let failure = Failure {
            code: error.code(),
            message: error.to_string(),
            key: error.key().cloned(),
            nodes: error.nodes().to_vec(),
            retry_after: error.retry_after(),
            ..Failure::default()
        };
        match error {
            Error::Held { holder, .. } => Failure { holder, ..failure },
            Error::Done { left, fence, by, .. } => {
                Failure { left: Some(left), fence: Some(fence), done: by, ..failure }
            }
            Error::Lost(Loss { fence, why, .. }) => {
                Failure { fence: Some(fence), why: Some(why.name()), ..failure }
            }
            _ => failure,
        }
    }
}

impl From<Loss> for Failure {
    fn from(loss: Loss) -> Failure {
        Error::Lost(loss).into()
    }
}
