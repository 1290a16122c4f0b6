//! Locks by hand, for scripts, and the parts that `dlock run` shares with them.
//!
//! [`acquire`], [`extend`], [`release`]: the subcommands; [`lease`]: their output. [`take`]: the options of
//! a lock, and taking it. [`events`]: what happens to them, on stderr. [`waiting`]: the reasons of a wait. [`meta`]: the text about a holder.

pub mod acquire;
pub mod events;
pub mod extend;
pub mod lease;
pub mod meta;
pub mod release;
pub mod take;
pub mod waiting;
