//! Durability: the promise, and the state file that stores it before a grant.
//!
//! The rules are in the core ([`dlock_core::durability`]). These modules carry them out:
//!
//! - [`lifecycle`]: one process lifetime, from locking the state file to the last record in it.
//! - [`writer`]: the thread that writes, so that the server's main thread never touches the disk.
//! - [`file`]: the file on disk, written atomically and locked by one server.

pub mod file;
pub mod lifecycle;
pub mod writer;

use dlock_core::command::apply::write_promise;
use dlock_core::servers::slots::name_in;
use dlock_core::{Fence, Instant, Millis, Node, Promise, Record, Time};

use crate::ffi::context::{Ctx, Name, now};

use self::writer::RecordWriter;

/// The promise, its sources, and its messages to replicas.
pub struct Durability {
    /// The record in the state file, and the thread that writes it.
    pub writer: RecordWriter,
    /// `dlock.state-file`.
    pub state_file: String,
    /// The record of the last process, until this one has its data set.
    pub last_life: Option<LastLife>,
    /// The reason why this node grants nothing, and the time since when.
    pub refusing: Option<(Refusing, Instant)>,
    /// True if replicas should get the promise.
    tell: bool,
    /// True if this replica has its primary's data set, and has not yet asked for later commands.
    pub owes_ack: bool,
    /// Time of the last message to replicas, and the largest fence then.
    told: (Instant, Fence),
}

/// The reason why a node grants nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    Replica,
    Quarantine,
    NotDurable,
}

impl Refusing {
    /// The reason's name.
    pub fn name(self) -> &'static str {
        match self {
            Refusing::Replica => "replica",
            Refusing::Quarantine => "quarantine",
            Refusing::NotDurable => "not-durable",
        }
    }
}

/// The record of the last process in the state file, if there was one.
pub struct LastLife(pub Option<Record>);

impl Durability {
    /// A node without a promise and without a state file.
    pub fn new(node_id: u128) -> Durability {
        Durability {
            writer: RecordWriter::without_file(node_id),
            state_file: String::new(),
            last_life: None,
            refusing: None,
            tell: false,
            owes_ack: false,
            told: (Instant(0), Fence(0)),
        }
    }

    /// True if the data set has been loaded, and this node has begun with it.
    pub fn have_begun(&self) -> bool {
        self.last_life.is_none()
    }

    /// True if replicas should get the promise.
    pub fn have_to_tell(&self) -> bool {
        self.tell
    }

    /// Notes that replicas should get the promise.
    pub fn tell(&mut self) {
        self.tell = true;
    }

    /// Repeats the promise from time to time, because a replica of a replica receives it in no other way. But
    /// the server saves replicated commands as changes, so an idle node does not repeat it.
    pub fn tell_again(&mut self, fence: Fence, bound: Millis, now: Instant) {
        let (at, last) = self.told;
        if now.since(at) > TELL_EVERY && (bound.0 > 0 || fence > last) {
            (self.told, self.tell) = ((now, fence), true);
        }
    }

    /// Sends the promise to replicas, before this node uses it. While slots migrate, it goes as an effect on a
    /// key in the slot `aside`, which stays.
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

    /// Writes the promise, and waits for the disk. False: the write failed.
    pub fn write_now(&mut self, promise: &Promise) -> bool {
        let written = self.writer.write_now(*promise, now());
        self.tell |= written;
        written
    }
}

/// The interval of the promise's repetitions, in µs.
const TELL_EVERY: u64 = 5_000_000;
