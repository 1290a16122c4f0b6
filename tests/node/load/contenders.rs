//! Clients that contend for a few locks as careful programs do, while their server is killed and started
//! again. Each relies on a grant no longer than its own clock allows, and records what it saw in a
//! [`History`].

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlock_judges::{Heard, Mode};
use harness::client::request;
use harness::{Client, Grant, History, Value};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CLIENTS: usize = 20;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// A client that is refused or cut off tries again after this long.
const PAUSE: Duration = Duration::from_millis(5);

/// A proposed fence is up to this far ahead, in microseconds: farther than a node's own promise.
const AHEAD: i64 = 120_000_000;
/// A proposal farther ahead of the clock than ten minutes is refused. A client that has come this far
/// proposes nothing until the clock has caught up.
const FAR: i64 = 300_000_000;

/// The number of times that a holder extends its lease; one of these is drawn.
const EXTENSIONS: [u32; 8] = [0, 0, 0, 0, 0, 0, 1, 3];

/// The errors of a server that refuses for now. A grant is not durable while the disk is busy for longer than
/// a request waits for it.
const NO_GRANT: &[&str] = &["QUARANTINE", "NOTDURABLE", "LOADING"];
const NO_EXTENSION: &[&str] = &["QUARANTINE", "NOTDURABLE", "LOADING"];
const NO_RELEASE: &[&str] = &["LOADING"];

/// The clients' leases, and their fate.
pub struct Plan {
    /// The range of leases, in milliseconds.
    pub ttls: RangeInclusive<u64>,
    /// Leases go on when the server is killed.
    pub leases_survive: bool,
    /// The server evicts locks. A client that loses one relies on it to the end of its lease, as if the
    /// server had not said so.
    pub evicts: bool,
}

/// All clients.
pub struct Contenders<'h> {
    port: u16,
    plan: Plan,
    history: &'h History,
    stopped: AtomicBool,
}

impl<'h> Contenders<'h> {
    pub fn new(port: u16, plan: Plan, history: &'h History) -> Contenders<'h> {
        Contenders { port, plan, history, stopped: AtomicBool::new(false) }
    }

    /// Lets them begin, each in a thread of its own, until the returned value is dropped.
    pub fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, rng: &mut StdRng) -> Running<'s> {
        for number in 0..CLIENTS {
            let rng = StdRng::seed_from_u64(rng.random());
            scope.spawn(move || Contender::new(self, number, rng).contend());
        }
        Running(&self.stopped)
    }

    fn have_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Lets time pass until then, or until the end.
    fn rest_until(&self, then: Instant) {
        while !self.have_stopped() {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(PAUSE));
        }
    }
}

/// Clients that contend until it is dropped, also when a test fails. A client that waits for a lock ends with
/// the server.
pub struct Running<'s>(&'s AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Contender<'c> {
    all: &'c Contenders<'c>,
    number: usize,
    rng: StdRng,
    client: Option<Client>,
    /// The number of its connections so far. A client leaves none but for its own reasons: another new one
    /// means that the server was killed.
    connections: u32,
    /// The number of tokens that it has made up.
    tokens: u64,
    largest_fence: i64,
}

/// A lock that a client wants.
struct Wish {
    key: &'static str,
    token: String,
    ttl: Duration,
    is_shared: bool,
    is_ephemeral: bool,
    waits: bool,
    words: String,
}

impl Wish {
    fn mode(&self) -> Mode {
        if self.is_shared { Mode::Shared } else { Mode::Exclusive }
    }
}

/// A lock that a client has.
struct Held {
    wish: Wish,
    grant: Grant,
    fence: i64,
    connection: u32,
}

/// The end of a client's hold, after its work under the lock.
enum End {
    Release,
    RunOut,
    Disconnect,
}

impl<'c> Contender<'c> {
    fn new(all: &'c Contenders<'c>, number: usize, rng: StdRng) -> Contender<'c> {
        Contender { all, number, rng, client: None, connections: 0, tokens: 0, largest_fence: 0 }
    }

    fn contend(mut self) {
        while !self.all.have_stopped() {
            let wish = self.wish();
            if let Some(mut held) = self.acquire(wish) {
                self.hold(&mut held);
                self.all.history.add(held.grant);
            }
            self.rest(0..=10);
        }
    }

    fn wish(&mut self) -> Wish {
        self.tokens += 1;
        let token = format!("client-{}-{}", self.number, self.tokens);
        let key = KEYS[self.rng.random_range(0..KEYS.len())];
        let ttl = self.ttl();
        let is_shared = self.rng.random_ratio(1, 6);
        let is_ephemeral = self.rng.random_ratio(1, 6);
        let waits = self.rng.random_ratio(1, 2);

        let mut words = format!("DLOCK.ACQUIRE {key} {token} {}", ttl.as_millis());
        if is_shared {
            words += " SHARED";
        }
        if is_ephemeral {
            words += " EPHEMERAL";
        }
        if waits {
            words += if self.rng.random() { " WAIT 0" } else { " WAIT 300" };
        }
        let may_propose = (1..unix_micros() + FAR).contains(&self.largest_fence);
        if may_propose && self.rng.random_ratio(1, 20) {
            words += &format!(" FENCE {}", self.largest_fence + self.rng.random_range(1..AHEAD));
        }
        Wish { key, token, ttl, is_shared, is_ephemeral, waits, words }
    }

    /// Asks, and asks again with the same token when the server was killed before it replied. It does so only
    /// while the lease that may have been granted still runs.
    fn acquire(&mut self, wish: Wish) -> Option<Held> {
        let mut first = None;
        loop {
            let (sent, answer) = self.ask(&wish.words);
            let asked = *first.get_or_insert(sent);
            let heard = match answer {
                Some(Value::Int(fence)) => return Some(self.held(wish, fence, asked, sent)),
                Some(Value::Null) => Heard::Refused,
                Some(error) => {
                    assert_refused(NO_GRANT, &wish.words, &error);
                    Heard::Refused
                }
                None if asked.elapsed() >= wish.ttl || self.all.have_stopped() => Heard::Nothing,
                None => continue,
            };
            self.all.history.add_attempt(wish.key, &wish.token, wish.mode(), asked, heard);
            return None;
        }
    }

    fn held(&mut self, wish: Wish, fence: i64, asked: Instant, sent: Instant) -> Held {
        self.largest_fence = self.largest_fence.max(fence);
        let mut grant = Grant::new(wish.key, &wish.token, fence, asked, wish.ttl);
        grant.extended(sent, wish.ttl);
        let grant = grant.of(wish.mode()).by(&format!("client {}", self.number));
        Held { wish, grant, fence, connection: self.connections }
    }

    /// Works under a lock for a while, and ends that at random.
    fn hold(&mut self, held: &mut Held) {
        if held.wish.waits {
            // The lease began at some moment of the client's wait.
            self.extend(held, held.wish.ttl);
        }
        for _ in 0..EXTENSIONS[self.rng.random_range(0..EXTENSIONS.len())] {
            self.rest(0..=60);
            let ttl = self.ttl();
            if Instant::now() < held.grant.until() {
                self.extend(held, ttl);
            }
        }
        match self.end(held) {
            End::RunOut => self.all.rest_until(held.grant.until()),
            End::Disconnect => self.disconnect(held),
            End::Release => {
                self.rest(0..=5);
                self.release(held);
            }
        }
    }

    fn end(&mut self, held: &Held) -> End {
        match self.rng.random_range(0..16) {
            // The client has noticed that the server has crashed, and works on.
            _ if self.has_lost_its_connection(held) => End::RunOut,
            0 => End::RunOut,
            1..8 if held.wish.is_ephemeral => End::Disconnect,
            _ => End::Release,
        }
    }

    fn extend(&mut self, held: &mut Held, ttl: Duration) {
        let Held { wish, grant, fence, .. } = held;
        let (key, ttl_ms) = (grant.key(), ttl.as_millis());
        let words = format!("DLOCK.EXTEND {key} {} {ttl_ms} FENCE {fence}", wish.token);
        let (sent, answer) = self.ask(&words);
        match answer {
            Some(Value::Int(1)) => held.grant.extended(sent, ttl),
            Some(Value::Int(0)) => self.told_that_it_is_over(held),
            Some(error) => assert_refused(NO_EXTENSION, &words, &error),
            None => held.grant.perhaps_extended(sent, ttl),
        }
        self.notice_a_kill(held);
    }

    fn release(&mut self, held: &mut Held) {
        let words = format!("DLOCK.RELEASE {} {}", held.grant.key(), held.grant.token());
        let (sent, answer) = self.ask(&words);
        let heard = (answer == Some(Value::Int(1))).then(Instant::now);
        match answer {
            Some(Value::Int(0)) => self.told_that_it_is_over(held),
            Some(Value::Int(1)) | None => {}
            Some(error) => assert_refused(NO_RELEASE, &words, &error),
        }
        held.grant.released(sent, heard);
        self.notice_a_kill(held);
    }

    fn disconnect(&mut self, held: &mut Held) {
        held.grant.ended(Instant::now());
        if let Some(client) = self.client.take() {
            client.close();
        }
    }

    fn told_that_it_is_over(&mut self, held: &mut Held) {
        if self.all.plan.evicts {
            return;
        }
        let now = Instant::now();
        let ended_early = now < held.grant.until();
        let outlived_its_connection = !held.wish.is_ephemeral && self.all.plan.leases_survive;
        let must_hold = self.connections == held.connection || outlived_its_connection;
        assert!(!(ended_early && must_hold), "a lease ended before its time: {:?}", held.grant);
        held.grant.ended(now);
    }

    /// Notes that an ephemeral hold has ended with its connection.
    fn notice_a_kill(&mut self, held: &mut Held) {
        if held.wish.is_ephemeral && self.has_lost_its_connection(held) {
            held.grant.ended(Instant::now());
        }
    }

    fn has_lost_its_connection(&self, held: &Held) -> bool {
        self.client.is_none() || self.connections != held.connection
    }

    /// Sends a request, and returns its time. No answer: the server was killed.
    fn ask(&mut self, words: &str) -> (Instant, Option<Value>) {
        let mut client = match self.connected() {
            Some(client) => client,
            None => return (Instant::now(), None),
        };
        let args: Vec<&str> = words.split_whitespace().collect();
        let sent = Instant::now();
        let answer = client.try_send_raw(&request(&args)).and_then(|()| client.try_recv());
        if answer.is_ok() {
            self.client = Some(client);
        }
        (sent, answer.ok())
    }

    /// Its connection, or a new one as soon as there is a server. None at the end.
    fn connected(&mut self) -> Option<Client> {
        while self.client.is_none() && !self.all.have_stopped() {
            self.client = Client::connect(self.all.port).ok();
            match self.client {
                Some(_) => self.connections += 1,
                None => thread::sleep(PAUSE),
            }
        }
        self.client.take()
    }

    fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(self.all.plan.ttls.clone()))
    }

    fn rest(&mut self, millis: RangeInclusive<u64>) {
        let rest = Duration::from_millis(self.rng.random_range(millis));
        self.all.rest_until(Instant::now() + rest);
    }
}

#[track_caller]
fn assert_refused(codes: &[&str], words: &str, answer: &Value) {
    let known = answer.is_error() && codes.contains(&answer.code());
    assert!(known, "{words} was answered {answer:?}");
    thread::sleep(PAUSE);
}

fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    since.as_micros() as i64
}
