//! The part `contended`: many clients, one lock that goes round among them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_client::{Client, Error, Guard, Notice};
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, interval};

use super::cycle::MeasuredLock;
use super::figures::{Percentile, jain, ratio};
use super::pause;
use super::quorum::{PATIENCE, PAUSE};
use super::round::Round;
use super::tally::{Counts, Tally};
use super::time_box::TimeBox;
use crate::global::Global;
use crate::nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;

/// The results.
#[derive(Clone)]
pub struct Contended {
    pub nodes: usize,
    pub hold: Duration,
    pub took: Duration,
    pub counts: Counts,
}

impl Contended {
    pub fn clients(&self) -> usize {
        self.counts.grants.len()
    }

    pub fn per_second(&self) -> f64 {
        self.counts.total() as f64 / self.took.as_secs_f64()
    }

    /// The part of the time for which somebody held the lock.
    pub fn held_share(&self) -> f64 {
        self.counts.held.as_secs_f64() / self.took.as_secs_f64()
    }

    /// Length of a round if handing over costs nothing. A wait lasts for the holds of the others: one less.
    pub fn one_round(&self) -> Duration {
        self.hold * u32::try_from(self.clients()).unwrap_or(u32::MAX)
    }

    /// Nothing, where the one is not known, or the other means nothing: one client waits for nobody.
    pub fn p99_to_round(&self) -> Option<f64> {
        let p99 = self.counts.waits.at(0.99).and_then(Percentile::exactly)?;
        if self.clients() == 1 { None } else { ratio(p99, self.one_round()) }
    }

    /// Nothing, where nobody got anything.
    pub fn jain(&self) -> Option<f64> {
        (self.counts.total() > 0).then(|| jain(&self.counts.grants))
    }
}

/// The end of the part.
pub enum End {
    Measured(Box<Contended>),
    Stopped,
    /// Nothing was granted any more; this is what was said last.
    Unavailable(String),
}

/// The clients, connected.
pub struct Crowd(Vec<Contender>);

/// A client, and the words for an outage of its nodes while there is one: a wait would go on through it.
#[derive(Clone)]
struct Contender {
    client: Client,
    outage: watch::Receiver<Option<String>>,
}

impl Contender {
    async fn connect(global: &Global) -> Result<Contender, Failure> {
        let (tell, outage) = watch::channel(None);
        let tell = move |notice: &Notice| match notice {
            Notice::Outage { .. } => drop(tell.send_replace(Some(notice.to_string()))),
            Notice::Back { .. } => drop(tell.send_replace(None)),
            _ => {}
        };
        Ok(Contender { client: nodes::connect_and_hear(global, tell).await?, outage })
    }

    /// Waits for the lock, but through no outage.
    async fn acquire(&self, measured_lock: &MeasuredLock) -> Result<Guard, String> {
        let lock = self.client.lock(&measured_lock.key).ttl(measured_lock.ttl);
        let mut outage = self.outage.clone();
        outage.mark_unchanged();
        tokio::select! {
            biased;
            outcome = lock.acquire() => outcome.map_err(|error| error.to_string()),
            Ok(()) = outage.changed() => Err(outage.borrow().clone().unwrap_or_default()),
        }
    }
}

impl Crowd {
    /// Not all at once: nodes have a queue for those that connect. None: it was stopped.
    pub async fn connect(
        number: u16,
        global: &Global,
        time_box: &TimeBox,
    ) -> Result<Option<Crowd>, Failure> {
        let one = async |_| match Contender::connect(global).await {
            // Among so many, one may have bad luck.
            Err(failure) if failure.exit != Exit::USAGE => Contender::connect(global).await,
            connected => connected,
        };
        let mut coming = stream::iter((0..number).map(one)).buffer_unordered(AT_ONCE);
        let mut clients = Vec::new();
        loop {
            let next = tokio::select! {
                next = coming.next() => next,
                () = time_box.stopped() => return Ok(None),
            };
            let Some(client) = next else { return Ok(Some(Crowd(clients))) };
            clients.push(client.map_err(|failure| {
                let (connected, message) = (clients.len(), &failure.message);
                let message = format!("{connected} of {number} clients connected: {message}");
                Failure { message, ..failure }
            })?);
            time_box.count();
        }
    }

    /// Lets each of them take the lock once, and not hold it, a few at a time: then most are
    /// connected where they will wait.
    pub async fn warm_up(&self, measured_lock: &MeasuredLock, time_box: &TimeBox) {
        let one = async |client: &Contender| {
            tokio::select! {
                biased;
                () = time_box.stopped() => {}
                () = tokio::time::sleep_until(time_box.end().into()) => {}
                // If it fails now, it will be seen later, too.
                guard = client.acquire(measured_lock) => if let Ok(guard) = guard {
                    let _ = guard.release().await;
                },
            }
        };
        stream::iter(&self.0).for_each_concurrent(AT_ONCE, one).await;
    }

    /// Lets them all want the lock; if it was stopped, they only give back what they have.
    pub fn begin(
        self,
        measured_lock: &MeasuredLock,
        round: &Round,
        time_box: &TimeBox,
    ) -> Contention {
        let hold = round.hold;
        let clients = self.0;
        let tally = Arc::new(Tally::new(clients.len(), Instant::now()));
        let (phase, seen) = watch::channel(match time_box.is_stopped() {
            true => Phase::GiveUp,
            false => Phase::Open,
        });
        let (first, last) = (clients[0].client.clone(), round.last());
        let mut tasks = JoinSet::new();
        for (place, client) in clients.into_iter().enumerate() {
            let (measured_lock, tally, phase) =
                (measured_lock.clone(), Arc::clone(&tally), seen.clone());
            tasks.spawn(One { place, client, measured_lock, hold, phase, tally }.go_round());
        }
        let (measured_lock, look) = (measured_lock.clone(), interval(LOOK));
        Contention {
            measured_lock,
            hold,
            last,
            first,
            tasks,
            tally,
            phase,
            look,
            is_hopeless: false,
        }
    }
}

/// The clients, all of which want the lock.
pub struct Contention {
    measured_lock: MeasuredLock,
    hold: Duration,
    /// Time for which waiting clients are still served after the measurement.
    last: Duration,
    /// One of the clients.
    first: Client,
    tasks: JoinSet<()>,
    tally: Arc<Tally>,
    phase: watch::Sender<Phase>,
    look: Interval,
    is_hopeless: bool,
}

/// The phases of the clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Waiting clients go on; a client that has had the lock does not ask again.
    LastCall,
    GiveUp,
}

impl Contention {
    /// Until each of them has had the lock. At first, one waits for nobody, the next for one, and so
    /// on; from then on each waits for all others.
    pub async fn first_round(&mut self, time_box: &TimeBox) {
        while !time_box.is_over() && !self.is_hopeless {
            self.look.tick().await;
            let served = self.look();
            time_box.counted(served as u64);
            if served == self.tasks.len() {
                break;
            }
        }
    }

    /// Begins the clock, and lets them go on until the time is over.
    pub async fn measure(mut self, time_box: TimeBox) -> End {
        let begin = Instant::now();
        self.tally.begin(begin);
        let last_call = time_box.end() + self.last;
        loop {
            tokio::select! {
                one = self.tasks.join_next() => if one.is_none() { break },
                _ = self.look.tick() => {
                    self.look();
                    time_box.counted(self.tally.counts().total());
                    self.enter(match Instant::now() {
                        _ if self.is_hopeless || time_box.is_stopped() => Phase::GiveUp,
                        now if now >= last_call => Phase::GiveUp,
                        now if now >= time_box.end() => Phase::LastCall,
                        _ => Phase::Open,
                    });
                }
            }
        }
        if time_box.is_stopped() {
            return End::Stopped;
        }
        let counts = self.tally.counts().clone();
        if !self.is_hopeless && counts.is_doubtful() {
            self.is_hopeless = !self.is_there().await;
        }
        if self.is_hopeless || counts.served() == 0 {
            let nobody = "nobody got the lock in this time".to_owned();
            return End::Unavailable(counts.last_failure.unwrap_or(nobody));
        }
        // Where some were served later, it took longer.
        let took = counts.last_end.max(time_box.end()) - begin;
        let nodes = self.first.size();
        End::Measured(Box::new(Contended { nodes, hold: self.hold, took, counts }))
    }

    /// Wakes them only if there is news.
    fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|was| std::mem::replace(was, phase) != phase);
    }

    /// Returns the number of clients that have had the lock, and notes when there is no hope for the others.
    fn look(&mut self) -> usize {
        let counts = self.tally.counts();
        self.is_hopeless |= counts.is_hopeless(PATIENCE + self.hold, Instant::now());
        counts.served()
    }

    /// True if a majority can still be had, be the lock free or not.
    async fn is_there(&self) -> bool {
        let lock = self.first.lock(&self.measured_lock.key).ttl(self.measured_lock.ttl);
        let is_there = match lock.try_acquire().await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(error) => matches!(error, Error::Held { .. }),
        };
        self.first.close().await;
        is_there
    }
}

/// One of the clients.
struct One {
    place: usize,
    client: Contender,
    measured_lock: MeasuredLock,
    hold: Duration,
    phase: watch::Receiver<Phase>,
    tally: Arc<Tally>,
}

impl One {
    async fn go_round(self) {
        // Through all failures: it waits for the lock, not for an answer.
        let mut asked = None;
        while *self.phase.borrow() < Phase::LastCall {
            let since = *asked.get_or_insert_with(Instant::now);
            let outcome = tokio::select! {
                biased;
                () = self.given_up() => break,
                outcome = self.client.acquire(&self.measured_lock) => outcome,
            };
            match outcome {
                Ok(guard) => {
                    let won = Instant::now();
                    self.tally.granted(self.place, since, won);
                    asked = None;
                    tokio::select! {
                        biased;
                        () = self.given_up() => {}
                        () = pause::until(won + self.hold) => {}
                        // The release of the lost guard says why.
                        _ = guard.lost() => {}
                    }
                    self.tally.held(won, Instant::now());
                    if let Err(loss) = guard.release().await {
                        self.tally.failed(self.place, loss.to_string());
                    }
                }
                Err(error) => {
                    self.tally.failed(self.place, error);
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = self.given_up() => {}
                    }
                }
            }
        }
        if let Some(asked) = asked {
            self.tally.cut_off(asked, Instant::now());
        }
        // Until what it gave back is given back.
        self.client.client.close().await;
    }

    async fn given_up(&self) {
        let mut phase = self.phase.clone();
        if phase.wait_for(|phase| *phase == Phase::GiveUp).await.is_err() {
            // Nobody can want it any more.
            std::future::pending().await
        }
    }
}

/// Limit of clients that connect at the same time.
const AT_ONCE: usize = 16;
/// Interval of checks of the clients' progress.
const LOOK: Duration = Duration::from_millis(20);
