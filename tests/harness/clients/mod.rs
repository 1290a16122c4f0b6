//! Clients of servers. In reading order:
//! - [`client`]: a blocking connection that can leave requests open;
//! - [`many`]: many requests and many connections at once;
//! - [`value`]: the values that a server answers with, in RESP2 and RESP3;
//! - [`library`]: programs that take locks with the library, in the process of the test;
//! - [`contender`]: programs that contend for locks while their networks fail;
//! - [`program`]: the program `dlock`, run as a user would; [`running`]: one that goes on meanwhile;
//! - [`agent`]: `dlock agent` at a unix socket;
//! - [`exporter`]: the responses of `dlock exporter`.

pub mod agent;
pub mod client;
pub mod contender;
pub mod exporter;
pub mod library;
pub mod many;
pub mod program;
pub mod running;
pub mod value;
