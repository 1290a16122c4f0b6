//! dlock beside other software: the client libraries of docs/examples, the stores of docs/fences.md, and
//! monitoring. `make test-world` installs them and runs these tests; `make test` does not.
//!
//! - [`agent`]: the programs of docs/agent;
//! - [`client`]: the programs of docs/examples, each in a process of its own;
//! - [`examples`]: the promises of their locks;
//! - [`fences_page`]: the statements of docs/fences.md;
//! - [`holders`]: a holder that stops, and the next one;
//! - [`postgres`] and [`sqlite`]: they refuse a late writer, over a [`session`];
//! - [`monitoring`]: docs/monitoring, as promtool and systemd judge it;
//! - [`prometheus`]: Prometheus scrapes `dlock exporter`;
//! - [`schedulers`]: docs/schedulers.md's line for cron, on two hosts, and its units, as systemd judges them;

mod agent;
mod client;
mod examples;
mod fences_page;
mod holders;
mod monitoring;
mod postgres;
mod prometheus;
mod schedulers;
mod session;
mod sqlite;
