//! The cost for a node with much on it that somebody looks: `dlock top`, or `dlock exporter` and
//! its viewers.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::exporter::Exporter;
use harness::{Client, Kind, Server, Value, process, program};

use crate::measure::{cpu_seconds, median};
use crate::options::Options;
use crate::report::{Report, Row, Target};

const LOCKS: usize = 100_000;
const WAITERS: usize = 10_000;
/// Keys that somebody waits for.
const HOT: usize = 200;
const EVERY: Duration = Duration::from_secs(1);

/// The share of a processor that the node spends on one look a second, and its longest command.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let looks = if options.quick { 12 } else { 30 };
    report.attempt("one look a second", |report| {
        let (server, _waiting) = busy(kind);
        let node = [format!("127.0.0.1:{}", server.port())];
        // Once before, when there may still be some work left from the beginning, and once after.
        let before = Cost::of_nothing(&server, looks);
        let exporter = Exporter::start(&node, &[]);
        exporter.metrics();
        let exported = Cost::of(&server, looks, || drop(exporter.metrics()));
        drop(exporter);
        let mut top = top(&node[0]);
        let shown = Cost::of(&server, looks, || {});
        // The program's terminal is gone with this.
        let _ = top.kill();
        let _ = top.wait();
        let nobody = before.min(Cost::of_nothing(&server, looks));
        for (who, cost) in [("dlock exporter", exported), ("dlock top", shown)] {
            let what = format!("{who}: a look each second, of a core");
            let share = (cost.share - nobody).max(0.0);
            report.add(kind, Row::alone(what, "%", share, Target::AtMost(1.0)));
            let what = format!("{who}: longest command of a look");
            report.add(kind, Row::alone(what, "ms", cost.longest, Target::AtMost(1.0)));
        }
    });
}

/// `dlock top`, in a terminal that nobody sees.
fn top(node: &str) -> Child {
    let mut script = program::with_usual_signals("script");
    let words = "stty rows 50 cols 120; exec $DLOCK top";
    script.args(["--quiet", "--command", words]).arg("/dev/null");
    script.envs([("DLOCK_NODES", node), ("SHELL", "/bin/sh")]);
    script.env("DLOCK", program::path()).stdin(Stdio::piped()).stdout(Stdio::null());
    process::spawn(script).expect("it can be started")
}

/// A node with many locks and waiters.
fn busy(kind: Kind) -> (Server, Vec<Client>) {
    let server = Server::build(kind)
        .config("maxclients 20000")
        .config("slowlog-log-slower-than 0")
        .config("slowlog-max-len 100000")
        .start();
    let lock = |n| format!("DLOCK.ACQUIRE lock:{n} holder 600000 META host=web1");
    server.client().pipeline((0..LOCKS).map(lock));
    let waits = |n| format!("DLOCK.ACQUIRE lock:{} waiter{n} 600000 WAIT 0", n % HOT);
    let waiting = server.crowd(WAITERS, waits);
    (server, waiting)
}

/// The node's CPU time for looks.
struct Cost {
    /// The share of a processor, in percent.
    share: f64,
    /// The longest command of a look, in milliseconds.
    longest: f64,
}

impl Cost {
    /// While somebody looks each second. Each look has a longest command, and the middle one of these
    /// counts: now and then another program has the machine in the midst of a command.
    fn of(server: &Server, looks: u32, mut look: impl FnMut()) -> Cost {
        // Lines from before are no look.
        thread::sleep(EVERY);
        let (begun, before) = (Instant::now(), cpu_seconds(server));
        let mut longest = Vec::new();
        for number in 1..=looks {
            server.run("SLOWLOG RESET");
            look();
            thread::sleep((begun + number * EVERY).saturating_duration_since(Instant::now()));
            longest.push(longest_look(server));
        }
        let share = (cpu_seconds(server) - before) / begun.elapsed().as_secs_f64() * 100.0;
        Cost { share, longest: median(longest) }
    }

    /// While nobody looks.
    fn of_nothing(server: &Server, looks: u32) -> f64 {
        Cost::of(server, looks, || {}).share
    }
}

/// The longest command of a look since the log was emptied, in milliseconds.
fn longest_look(server: &Server) -> f64 {
    let log = server.run("SLOWLOG GET 100000");
    let looks = log.items().iter().filter(|entry| is_a_look(entry));
    looks.map(|look| look.items()[2].int()).max().unwrap_or(0) as f64 / 1000.0
}

fn is_a_look(entry: &Value) -> bool {
    let name = entry.items()[3].items()[0].text().to_lowercase();
    ["info", "dlock.hot", "dlock.inspect"].contains(&name.as_str())
}
