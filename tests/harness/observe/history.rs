//! The grants that clients saw.
//!
//! All times are the clients' own, so each client's view is conservative. A client surely holds from the
//! arrival of its grant on. It may believe so until it sends RELEASE, or until its lease is over. The lease
//! runs from the sending of its ACQUIRE, or of the last EXTEND that was answered.
//!
//! Judges by other authors decide whether all of it can be true: docs/contributing/histories.md has the format.
//! A history that cannot be true is kept among temporary files; the folder DLOCK_HISTORIES gets all of them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use dlock_judges::{Asked, Heard, Line, Mode};
use nix::time::{ClockId, clock_gettime};
use rand::random;

/// Grants of many clients. Each adds its own.
pub struct History {
    /// Its beginning.
    begun: Instant,
    /// That moment on the machine's monotonic clock, in microseconds.
    clock: u64,
    grants: Mutex<Vec<Grant>>,
    /// The requests without a grant, and requests for data.
    others: Mutex<Vec<Line>>,
}

/// One grant as its client saw it.
#[derive(Clone, Debug)]
pub struct Grant {
    key: String,
    process: String,
    token: String,
    mode: Mode,
    fence: Option<i64>,
    asked: Instant,
    granted: Instant,
    /// The end of the client's belief that it holds.
    until: Instant,
    /// The request to give it back, and its answer.
    released: Option<(Instant, Option<Instant>)>,
}

impl Grant {
    /// A grant of an exclusive lock that arrives now.
    pub fn new(key: &str, token: &str, fence: i64, asked: Instant, ttl: Duration) -> Grant {
        Grant {
            key: key.to_owned(),
            process: token.to_owned(),
            token: token.to_owned(),
            mode: Mode::Exclusive,
            fence: Some(fence),
            asked,
            granted: Instant::now(),
            until: asked + ttl,
            released: None,
        }
    }

    /// A grant that arrives now, of a lock without fences.
    pub fn without_fence(key: &str, token: &str, asked: Instant) -> Grant {
        Grant { fence: None, ..Grant::new(key, token, 0, asked, Duration::ZERO) }
    }

    /// Sets the mode of the hold.
    pub fn of(mut self, mode: Mode) -> Grant {
        self.mode = mode;
        self
    }

    /// Names the program; without this each grant has one of its own.
    pub fn by(mut self, process: &str) -> Grant {
        process.clone_into(&mut self.process);
        self
    }

    /// The name of the lock.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The client's name for it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The end of the client's belief that it holds.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// An EXTEND, or the same ACQUIRE again, was sent then and succeeded.
    pub fn extended(&mut self, sent: Instant, ttl: Duration) {
        self.until = sent + ttl;
    }

    /// An EXTEND was sent then, with an unknown result: it may have shortened the lease.
    pub fn perhaps_extended(&mut self, sent: Instant, ttl: Duration) {
        self.ended(sent + ttl);
    }

    /// The client has given it up, or has learned that it is over.
    pub fn ended(&mut self, at: Instant) {
        self.until = self.until.min(at);
    }

    /// The lock was released then. `heard`: the time of the answer, if it confirmed the release.
    pub fn released(&mut self, sent: Instant, heard: Option<Instant>) {
        self.ended(sent);
        self.released = Some((sent, heard));
    }
}

impl Default for History {
    fn default() -> History {
        let clock = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        let clock = clock.expect("there is such a clock").as_micros() as u64;
        let (grants, others) = (Mutex::default(), Mutex::default());
        History { begun: Instant::now(), clock, grants, others }
    }
}

impl History {
    /// Adds a grant that is complete.
    pub fn add(&self, grant: Grant) {
        self.lock().push(grant);
    }

    /// Adds an attempt that ended now without a grant. `heard`: nothing, if there may have been one.
    pub fn add_attempt(&self, key: &str, process: &str, mode: Mode, asked: Instant, heard: Heard) {
        let asks = Asked::Acquire { mode, fence: None, until: None };
        self.add_line(self.line(
            (key, process, process),
            (asked, Some(Instant::now())),
            heard,
            asks,
        ));
    }

    /// Adds a change of data: the value read, and the value written in its place.
    pub fn add_change(
        &self,
        (key, token): (&str, &str),
        (asked, returned): (Instant, Option<Instant>),
        heard: Heard,
        (read, wrote): (&str, &str),
    ) {
        let asks = Asked::Change { read: read.to_owned(), wrote: wrote.to_owned() };
        self.add_line(self.line((key, token, token), (asked, returned), heard, asks));
    }

    /// A copy of everything added so far.
    pub fn so_far(&self) -> History {
        let others = self.others.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let (grants, others) = (Mutex::new(self.lock().clone()), Mutex::new(others));
        History { grants, others, ..*self }
    }

    fn add_line(&self, line: Line) {
        self.others.lock().unwrap_or_else(|e| e.into_inner()).push(line);
    }

    /// All of it, in the order of the requests.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = self.others.lock().unwrap_or_else(|e| e.into_inner()).clone();
        for grant in self.lock().iter() {
            let Grant { key, process, token, mode, asked, granted, until, .. } = grant;
            let names = (&key[..], &process[..], &token[..]);
            let fence = grant.fence.map(|fence| fence as u64);
            let until = Some(self.micros(*until));
            let asks = Asked::Acquire { mode: *mode, fence, until };
            lines.push(self.line(names, (*asked, Some(*granted)), Heard::Done, asks));
            if let Some((sent, heard)) = grant.released {
                let answer = if heard.is_some() { Heard::Done } else { Heard::Nothing };
                lines.push(self.line(names, (sent, heard), answer, Asked::Release));
            }
        }
        lines.sort_by_key(|line| line.invoke);
        lines
    }

    /// Asserts that all of it can be true, by checkers of other authors. Keeps it otherwise.
    #[track_caller]
    pub fn assert_kept(&self, about: &str) {
        let wrong: Vec<String> = self.accusations(about).iter().map(ToString::to_string).collect();
        let is_wanted = env::var_os("DLOCK_HISTORIES").is_some();
        let file = (is_wanted || !wrong.is_empty()).then(|| self.keep(about));
        if let Some(file) = file.filter(|_| !wrong.is_empty()) {
            panic!("{about}: {wrong:#?}\nall of it: {}", file.display());
        }
    }

    /// The accusations of checkers by other authors.
    pub fn accusations(&self, about: &str) -> Vec<dlock_judges::Accusation> {
        dlock_judges::judge(
            &dlock_judges::read(&self.text(about)[..]).expect("it was just written"),
        )
    }

    /// Writes all of it to a file.
    fn keep(&self, about: &str) -> PathBuf {
        let folder = env::var_os("DLOCK_HISTORIES").map_or_else(env::temp_dir, PathBuf::from);
        let name: String =
            about.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let file = folder.join(format!("{name}-{:08x}.jsonl", random::<u32>()));
        fs::create_dir_all(&folder).expect("the folder of histories can be made");
        fs::write(&file, self.text(about)).expect("a history can be written");
        file
    }

    fn text(&self, about: &str) -> Vec<u8> {
        let mut text = Vec::new();
        dlock_judges::write(&mut text, about, &self.lines()).expect("there is room");
        text
    }

    fn line(
        &self,
        (key, process, who): (&str, &str, &str),
        (invoke, returned): (Instant, Option<Instant>),
        heard: Heard,
        asked: Asked,
    ) -> Line {
        Line {
            process: process.to_owned(),
            key: key.to_owned(),
            who: who.to_owned(),
            invoke: self.micros(invoke),
            returned: returned.map(|at| self.micros(at)),
            heard,
            asked,
        }
    }

    /// The time on the machine's monotonic clock.
    fn micros(&self, at: Instant) -> u64 {
        self.clock + at.saturating_duration_since(self.begun).as_micros() as u64
    }

    /// The number of grants.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if there were no grants.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Grant>> {
        self.grants.lock().unwrap_or_else(|e| e.into_inner())
    }
}
