//! The state of a server after a restart, and after a crash.

mod crash;
mod crash_again;
mod files;
mod log_cut;
