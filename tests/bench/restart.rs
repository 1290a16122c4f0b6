//! The cost of forgetting nothing: the state file during a cycle, and a restart with very many
//! leases.

use std::time::Instant;

use harness::{Kind, Server};

use crate::cycle::{Recipe, pipelined, usual_ttl};
use crate::load::Pipe;
use crate::measure::{Compared, Side, in_turns};
use crate::memory::hold;
use crate::options::Options;
use crate::report::{Report, Row, Target};

const LEASES: u64 = 1_000_000;

/// A cycle with and without a state file, and a server that starts again with leases, or with
/// strings that expire.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let what = "cycle, with a state file";
    report.attempt(what, |report| {
        let figures = state_file(kind, options);
        report.add(kind, Row::compared(what, "without", "µs", figures, Target::AtMost(1.03)));
    });
    let what = "restart with 1,000,000 leases";
    report.attempt(what, |report| {
        let figures = restarts(kind, options);
        report.add(kind, Row::compared(what, "SET PX", "ms", figures, Target::AtMost(1.5)));
    });
}

fn state_file(kind: Kind, options: &Options) -> Compared {
    let with = |line: &str| {
        let server = Server::build(kind).config(line).start();
        let pipelined = pipelined(&server, &Recipe::Module, usual_ttl);
        (server, pipelined)
    };
    let (kept, mut keeping) = with("dlock.state-file my.state");
    let (lost, mut losing) = with("dlock.state-file \"\"");
    let [figures] = in_turns(options.rounds(48), |side| match side {
        Side::Ours => [keeping.cpu(&kept, 80)],
        Side::Theirs => [losing.cpu(&lost, 80)],
    });
    figures
}

fn restarts(kind: Kind, options: &Options) -> Compared {
    let filled = |recipe: &Recipe| {
        let server = Server::start(kind);
        hold(&mut Pipe::new(&server), recipe, 0..LEASES, |_| "600000".to_owned());
        assert_eq!(server.run("SAVE").text(), "OK");
        server
    };
    let (mut ours, mut theirs) = (filled(&Recipe::Module), filled(&Recipe::DelIfEq));
    let [figures] = in_turns(options.rounds(6), |side| match side {
        Side::Ours => [restart(&mut ours)],
        Side::Theirs => [restart(&mut theirs)],
    });
    figures
}

/// The time from the start of the process until it has loaded everything and answers.
pub fn restart(server: &mut Server) -> f64 {
    server.kill();
    let begun = Instant::now();
    server.start_again();
    begun.elapsed().as_secs_f64() * 1e3
}
