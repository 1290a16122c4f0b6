//! Locks by hand, for scripts, and what `dlock run` has in common with that.
//!
//! [`acquire`], [`extend`], [`release`]: the subcommands; [`lease`] is what they print. [`take`]: which
//! lock is wanted, and taking it, or several. [`waiting`]: what there is to wait for. [`meta`]: what
//! others see of the holder.

pub mod acquire;
pub mod extend;
pub mod lease;
pub mod meta;
pub mod release;
pub mod take;
pub mod waiting;
