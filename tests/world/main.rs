//! dlock beside other software: the client libraries of docs/agent, the stores of docs/fences.md, and
//! monitoring. `make test-world` installs them and runs these tests; `make test` does not.
//!
//! - [`agent`]: the programs of docs/agent;
//! - [`fences_page`]: the statements of docs/fences.md;
//! - [`holders`]: a holder that stops, and the next one;
//! - [`postgres`] and [`sqlite`]: they refuse a late writer, over a [`session`];
//! - [`monitoring`]: docs/monitoring, as promtool and systemd judge it;
//! - [`prometheus`]: Prometheus scrapes `dlock exporter`;
//! - [`schedulers`]: docs/schedulers.md's line for cron, on two hosts, and its units, as systemd judges them;

mod agent;
mod fences_page;
mod holders;
mod monitoring;
mod postgres;
mod prometheus;
mod schedulers;
mod session;
mod sqlite;

use std::path::{Path, PathBuf};

/// A path in the folder for scripts/world.sh's installations.
fn installed(path: &str) -> PathBuf {
    top().join(".world").join(path)
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
