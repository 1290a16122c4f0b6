//! dlock beside what is not ours: the client libraries of docs/examples, the stores of docs/fences.md, and
//! what shows how locks are. `make test-world` installs them and runs these tests; `make test` does not.
//!
//! - [`agent`]: the programs of docs/agent;
//! - [`client`]: the programs of docs/examples, each in a process of its own;
//! - [`examples`]: what their locks hold;
//! - [`fences_page`]: the statements of docs/fences.md;
//! - [`holders`]: a holder that stops, and the next one;
//! - [`pgbouncer`]: a lock of PostgreSQL's own is none there;
//! - [`postgres`] and [`sqlite`]: they refuse who is late;
//! - [`monitoring`]: docs/monitoring, as promtool and systemd judge it;
//! - [`prometheus`]: Prometheus scrapes `dlock exporter`;
//! - [`schedulers`]: docs/schedulers.md's line for cron, on two hosts, and its units, as systemd judges them;
//! - [`page`]: its page, as a person sees it in Chromium;
//! - [`top`]: `dlock top`, as a person sees it in a terminal.

mod agent;
mod client;
mod examples;
mod fences_page;
mod holders;
mod monitoring;
mod page;
mod pgbouncer;
mod postgres;
mod prometheus;
mod schedulers;
mod sqlite;
mod top;
