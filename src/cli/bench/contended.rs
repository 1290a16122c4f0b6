//! The part `contended`: many clients, one lock that goes round among them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_client::{Client, Error};
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::course::{Course, stopped};
use super::cycle::Subject;
use super::figures::{Times, jain, ratio};
use super::pause;
use super::quorum::{PATIENCE, PAUSE};
use super::tally::{Counts, Tally};
use crate::args::Global;
use crate::exit::Failure;
use crate::nodes;

/// What came of it.
#[derive(Clone)]
pub struct Contended {
    pub nodes: usize,
    pub hold: Duration,
    pub took: Duration,
    pub waits: Times,
    pub held: Duration,
    /// By client.
    pub grants: Vec<u64>,
    pub unserved: u64,
    pub failures: u64,
    pub last_failure: Option<String>,
}

impl Contended {
    pub fn clients(&self) -> usize {
        self.grants.len()
    }

    pub fn total(&self) -> u64 {
        self.grants.iter().sum()
    }

    pub fn per_second(&self) -> f64 {
        self.total() as f64 / self.took.as_secs_f64()
    }

    /// The part of the time for which somebody held the lock.
    pub fn held_share(&self) -> f64 {
        self.held.as_secs_f64() / self.took.as_secs_f64()
    }

    /// What a wait would be if handing over cost nothing.
    pub fn ideal(&self) -> Duration {
        self.hold * u32::try_from(self.clients()).unwrap_or(u32::MAX)
    }

    pub fn p99_to_ideal(&self) -> Option<f64> {
        ratio(self.waits.p99(), self.ideal())
    }

    pub fn jain(&self) -> f64 {
        jain(&self.grants)
    }
}

/// How the part ended.
pub enum End {
    Measured(Contended),
    Stopped,
    /// Nothing was granted any more; this is what was said last.
    Unavailable(String),
}

/// The clients, connected.
pub struct Crowd(Vec<Client>);

impl Crowd {
    /// Not all at once: nodes have a queue for those that connect. None: it was stopped.
    pub async fn connect(
        number: u16,
        global: &Global,
        course: &Course,
    ) -> Result<Option<Crowd>, Failure> {
        let mut coming =
            stream::iter((0..number).map(|_| nodes::connect(global))).buffer_unordered(AT_ONCE);
        let mut clients = Vec::new();
        loop {
            let next = tokio::select! {
                next = coming.next() => next,
                () = course.stopped() => return Ok(None),
            };
            let Some(client) = next else { return Ok(Some(Crowd(clients))) };
            clients.push(client?);
            course.count();
        }
    }

    /// Lets each of them take the lock once, and not hold it: then all are connected where they
    /// will wait.
    pub async fn warm_up(&self, subject: &Subject, course: &Course) {
        let mut tasks = JoinSet::new();
        for client in &self.0 {
            let lock = client.lock(&subject.key).ttl(subject.ttl);
            let course = course.clone();
            tasks.spawn(async move {
                let over = tokio::time::sleep_until(course.end().into());
                tokio::select! {
                    () = course.stopped() => {}
                    () = over => {}
                    // If it fails now, it will be seen later, too.
                    guard = lock.acquire() => if let Ok(guard) = guard {
                        let _ = guard.release().await;
                    },
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Lets them all want the lock until the time is over.
    pub async fn measure(self, subject: &Subject, hold: Duration, course: Course) -> End {
        let begin = Instant::now();
        let clients = self.0;
        let (first, nodes) = (clients[0].clone(), clients[0].size());
        let tally = Arc::new(Tally::new(clients.len(), begin));
        let (give_up, given_up) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (place, client) in clients.into_iter().enumerate() {
            let (subject, course) = (subject.clone(), course.clone());
            let (tally, given_up) = (Arc::clone(&tally), given_up.clone());
            let one = One { place, client, subject, hold, course, tally, given_up };
            tasks.spawn(one.go_round());
        }
        let last_call = course.end() + DRAIN;
        let mut look = tokio::time::interval(LOOK);
        let mut hopeless = false;
        loop {
            tokio::select! {
                one = tasks.join_next() => if one.is_none() { break },
                () = course.stopped(), if !*give_up.borrow() => drop(give_up.send_replace(true)),
                _ = look.tick() => {
                    hopeless |= tally.counts().is_hopeless(PATIENCE + hold, Instant::now());
                    if hopeless || Instant::now() >= last_call {
                        give_up.send_replace(true);
                    }
                }
            }
        }
        let counts = tally.counts().clone();
        if course.is_stopped() {
            return End::Stopped;
        }
        if !hopeless && counts.is_doubtful() {
            hopeless = !is_there(&first, subject).await;
        }
        if hopeless || counts.waits.is_empty() {
            let nobody = "nobody got the lock in this time".to_owned();
            return End::Unavailable(counts.last_failure.unwrap_or(nobody));
        }
        // Where some were served later, it took longer.
        let end = counts.last_end.max(course.end());
        End::Measured(counts.contended(nodes, hold, end - begin))
    }
}

impl Counts {
    fn contended(self, nodes: usize, hold: Duration, took: Duration) -> Contended {
        let Counts { waits, held, grants, unserved, failures, last_failure, .. } = self;
        Contended { nodes, hold, took, waits, held, grants, unserved, failures, last_failure }
    }
}

/// Whether a majority can still be had, be the lock free or not.
async fn is_there(client: &Client, subject: &Subject) -> bool {
    let is_there = match client.lock(&subject.key).ttl(subject.ttl).try_acquire().await {
        Ok(guard) => guard.release().await.is_ok(),
        Err(error) => matches!(error, Error::Held { .. }),
    };
    client.close().await;
    is_there
}

/// One of the clients.
struct One {
    place: usize,
    client: Client,
    subject: Subject,
    hold: Duration,
    course: Course,
    tally: Arc<Tally>,
    given_up: watch::Receiver<bool>,
}

impl One {
    async fn go_round(self) {
        while !self.course.is_over() {
            let asked = Instant::now();
            let lock = self.client.lock(&self.subject.key).ttl(self.subject.ttl);
            let outcome = tokio::select! {
                biased;
                () = stopped(self.given_up.clone()) => {
                    self.tally.unserved();
                    break;
                }
                outcome = lock.acquire() => outcome,
            };
            let held = match outcome {
                Ok(guard) => {
                    let won = Instant::now();
                    self.tally.granted(self.place, won - asked, won);
                    self.course.count();
                    tokio::select! {
                        biased;
                        () = stopped(self.given_up.clone()) => {}
                        () = pause::until(won + self.hold) => {}
                        // Its release says why.
                        _ = guard.lost() => {}
                    }
                    let now = Instant::now();
                    self.tally.held(now - won, now);
                    guard.release().await.map_err(Error::from)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = held {
                self.tally.failed(self.place, error.to_string());
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = stopped(self.given_up.clone()) => {}
                }
            }
        }
        // Until what it gave back is given back.
        self.client.close().await;
    }
}

/// So many clients connect at the same time.
const AT_ONCE: usize = 16;
/// How often it is looked whether there is any hope.
const LOOK: Duration = Duration::from_millis(100);
/// For so long those that wait are still served when the time is over.
const DRAIN: Duration = Duration::from_secs(1);
