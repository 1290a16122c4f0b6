//! DLOCK.FENCED and DLOCK.GUARD: commands that are carried out only if a fence or a lock allows it.

mod command;
mod guard;
mod inner;
mod kept;
mod model;
