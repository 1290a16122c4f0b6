//! What the program says, and how: to people, to programs, to shells.
//!
//! [`stdout`] and [`stderr`]: where it goes. [`notice`]: what happens beside the work. [`failure`], with its [`kind`] and its [`exit`] code: what
//! went wrong. [`table`], [`bytes`], [`duration`], [`shell`]: how things are written.

pub mod bytes;
pub mod duration;
pub mod exit;
pub mod failure;
pub mod kind;
pub mod notice;
pub mod shell;
pub mod stderr;
pub mod stdout;
pub mod table;
