//! Polling for a lock.
