//! Redlock as it is usually written.
