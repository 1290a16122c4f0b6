//! A node that comes back empty.
