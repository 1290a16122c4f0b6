//! Code that the libraries for Python and Node.js share: the layer between the library and values of another
//! language. It contains no rule of a lock.
//!
//! - `options`: the options of a lock, by name.
//! - `held`: locks that are acquired and held. `exit`: the end of a program.
//! - `value`: reports of nodes and notices as a tree. `failure`: errors, losses and panics in one shape.
//! - `events`: the library's log lines, for listeners in another language.

#![forbid(unsafe_code)]

pub mod events;
pub mod exit;
pub mod failure;
pub mod held;
pub mod options;
pub mod value;
