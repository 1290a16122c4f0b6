//! A server's wall clock that steps.
