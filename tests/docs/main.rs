//! The documentation is true: every link leads somewhere, and every example gives what is printed.
//!
//! - [`page`]: a page of it, as blocks of examples with what comments say of them;
//! - [`links`]: where its links lead;
//! - [`alike`]: whether a program printed what a page shows, numbers aside;
//! - [`redis_cli`]: examples of redis-cli, run by redis-cli against a real server;
//! - [`codes`]: the codes of errors;
//! - [`dependencies`]: the reason for each dependency;
//! - [`examples`]: programs to copy, in other languages;
//! - [`library`]: examples in Rust, compiled;
//! - [`llms`]: the list of pages for language models;
//! - [`shell`]: examples of a shell, run by bash with real nodes.
//!
//! A comment above an example says what a reader need not see:
//!
//! - `<!-- before: COMMAND -->`: another client has sent this, and may still wait for its answer;
//! - `<!-- before: crash -->`: the server was killed and has started again;
//! - `<!-- held: KEY -->`: while a shell example runs, `dlock run` holds this lock;
//! - `<!-- exits: N -->`: a shell example whose last command ends with this code.

mod alike;
mod codes;
mod dependencies;
mod examples;
mod library;
mod links;
mod llms;
mod page;
mod redis_cli;
mod shell;
