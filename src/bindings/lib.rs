//! What the libraries for Python and Node have in common. Neither writes a rule of locks again; this is what
//! lies between the library and values of another language.
//!
//! - `connected`: what a process has of a client, and whether something in there has panicked.
//! - `wanted`: a lock that is wanted, with its options.
//! - `held`: a lock that is held, or why it is not any more.
//! - `lease`: locks that nobody renews, and what can be done with a token alone.
//! - `words`: of panics, the same everywhere.
//! - `tell`: what the library tells, for whoever listens in another language.

#![forbid(unsafe_code)]

pub mod connected;
pub mod held;
pub mod lease;
pub mod tell;
pub mod wanted;
pub mod words;
