//! dlock beside what is not ours: the client libraries of docs/examples, and the stores of
//! docs/fences.md. `make test-world` installs them and runs these tests; `make test` does not.
//!
//! - [`client`]: the programs of docs/examples, each in a process of its own;
//! - [`examples`]: what their locks hold;
//! - [`fences_page`]: the statements of docs/fences.md;
//! - [`holders`]: a holder that stops, and the next one;
//! - [`postgres`] and [`sqlite`]: they refuse who is late.

mod client;
mod examples;
mod fences_page;
mod holders;
mod postgres;
mod sqlite;
