//! Real servers, started and ended by the test. In reading order:
//! - [`kind`]: the five servers that the module is tested with;
//! - [`builder`]: the kind, the configuration and the start of one of them;
//! - [`server`]: its process, from its start in a temporary folder to its end;
//! - [`replicas`]: the wait until a replica has what its primary wrote;
//! - [`cluster`]: three of them that share the slots;
//! - [`sentinel`]: Sentinels that promote replicas; [`watched`]: a primary that they watch;
//! - [`quorum`]: several independent nodes, each behind a network of the test's;
//! - [`module_file`]: the module a server loads, never an old one;
//! - [`ports`] and [`process`]: free ports, and children that end with the test;
//! - [`scratch`]: the folder of a server's files; [`append_only`]: its append-only log;
//! - [`certificates`]: certificates for nodes behind TLS.

pub mod append_only;
pub mod builder;
pub mod certificates;
pub mod cluster;
pub mod kind;
pub mod module_file;
pub mod ports;
pub mod process;
pub mod quorum;
pub mod replicas;
pub mod scratch;
pub mod sentinel;
pub mod server;
pub mod watched;
