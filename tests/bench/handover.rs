//! Many clients want the same lock: each waits for it, releases it at once, and waits again. The other side
//! is as many clients that pass a token round through a list.

use std::time::Duration;

use harness::{Kind, Server};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::crowd::{Crowd, Words};
use crate::measure::{Side, in_turns};
use crate::options::Options;
use crate::report::{Report, Row, Target};

const CROWDS: [usize; 3] = [8, 64, 512];
/// One side passes its thing round for this long before it is the other's turn.
const LAP: Duration = Duration::from_millis(250);

/// Hand-overs in a second.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    for size in CROWDS {
        let what = format!("hand-over, {size} clients");
        report.attempt(&what, |report| among(kind, size, &what, options, report));
    }
}

fn among(kind: Kind, size: usize, what: &str, options: &Options, report: &mut Report) {
    let server = Server::start(kind);
    let _apart = Apart::new(&server);
    let mut crowd = Crowd::new(&server, size);
    let (lock, list) = (Words::locks(size), Words::list(size));
    let rate = in_turns(options.rounds(10), |side| {
        // The list's token, which comes back to the list in the end.
        server.run(if side == Side::Theirs { "LPUSH bench:list token" } else { "PING" });
        let rate = crowd.pass_round(if side == Side::Ours { &lock } else { &list }, LAP);
        server.run("DEL bench:list");
        rate
    });
    let (least, against) = (Target::AtLeast(0.95), "BLPOP + LPUSH");
    report.add(Row::compared(what, against, "/s", rate, least));
}

/// The server and its clients, each on a processor of its own, if there are two. Otherwise the rate depends
/// most of all on where the kernel has placed them.
struct Apart {
    before: CpuSet,
}

impl Apart {
    fn new(server: &Server) -> Apart {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).expect("a thread knows its processors");
        let allowed = |cpu: &usize| before.is_set(*cpu).unwrap_or(false);
        let mut cpus = (0..CpuSet::count()).filter(allowed);
        if let (Some(first), Some(second)) = (cpus.next(), cpus.next()) {
            let process = server.info_number("server", "process_id");
            let server = Pid::from_raw(i32::try_from(process).expect("it is a process"));
            for (who, cpu) in [(server, first), (this, second)] {
                let mut one = CpuSet::new();
                one.set(cpu).expect("it was in a set");
                sched_setaffinity(who, &one).expect("one of the processors allowed");
            }
        }
        Apart { before }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let restored = sched_setaffinity(Pid::from_raw(0), &self.before);
        restored.expect("the processors are still there");
    }
}
