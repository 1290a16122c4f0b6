//! Code that the libraries for Python and Node share. Neither writes a rule of locks again; this is the layer
//! between the library and values of another language.
//!
//! - `connected`: a client with its runtime, and a mark after a panic.
//! - `mode`: a lock's mode.
//! - `held`: the state of a held lock.
//! - `lease`: locks that are handed on to the owner of their token.
//! - `words`: texts about panics.
//! - `tell`: the library's events, for listeners in another language.

#![forbid(unsafe_code)]

pub mod connected;
pub mod held;
pub mod lease;
pub mod mode;
pub mod tell;
pub mod words;
