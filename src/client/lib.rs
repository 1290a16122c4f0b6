//! dlock from Rust.
