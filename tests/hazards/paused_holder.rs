//! A holder that is paused before it writes.
