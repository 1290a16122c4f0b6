//! Progress: one line on stderr, written again and again, if that is a terminal.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::say::{stderr, table};

/// Where it is shown, if anywhere.
pub struct Progress {
    is_shown: bool,
    verbose: bool,
    as_json: bool,
}

/// The present stage.
pub struct Stage {
    pub what: String,
    /// Unit of the count.
    pub unit: &'static str,
    /// Length of the stage, where it is known.
    pub time: Option<Duration>,
    /// The count so far.
    pub done: Arc<AtomicU64>,
}

impl Stage {
    pub fn new(what: impl Into<String>, unit: &'static str, time: Option<Duration>) -> Stage {
        Stage { what: what.into(), unit, time, done: Arc::default() }
    }

    fn line(&self, gone: Duration) -> String {
        let (what, unit, done) = (&self.what, self.unit, self.done.load(Ordering::Relaxed));
        match self.time {
            Some(time) => {
                let (gone, time) = (gone.min(time).as_secs_f64(), time.as_secs_f64());
                format!("{what}: {gone:.1} of {time:.1} s, {done} {unit}")
            }
            None => format!("{what}: {done} {unit}"),
        }
    }
}

impl Progress {
    pub fn new(verbose: bool, as_json: bool) -> Progress {
        Progress { is_shown: io::stderr().is_terminal(), verbose, as_json }
    }

    /// A part begins.
    pub fn begin(&self, part: &str) {
        match (self.verbose, self.as_json) {
            (true, true) => stderr::event(&json!({"event": "measuring", "part": part})),
            (true, false) => stderr::complain(format_args!("measures: {part}")),
            (false, _) => {}
        }
    }

    /// Shows how far it is until the work is done.
    pub async fn beside<T>(&self, stage: &Stage, work: impl Future<Output = T>) -> T {
        if !self.is_shown {
            return work.await;
        }
        let width = table::width(io::stderr()).unwrap_or(USUAL_WIDTH);
        let _gone_in_the_end = Line;
        let begun = Instant::now();
        let mut work = pin!(work);
        let mut tick = tokio::time::interval(REDRAW);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = tick.tick() => write(&cut(&stage.line(begun.elapsed()), width)),
            }
        }
    }
}

/// The line, also of a work that is given up in the middle.
struct Line;

impl Drop for Line {
    fn drop(&mut self) {
        write("");
    }
}

/// In place of what is there. Nothing can be done if it fails, and nothing needs to be.
fn write(line: &str) {
    let _ = io::stderr().write_all(format!("\r{line}{CLEAR_REST}").as_bytes());
}

/// With room for `^C`: what goes on in the next line cannot be cleared.
fn cut(line: &str, width: usize) -> String {
    line.chars().take(width.saturating_sub(3)).collect()
}

const CLEAR_REST: &str = "\x1b[K";
const USUAL_WIDTH: usize = 80;
const REDRAW: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_what_is_done() {
        let stage = Stage::new("contended", "grants", Some(Duration::from_secs(5)));
        stage.done.store(7, Ordering::Relaxed);
        assert_eq!(stage.line(Duration::from_millis(1_260)), "contended: 1.3 of 5.0 s, 7 grants");
        assert_eq!(stage.line(Duration::from_secs(9)), "contended: 5.0 of 5.0 s, 7 grants");
        let stage = Stage::new("contended", "clients connected", None);
        assert_eq!(stage.line(Duration::ZERO), "contended: 0 clients connected");
    }

    #[test]
    fn a_narrow_terminal_gets_a_part_of_it() {
        assert_eq!(cut("contended: 1", 10), "contend");
        assert_eq!(cut("contended", 0), "");
    }
}
