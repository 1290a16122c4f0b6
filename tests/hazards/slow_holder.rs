//! A holder that is slower than its lease.
