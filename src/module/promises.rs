//! The promises of a node: what is promised, who has been told, and what they rest on.

use dlock_core::cluster::name_in;
use dlock_core::command::apply::write_promise;
use dlock_core::{Fence, Instant, Millis, Node, Promise, Record, Time};

use crate::ffi::context::{Ctx, Name, now};
use crate::ledger::Ledger;

/// The promises of a node.
pub struct Promises {
    /// What is promised, and the thread that writes it down.
    pub ledger: Ledger,
    /// `dlock.state-file`.
    pub state_file: String,
    /// What the state file said, until the data set is loaded.
    pub beginning: Option<Beginning>,
    /// Whether the server has kept a log that misses nothing, in all of this life.
    pub log_is_kept: bool,
    /// Whether a log has been loaded at this start.
    pub loads_log: bool,
    /// Whether replicas should be told what is promised.
    tell: bool,
    /// When they were told last, and how far fences had been handed out then.
    told: (Instant, Fence),
}

/// A life that has begun, but not yet with its data set.
pub struct Beginning {
    /// What the last one left behind.
    pub before: Option<Record>,
}

impl Promises {
    /// Nothing is promised yet, and there is no state file.
    pub fn new(node_id: u128) -> Promises {
        Promises {
            ledger: Ledger::nowhere(node_id),
            state_file: String::new(),
            beginning: None,
            log_is_kept: false,
            loads_log: false,
            tell: false,
            told: (Instant(0), Fence(0)),
        }
    }

    /// Whether the data set has been loaded, and this life has begun with it.
    pub fn have_begun(&self) -> bool {
        self.beginning.is_none()
    }

    /// Whether replicas are to learn something.
    pub fn have_to_tell(&self) -> bool {
        self.tell
    }

    /// Replicas are to learn what is promised.
    pub fn tell(&mut self) {
        self.tell = true;
    }

    /// A server that follows another replica hears nothing but what is told again. But what is
    /// replicated counts as a change that has to be saved, so an idle node says nothing.
    pub fn tell_again(&mut self, fence: Fence, bound: Millis, now: Instant) {
        let (at, last) = self.told;
        if now.since(at) > TELL_EVERY && (bound.0 > 0 || fence > last) {
            (self.told, self.tell) = ((now, fence), true);
        }
    }

    /// Replicas learn what is promised, before it is used. While slots migrate, `aside` is one that does
    /// not.
    pub fn tell_replicas(
        &mut self,
        ctx: Ctx<'_>,
        node: &Node,
        may_write: bool,
        time: Time,
        aside: Option<u16>,
    ) {
        if self.tell && may_write && ctx.has_replicas() {
            let promise = node.promise(time);
            match aside {
                None => ctx.replicate_promise(&promise),
                Some(slot) => {
                    let mut written = Vec::new();
                    write_promise(&promise, &mut written);
                    ctx.replicate_apply(&Name::new(&name_in(slot)), &written, b"");
                }
            }
        }
        self.tell &= !may_write && !node.is_following();
    }

    /// Writes the promise, and waits until it is done. What was last said of the log goes with it,
    /// and can only become less here.
    pub fn write_now(&mut self, promise: &Promise) -> bool {
        if !self.log_is_kept {
            self.ledger.set_log_is_complete(false);
        }
        let written = self.ledger.write_now(promise.clone(), now());
        self.tell |= written;
        written
    }
}

/// How often replicas are told, in µs.
const TELL_EVERY: u64 = 5_000_000;

/// So many keys, in words.
pub fn count_keys(keys: usize) -> String {
    format!("{keys} {}", if keys == 1 { "key" } else { "keys" })
}
