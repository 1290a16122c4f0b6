//! Events of `run` and `acquire`, on stderr: stdout belongs to the command, or is for the lease.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use dlock_client::{Client, Error, Guard, Key, Loss, Notice};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::waiting::Hindrance;
use crate::global::Global;
use crate::say::duration::{millis, shown};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stderr::{Writer, prefixed};
use crate::say::{bytes, notice};

/// Reports events on stderr.
pub struct Events {
    writer: Writer,
    json: bool,
    verbose: bool,
    /// True if a wait is reported to the user: on a terminal, unless quiet.
    watched: bool,
}

impl Events {
    pub fn new(global: &Global, quiet: bool) -> Events {
        let (writer, watched) = (Writer::start(), !quiet && io::stderr().is_terminal());
        Events { writer, json: global.json, verbose: global.verbose, watched }
    }

    pub fn are_json(&self) -> bool {
        self.json
    }

    pub fn failed(&self, failure: &Failure) {
        if !failure.message.is_empty() {
            self.say(failure.event(), &failure.message);
        }
    }

    pub fn started(&self, pid: Pid) {
        self.tell(json!({"event": "started", "pid": pid.as_raw()}), || {
            format!("process {pid} runs")
        });
    }

    pub fn lost(&self, loss: &Loss, action: &str) {
        let (key, fence, why) = (&loss.key, loss.fence, loss.why.to_string());
        let (first, nodes) =
            why.split_once('\n').map_or((&*why, ""), |(first, rest)| (first, rest));
        self.say(
            bytes::event(
                "lost",
                key,
                json!({"fence": fence, "why": loss.why.name(), "message": why}),
            ),
            &format!("lost the lock on '{key}' (fence {fence}): {first}; {action}\n{nodes}"),
        );
    }

    /// Reports processes that did not end in time after the signal.
    pub fn killing(&self, grace: Duration) {
        self.say(
            json!({"event": "killing", "after_ms": millis(grace)}),
            &format!("processes of the command are left after {}; they get KILL", shown(grace)),
        );
    }

    pub fn ended(&self, status: ExitStatus) {
        let (code, signal) = (Exit::of(status).code(), status.signal());
        self.tell(json!({"event": "ended", "code": code, "signal": signal}), || {
            format!("the command ended: {status}")
        });
    }

    pub fn released(&self, key: &Key) {
        self.tell(bytes::event("released", key, json!({})), || format!("released '{key}'"));
    }

    /// Reports a lock that is done, so that the command does not run.
    pub fn done(&self, error: &Error) {
        let Error::Done { key, left, fence, by, .. } = error else { return };
        let message = error.to_string();
        // The first line names the holder; the others list the states of the nodes.
        let line = message.lines().next().unwrap_or_default();
        let outcome = by.as_ref().map(|by| bytes::text(&by.outcome));
        let since = by.as_ref().map(|by| millis(by.since));
        let others = json!({
            "left_ms": millis(*left),
            "fence": fence,
            "since_ms": since,
            "outcome": outcome,
            "message": line,
        });
        self.say(bytes::event("done", key, others), line);
    }

    /// Reports a lock that this process has left done.
    pub fn left_done(&self, key: &Key, left: Duration) {
        let others = json!({"left_ms": millis(left)});
        self.tell(bytes::event("left_done", key, others), || {
            format!("left '{key}' done for {}", shown(left))
        });
    }

    /// Reports a warning. The kind is for programs.
    pub fn warn(&self, kind: &str, message: String) {
        self.say(json!({"event": "warning", "kind": kind, "message": message}), &message);
    }

    /// Returns a listener that reports notices.
    pub fn noticing(&self) -> impl Fn(&Notice) + Send + Sync + 'static {
        let (writer, json) = (self.writer.clone(), self.json);
        move |notice| writer.write(notice::text(notice, json))
    }

    /// Waits until all is written, with a limit: the reader may be stopped.
    pub fn flush(&self) {
        self.writer.flush();
    }

    /// Reports this with --verbose or --json.
    fn tell(&self, event: Value, text: impl FnOnce() -> String) {
        if self.verbose || self.json {
            self.say(event, &text());
        }
    }

    fn say(&self, event: Value, text: &str) {
        let text = if self.json { bytes::line(&event) } else { prefixed(text) };
        self.writer.write(text);
    }

    /// Reports a wait after a while: a short one needs no line, and no request to the nodes. Never ends.
    pub async fn wait(&self, client: &Client, key: &Key) -> Infallible {
        let patience = match (self.verbose || self.json, self.watched) {
            (true, _) => SOON,
            (false, true) => LONG,
            (false, false) => return std::future::pending().await,
        };
        tokio::time::sleep(patience).await;
        let hindrance = Hindrance::of(client, key).await;
        self.say(hindrance.json(key), &hindrance.text(key));
        std::future::pending().await
    }

    pub fn taken(&self, guard: &Guard, after: Duration) {
        let (key, fence) = (guard.key(), guard.fence());
        let others = json!({"fence": fence, "waited_ms": millis(after)});
        self.tell(bytes::event("acquired", key, others), || {
            format!("holding '{key}' after {} (fence {fence})", shown(after))
        });
    }
}

/// A shorter wait is not reported, and causes no request to the nodes.
const SOON: Duration = Duration::from_millis(200);
/// The same for a user at a terminal.
const LONG: Duration = Duration::from_secs(1);
