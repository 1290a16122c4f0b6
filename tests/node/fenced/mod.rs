//! DLOCK.FENCED: commands that are carried out only if a fence allows it.

mod command;
mod inner;
mod kept;
