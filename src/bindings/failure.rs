//! Errors, losses and panics in one shape, which each language turns into its exceptions.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use dlock_client::{Error, Key, Loss};
use futures_util::FutureExt;

use crate::value::{Fields, Record, Value, list};

/// An error for another language, which chooses the class of the exception by the code.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Code for programs, as in `dlock --json`.
    pub code: &'static str,
    /// Text for people.
    pub message: String,
    /// Attributes of the exception: its lock, the nodes, and what only its class has.
    pub details: Fields,
}

impl Failure {
    /// A request that is not valid.
    #[must_use]
    pub fn usage(message: String) -> Failure {
        Error::Usage(message).into()
    }

    /// Returns the outcome of this work, or the error of a panic in it.
    ///
    /// # Errors
    /// Fails as the work does.
    pub async fn caught<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(done) => Ok(done?),
            Err(panic) => Err(Failure::panic(&said(&*panic))),
        }
    }

    /// A panic with this message.
    #[must_use]
    pub fn panic(message: &str) -> Failure {
        let message = format!("a defect of dlock, please report it: {message}");
        Failure { code: "internal", message, details: vec![NO_NODES] }
    }

    /// The loss of a lock, for a reason of a binding.
    #[must_use]
    pub fn lost(key: &Key, fence: u64, why: &'static str, text: &str) -> Failure {
        let message = format!("lock {key:?} (fence {fence}) {text}");
        let details =
            vec![NO_NODES, ("key", key.into()), ("fence", fence.into()), ("why", why.into())];
        Failure { code: "lost", message, details }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let mut details: Fields = vec![
            ("key", error.key().into()),
            ("nodes", list(error.nodes())),
            ("retry_after", error.retry_after().into()),
        ];
        match &error {
            Error::Held { holder, .. } => {
                details.push(("holder", holder.as_deref().map(Record::from).into()));
            }
            Error::Done { left, fence, by, .. } => {
                details.extend([("left", (*left).into()), ("fence", (*fence).into())]);
                details.push(("by", by.as_deref().map(Record::from).into()));
            }
            Error::Lost(Loss { fence, why, .. }) => {
                details.extend([("fence", (*fence).into()), ("why", why.name().into())]);
            }
            _ => {}
        }
        Failure { code: error.code(), message: error.to_string(), details }
    }
}

impl From<Loss> for Failure {
    fn from(loss: Loss) -> Failure {
        Error::Lost(loss).into()
    }
}

const NO_NODES: (&str, Value) = ("nodes", Value::List(Vec::new()));
