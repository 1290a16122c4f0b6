//! Observations of servers and clients. In reading order:
//! - [`wait`]: waiting for something observable;
//! - [`stuck`]: the state of a test that waits for too long;
//! - [`locks`]: questions to a server about its locks;
//! - [`quarantine`]: the reason and the length of a node's quarantine;
//! - [`state_file`]: a node's state file: its place and its content;
//! - [`memory`]: a server's memory, and leaks;
//! - [`picture`]: the stored state of a lock;
//! - [`payload`]: a lock's DUMP, taken apart and put together again;
//! - [`history`]: the grants that clients saw, and a check whether all of them can be true.

pub mod history;
pub mod locks;
pub mod memory;
pub mod payload;
pub mod picture;
pub mod quarantine;
pub mod state_file;
pub mod stuck;
pub mod wait;
