//! What is promised, and the file that says so before anything is granted.
//!
//! The idea and its rules are the core's ([`dlock_core::durability`]). Here is what carries them out:
//!
//! - [`lifecycle`]: one life of a server, from taking the state file to the last record in it.
//! - [`writer`]: the thread that writes, so that the server's main thread never touches the disk.
//! - [`file`]: the file on disk: whole or not at all, and one server's alone.

pub mod file;
pub mod lifecycle;
pub mod writer;

use dlock_core::cluster::name_in;
use dlock_core::command::apply::write_promise;
use dlock_core::{Fence, Instant, Millis, Node, Promise, Record, Time};

use crate::ffi::context::{Ctx, Name, now};

use self::writer::RecordWriter;

/// What is promised, who has been told, and what it rests on.
pub struct Durability {
    /// What the state file says, and the thread that writes it.
    pub writer: RecordWriter,
    /// `dlock.state-file`.
    pub state_file: String,
    /// What the state file said of the last life, until this one has its data set.
    pub last_life: Option<LastLife>,
    /// Whether the server has kept a log that misses nothing, in all of this life.
    pub log_is_kept: bool,
    /// Whether a log has been loaded at this start.
    pub loads_log: bool,
    /// Since when nothing has been granted, and why.
    pub refusing: Option<(Refusing, Instant)>,
    /// Whether replicas should be told what is promised.
    tell: bool,
    /// Whether this replica has its primary's data set, and has not asked for what came after.
    pub owes_ack: bool,
    /// When they were told last, and how far fences had been handed out then.
    told: (Instant, Fence),
}

/// Why a node grants nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    Replica,
    Quarantine,
    NotDurable,
}

impl Refusing {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Refusing::Replica => "replica",
            Refusing::Quarantine => "quarantine",
            Refusing::NotDurable => "not-durable",
        }
    }
}

/// What the last life left behind in the state file, if there is one.
pub struct LastLife(pub Option<Record>);

impl Durability {
    /// Nothing is promised yet, and there is no state file.
    pub fn new(node_id: u128) -> Durability {
        Durability {
            writer: RecordWriter::without_file(node_id),
            state_file: String::new(),
            last_life: None,
            log_is_kept: false,
            loads_log: false,
            refusing: None,
            tell: false,
            owes_ack: false,
            told: (Instant(0), Fence(0)),
        }
    }

    /// Whether the data set has been loaded, and this life has begun with it.
    pub fn have_begun(&self) -> bool {
        self.last_life.is_none()
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
            self.writer.set_log_is_complete(false);
        }
        let written = self.writer.write_now(promise.clone(), now());
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
