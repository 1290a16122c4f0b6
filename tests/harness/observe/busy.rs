//! A machine that is busy with others. No test fails for that: an upper bound on a time is kept in
//! mind of what the machine did to everybody in that time.
//!
//! - [`assert_in_time`]: a thread of this process sleeps for a millisecond, again and again, and notes
//!   how late it wakes up. What a test waits for is a chain of such steps: a client, a server, the
//!   network between them. None of them is likely to be later than the worst that was noted.
//! - [`Server::stopwatch`]: work that is more than a few steps gets a share of a
//!   processor only. The kernel counts for how long a thread could have run and had none.

use std::collections::VecDeque;
use std::fs;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::Server;

/// Asserts that something that has just ended took no longer than the limit, apart from what the
/// machine may have added.
#[track_caller]
pub fn assert_in_time(took: Duration, limit: Duration) {
    let added = STEPS * worst_since(Instant::now().checked_sub(took + MARGIN));
    assert!(
        took <= limit + added,
        "took {took:?} and not {limit:?}, with {added:?} for the machine"
    );
}

/// Begins to note how late threads wake up, if that has not begun.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let watch = thread::Builder::new().name("busy".to_owned());
        watch.spawn(note_forever).expect("a thread can be started");
    });
}

/// This many threads in a row may have to wait for a processor, each as long as the worst.
const STEPS: u32 = 20;
/// A thread that measured a time may have waited this long before it asks.
const MARGIN: Duration = Duration::from_millis(500);
const BEAT: Duration = Duration::from_millis(1);
/// A machine that does nothing else is late by less.
const USUAL: Duration = Duration::from_millis(1);
/// This many late wake-ups are remembered.
const MOST: usize = 100_000;

/// The moments at which a thread woke up, and how late it was each time.
static NOTED: Mutex<VecDeque<(Instant, Duration)>> = Mutex::new(VecDeque::new());

fn note_forever() {
    loop {
        let asleep = Instant::now();
        thread::sleep(BEAT);
        let late = asleep.elapsed().saturating_sub(BEAT);
        if late > USUAL {
            let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push_back((Instant::now(), late));
            if noted.len() > MOST {
                noted.pop_front();
            }
        }
    }
}

fn worst_since(since: Option<Instant>) -> Duration {
    // The thread may be late just now.
    thread::sleep(2 * BEAT);
    let noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    let recent = noted.iter().rev().take_while(|(when, _)| since.is_none_or(|since| *when > since));
    recent.map(|(_, late)| *late).max().unwrap_or(USUAL)
}

/// The time that a thread has run, and the time that it could have run and had no processor.
pub fn times(schedstat: &str) -> (Duration, Duration) {
    let text = fs::read_to_string(schedstat).expect("the kernel counts what threads wait for");
    let mut numbers = text.split(' ').map(|number| number.trim().parse().expect("a number"));
    let mut next = || Duration::from_nanos(numbers.next().expect("three numbers"));
    (next(), next())
}

/// A time in which a server has much to do.
pub struct Stopwatch<'s> {
    server: &'s Server,
    begun: Instant,
    waited: Duration,
}

impl Stopwatch<'_> {
    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Asserts that the server, had it had a processor all the time, would have needed no longer.
    #[track_caller]
    pub fn assert_in_time(&self, limit: Duration) {
        let took = self.begun.elapsed();
        let waited = self.server.waited_for_a_processor() - self.waited;
        assert_in_time(took.saturating_sub(waited), limit);
    }
}

impl Server {
    /// A watch that begins to run now.
    pub fn stopwatch(&self) -> Stopwatch<'_> {
        Stopwatch { server: self, begun: Instant::now(), waited: self.waited_for_a_processor() }
    }

    /// The time that its main thread could have run and had no processor, since its start.
    pub fn waited_for_a_processor(&self) -> Duration {
        self.at_work().1
    }

    /// The time that its main thread has run since its start, and could have run and had no
    /// processor.
    pub fn at_work(&self) -> (Duration, Duration) {
        let id = self.process_id();
        times(&format!("/proc/{id}/task/{id}/schedstat"))
    }
}
