//! The documentation is true: every link leads somewhere, and every example gives what is printed.
//!
//! - [`page`]: a page of it, as blocks of examples with what comments say of them;
//! - [`links`]: where its links lead;
//! - [`alike`]: whether a program printed what a page shows, numbers aside;
//! - [`redis_cli`]: examples of redis-cli, run by redis-cli against a real server;
//! - [`codes`]: the codes of errors;
//! - [`examples`]: programs to copy, in other languages;
//! - [`library`]: examples in Rust, compiled;
//! - [`shell`]: examples of a shell, run by bash with real nodes.
//!
//! A comment above an example says what a reader need not see:
//!
//! - `<!-- before: COMMAND -->`: another client has sent this, and may still wait for its answer;
//! - `<!-- before: crash -->`: the server was killed and has started again;
//! - `<!-- exits: N -->`: a shell example that ends with this code.

mod alike;
mod codes;
mod examples;
mod library;
mod links;
mod page;
mod redis_cli;
mod shell;
