//! Observations of servers and clients. In reading order:
//! - [`wait`]: waiting for something observable, and [`busy`]: what a busy machine adds to a time;
//! - [`locks`]: what a server says of its locks;
//! - [`quarantine`]: why a node grants nothing, and for how long;
//! - [`state_file`]: where a node keeps its state, and what it says about it;
//! - [`memory`]: what a server uses of it, and whether it gives it back;
//! - [`picture`]: what is stored of a lock;
//! - [`payload`]: what DUMP gives for a lock, taken apart and put together again;
//! - [`history`]: what clients saw of their grants, and whether it can all be true.

pub mod busy;
pub mod history;
pub mod locks;
pub mod memory;
pub mod payload;
pub mod picture;
pub mod quarantine;
pub mod state_file;
pub mod wait;
