//! Output for people, for programs and for shells.
//!
//! [`stdout`] and [`stderr`]: the two streams. [`notice`]: notices for operators. [`failure`]: failures, each
//! with a [`kind`] and an [`exit`] code. [`table`], [`bytes`], [`duration`], [`shell`]: formats.

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
