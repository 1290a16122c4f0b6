//! The harness of the end-to-end tests: real servers, raw clients, and waiting without sleeping.
//!
//! The parts in reading order, each a folder with a `mod.rs` that lists its modules:
//! - [`servers`]: real servers, alone, as replicas, behind Sentinels, in a cluster or a quorum;
//! - [`clients`]: connections, the library and the program, as users have them;
//! - [`faults`]: networks, disks, memory and clocks that fail when the test says so;
//! - [`observe`]: observations of a lock and its node, and waiting for them.
//!
//! and [`seed`]: random numbers that can be had again; [`soak`]: the length of tests that can go on
//! for hours. A module is called by its name alone: `harness::proxy`.
//!
//! A test is a function of the server's kind. [`on_every_server!`] makes five tests of it, named after the
//! servers: `cargo test redis_7_0` picks all tests of one server. Where servers do not differ, use
//! [`on_one_server!`] or [`on_two_servers!`]; so `redis_8_2` picks each test once:
//!
//! ```ignore
//! #[apply(on_every_server)]
//! fn a_free_lock_is_granted(kind: Kind) {
//!     let server = Server::start(kind);
//!     let mut client = server.client();
//!     assert!(client.run("DLOCK.ACQUIRE job alice 1000").int() > 0);
//! }
//! ```

pub mod clients;
pub mod faults;
pub mod observe;
pub mod seed;
pub mod servers;
pub mod soak;

pub use clients::*;
pub use faults::*;
pub use observe::*;
pub use servers::*;

pub use agent::Agent;
pub use apart::Apart;
pub use builder::Builder;
pub use certificates::Certificates;
pub use client::Client;
pub use cluster::{Cluster, Migration};
pub use history::{Grant, History};
pub use kind::Kind;
pub use macro_rules_attribute::apply;
pub use payload::Payload;
pub use picture::Picture;
pub use proxy::{Proxy, Way};
pub use quorum::Quorum;
pub use sentinel::Sentinel;
pub use server::Server;
pub use system_calls::Fault;
pub use value::Value;
pub use wait::eventually;

/// Makes five tests of one function of a [`Kind`]: servers differ in what it shows, or have differed. Use it
/// as `#[apply(on_every_server)]`.
#[macro_export]
macro_rules! on_every_server {
    ($(#[$attribute:meta])* fn $name:ident $rest:tt $body:block) => {
        $crate::tests_on! {
            [redis_7_0 Redis70, redis_8_2 Redis82, redis_8_6 Redis86, valkey_8_1 Valkey81, valkey_9_1 Valkey91]
            [$(#[$attribute])*] fn $name $rest $body
        }
    };
}

/// Makes two tests of one function of a [`Kind`], with a Redis and a Valkey: a server has a part in what it
/// shows, and the same one in all of its family.
#[macro_export]
macro_rules! on_two_servers {
    ($(#[$attribute:meta])* fn $name:ident $rest:tt $body:block) => {
        $crate::tests_on! {
            [redis_8_2 Redis82, valkey_9_1 Valkey91] [$(#[$attribute])*] fn $name $rest $body
        }
    };
}

/// Makes a test of one function of a [`Kind`]: nothing in which servers differ decides what it shows. It is
/// named like the tests of [`on_every_server`].
#[macro_export]
macro_rules! on_one_server {
    ($(#[$attribute:meta])* fn $name:ident $rest:tt $body:block) => {
        $crate::tests_on! { [redis_8_2 Redis82] [$(#[$attribute])*] fn $name $rest $body }
    };
}

/// Makes a test with each of these servers.
#[macro_export]
macro_rules! tests_on {
    ([$($server:ident $kind:ident),*] $attributes:tt fn $name:ident($given:ident: Kind) $body:block) => {
        fn $name($given: Kind) $body

        mod $name {
            $($crate::tests_on! { $attributes $server $kind $name })*
        }
    };
    ([$(#[$attribute:meta])*] $server:ident $kind:ident $name:ident) => {
        $(#[$attribute])*
        #[test]
        fn $server() {
            super::$name($crate::Kind::$kind);
        }
    };
}

/// The arguments of a request. Each may be text or any bytes.
#[macro_export]
macro_rules! bytes {
    ($($argument:expr),* $(,)?) => {
        [$(AsRef::<[u8]>::as_ref($argument)),*]
    };
}
