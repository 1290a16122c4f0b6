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
use dlock_core::{Node, Promise, Record, Time};

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
    /// The reason why this node grants nothing.
    pub refusing: Option<Refusing>,
    /// True if replicas should get the promise.
    pub owes_promise: bool,
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
            owes_promise: false,
        }
    }

    /// True if the data set has been loaded, and this node has begun with it.
    pub fn have_begun(&self) -> bool {
        self.last_life.is_none()
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
        if self.owes_promise && may_write && ctx.has_replicas() {
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
        self.owes_promise &= !may_write && !node.is_following();
    }

    /// Writes the promise, and waits for the disk. False: the write failed.
    pub fn write_now(&mut self, promise: &Promise) -> bool {
        let written = self.writer.write_now(*promise, now());
        self.owes_promise |= written;
        written
    }
}
