//! The known failures of usual lock recipes: each really fails here, on a real server, and dlock in the same
//! timeline does not. There is one file for each row of docs/hazards.md; [`side_by_side`] and [`other_kinds`]
//! show what happens while services move over. Where dlock has a limit, a test shows it, too.
//!
//! Parts that several rows share: recipes on one server are in [`recipe`], on several in [`redlock`],
//! programs that use the library in [`library`], and services that move over in [`fleet`]. With `make soak`
//! [`same_faults`] puts several locks through the same faults, before judges by other authors.

mod asked_again;
mod clock_steps;
mod dead_host;
mod evicted;
mod expire;
mod failover;
mod fleet;
mod getset;
mod late_del;
mod late_write;
mod library;
mod long_request;
mod muted_job;
mod ordered_waiters;
mod other_kinds;
mod quick_job;
mod recipe;
mod redlock;
mod restarted_node;
#[cfg(feature = "soak")]
mod same_faults;
mod side_by_side;
mod slow_holder;
mod slow_node;
mod spinning;
