//! The harness of the end-to-end tests: real servers, raw clients, and waiting without sleeping.
//!
//! In reading order:
//! - [`kind`]: the four servers that every test runs against;
//! - [`builder`]: what one of them is to be like;
//! - [`server`]: its process, from its start in a temporary folder to its end;
//! - [`cluster`]: three of them that share the slots;
//! - [`module_file`]: the module it loads, never an old one;
//! - [`program`]: the program `dlock`, run as a user would;
//! - [`exporter`]: what `dlock exporter` answers; [`browser`]: its page, as a person sees it;
//! - [`tmux`]: a terminal whose screen the test sees;
//! - [`ports`] and [`process`]: free ports, and children that end with the test;
//! - [`wall_clock`]: a server's wall clock, moved by the test;
//! - [`scratch`]: where its files are;
//! - [`disk`]: a disk of its own for a server, small or read-only;
//! - [`system_calls`]: a server's system calls, watched or made to fail;
//! - [`append_only`]: its append-only log;
//! - [`client`]: a blocking connection that can leave requests open;
//! - [`many`]: many requests and many connections at once;
//! - [`value`]: what a server answers, in RESP2 and RESP3;
//! - [`locks`]: what tests ask a server about its locks;
//! - [`state_file`]: where a node keeps its state, and what it says about it;
//! - [`memory`]: what a server uses of it, and whether it gives it back;
//! - [`papers`]: certificates for nodes behind TLS;
//! - [`payload`]: what DUMP gives for a lock, taken apart and put together again;
//! - [`picture`]: what is stored of a lock;
//! - [`replicas`]: whether a replica has what its primary wrote;
//! - [`history`]: what clients saw of their grants, and whether it can all be true;
//! - [`sentinel`]: Sentinels that promote replicas; [`watched`]: what they watch;
//! - [`eviction`]: servers that run out of memory;
//! - [`quarantine`]: why a node grants nothing, and for how long;
//! - [`proxy`]: a network that the test makes slow, deaf or gone;
//! - [`apart`]: a server that can be parted from everybody;
//! - [`fake`]: something that answers as no server should;
//! - [`quorum`]: several nodes that know nothing of each other, each behind such a network;
//! - [`library`]: programs that take locks with the library, in the process of the test;
//! - [`seed`]: random numbers that can be had again;
//! - [`soak`]: how long a test goes on;
//! - [`wait`]: waiting for something observable;
//! - [`busy`]: what a busy machine adds to a time.
//!
//! A test is a function of the server's kind; [`on_every_server!`] makes four tests of it, named
//! after the servers, so that `cargo test redis_7_0` picks all those of one:
//!
//! ```ignore
//! #[apply(on_every_server)]
//! fn a_free_lock_is_granted(kind: Kind) {
//!     let server = Server::start(kind);
//!     let mut client = server.client();
//!     assert!(client.run("DLOCK.ACQUIRE job alice 1000").int() > 0);
//! }
//! ```

pub mod apart;
pub mod append_only;
pub mod browser;
pub mod builder;
pub mod busy;
pub mod client;
pub mod cluster;
pub mod disk;
pub mod eviction;
pub mod exporter;
pub mod fake;
pub mod history;
pub mod kind;
pub mod library;
pub mod locks;
pub mod many;
pub mod memory;
pub mod module_file;
pub mod papers;
pub mod payload;
pub mod picture;
pub mod ports;
pub mod process;
pub mod program;
pub mod proxy;
pub mod quarantine;
pub mod quorum;
pub mod replicas;
pub mod scratch;
pub mod seed;
pub mod sentinel;
pub mod server;
pub mod soak;
pub mod state_file;
pub mod system_calls;
pub mod tmux;
pub mod value;
pub mod wait;
pub mod wall_clock;
pub mod watched;

pub use apart::Apart;
pub use builder::Builder;
pub use client::Client;
pub use cluster::Cluster;
pub use history::{Grant, History, Promise};
pub use kind::Kind;
pub use macro_rules_attribute::apply;
pub use papers::Papers;
pub use payload::Payload;
pub use picture::Picture;
pub use proxy::{Proxy, Way};
pub use quorum::Quorum;
pub use sentinel::Sentinel;
pub use server::Server;
pub use system_calls::Fault;
pub use value::Value;
pub use wait::eventually;

/// Makes four tests of one function of a [`Kind`]. Use it as `#[apply(on_every_server)]`.
#[macro_export]
macro_rules! on_every_server {
    ($(#[$attribute:meta])* fn $name:ident($kind:ident: Kind) $body:block) => {
        fn $name($kind: Kind) $body

        mod $name {
            $(#[$attribute])*
            #[test]
            fn redis_7_0() {
                super::$name($crate::Kind::Redis70);
            }
            $(#[$attribute])*
            #[test]
            fn redis_8_2() {
                super::$name($crate::Kind::Redis82);
            }
            $(#[$attribute])*
            #[test]
            fn valkey_8_1() {
                super::$name($crate::Kind::Valkey81);
            }
            $(#[$attribute])*
            #[test]
            fn valkey_9_1() {
                super::$name($crate::Kind::Valkey91);
            }
        }
    };
}

/// The arguments of a request, of which each may be text or any bytes.
#[macro_export]
macro_rules! bytes {
    ($($argument:expr),* $(,)?) => {
        [$(AsRef::<[u8]>::as_ref($argument)),*]
    };
}
