//! `make bench-node`: the module against what one would do without it, on the same server in the
//! same run, as ratios beside what they must reach.
//!
//! In reading order:
//! - [`options`]: what the command line asks for;
//! - [`load`]: requests made beforehand, and a connection that sends them;
//! - [`measure`]: CPU time as the server accounts for it, and two sides in turns;
//! - [`cycle`]: a lock is taken and given back;
//! - [`report`]: the table.

#![expect(dead_code)] // The rows to come.

mod cycle;
mod load;
mod measure;
mod options;
mod report;

use harness::{Kind, Server};

use options::Options;
use report::Report;

fn main() {
    let options = Options::read();
    let mut report = Report::new(options.json);
    for kind in &options.kinds {
        report.server(*kind, &version(*kind));
        for group in &options.groups {
            let run = match *group {
                "cycle" => cycle::run,
                _ => continue,
            };
            run(*kind, &options, &mut report);
        }
    }
    report.end();
}

fn version(kind: Kind) -> String {
    let server = Server::build(kind).without_module().start();
    let info = server.info("server");
    let field = if kind.is_valkey() { "valkey_version" } else { "redis_version" };
    info.get(field).cloned().unwrap_or_default()
}
