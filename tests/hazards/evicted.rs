//! A lock that is evicted.
