//! The stream from a primary to its replica.

use dlock_core::simulated::{Replicated, Report};
use dlock_core::{Holder, KeyBuf, Mode, Promise};

/// The stream, before the network has it.
#[derive(Debug, Default)]
pub struct Stream {
    /// Its content.
    pub sent: Vec<Sent>,
    /// True if there is a replica.
    pub has_replica: bool,
    /// A flaw: the replica does not receive renewals.
    pub hides_renewals: bool,
}

/// A message to a replica.
#[derive(Clone, Debug)]
pub enum Sent {
    /// The data set.
    DataSet(Vec<(KeyBuf, Mode, Holder)>),
    /// An effect.
    Effect(Replicated),
    /// The primary's promise. True: the primary may be waiting for leases that no server has.
    Promise(Promise, bool),
}

impl Stream {
    /// Sends what a node reported.
    pub fn send(&mut self, event: &Report) {
        let hides = self.hides_renewals && matches!(event, Report::Renewed { .. });
        if self.has_replica && !hides {
            self.sent.extend(Replicated::write(event).map(Sent::Effect));
        }
    }
}
