//! Waiters in order, the one in front gone.
