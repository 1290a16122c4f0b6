//! The usual recipes on one server.
