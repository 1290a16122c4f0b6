//! The known failures of usual lock recipes: each really fails here, on a real server, and dlock in
//! the same timeline does not. One file for each row of the README's table.
//!
//! The recipes that several rows share are in [`recipe`] (one server) and [`redlock`] (several).

mod asked_again;
mod clock_steps;
mod evicted;
mod expire;
mod failover;
mod getset;
mod late_del;
mod ordered_waiters;
mod paused_holder;
mod recipe;
mod redlock;
mod restarted_node;
mod side_by_side;
mod slow_holder;
mod slow_node;
mod spinning;
