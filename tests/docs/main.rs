//! The documentation is true: every link leads to a target, and every example prints what the page shows.
//!
//! - [`page`]: a page of it, as blocks of examples with their comments;
//! - [`links`]: the targets of links;
//! - [`alike`]: the comparison of a program's output with a page, numbers aside;
//! - [`redis_cli`]: examples of redis-cli, run by redis-cli against a real server;
//! - [`codes`]: the codes of errors;
//! - [`dependencies`]: the reason for each dependency;
//! - [`examples`]: programs to copy, in other languages;
//! - [`library`]: examples in Rust, compiled;
//! - [`llms`]: the list of pages for language models;
//! - [`shell`]: examples of a shell, run by bash with real nodes.
//!
//! A comment above an example has notes that a reader need not see:
//!
//! - `<!-- before: COMMAND -->`: another client has sent this, and may still wait for its answer;
//! - `<!-- before: crash -->`: the server was killed and has started again;
//! - `<!-- held: KEY -->`: while a shell example runs, `dlock run` holds this lock;
//! - `<!-- exits: N -->`: the last command of a shell example ends with this code.

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
