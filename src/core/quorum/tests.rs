//! The machines, event by event.
