//! Programs that contend for a few locks, and record their requests and the answers; and networks that fail
//! at random.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlock_client::{Client, Error};
use dlock_judges::{Heard, Mode};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::task::JoinHandle;

use crate::history::{Grant, History};
use crate::library::{connect_hasty, ms, run_for};
use crate::proxy::{Proxy, Way};
use crate::quorum::Quorum;
use crate::seed;

/// The locks.
pub const KEYS: [&str; 2] = ["a", "b"];
/// The length of a lease.
pub const TTL: Duration = ms(400);
const PROGRAMS: usize = 6;
/// A run without grants shows nothing.
const LEAST: usize = 5;
/// Short, to make many requests fail.
const NODE_TIMEOUT: Duration = ms(100);

/// The modes that programs ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Exclusively.
    Write,
    /// Exclusively, or shared with others.
    ReadOrWrite,
    /// As one of two.
    Permit,
}

/// The number of permits of each lock.
const PERMITS: u16 = 2;

/// Lets programs contend for locks of a quorum, each over networks of its own, for this long or until they
/// have had some. Meanwhile `happen` changes nodes and networks, again and again. One program after the other
/// begins anew with the next list of nodes; a list is in use by all programs before the next one is by any.
pub fn run(
    quorum: &mut Quorum,
    lists: &[&[usize]],
    wish: Wish,
    lasts: Duration,
    mut happen: impl FnMut(&mut Quorum, &[Vec<Proxy>], &mut StdRng),
) -> Arc<History> {
    let mut rng = seed::rng();
    let history = Arc::new(History::default());
    let network = |_| quorum.iter().map(|node| Proxy::start(node.port())).collect();
    let networks: Vec<Vec<Proxy>> = (0..PROGRAMS).map(network).collect();
    run_for(lasts, async {
        let (begun, mut programs) = (Instant::now(), VecDeque::new());
        let turns = lists.len() * PROGRAMS;
        for turn in 0..turns {
            if turn >= PROGRAMS
                && let Some(oldest) = programs.pop_front()
            {
                end(oldest).await;
            }
            let (list, number) = (lists[turn / PROGRAMS], turn % PROGRAMS);
            let own = &networks[number];
            own.iter().for_each(Proxy::pass);
            let url = |node: &usize| format!("redis://127.0.0.1:{}", own[*node].port());
            let client = connect_hasty(|| list.iter().map(url).collect(), NODE_TIMEOUT).await;
            let ended = Arc::<AtomicBool>::default();
            let contender = Contender {
                name: format!("program {number}"),
                client,
                history: Arc::clone(&history),
                ended: Arc::clone(&ended),
                rng: StdRng::seed_from_u64(rng.random()),
                wish,
            };
            programs.push_back((ended, tokio::spawn(contender.contend())));
            if programs.len() < PROGRAMS {
                continue;
            }
            let until =
                begun + lasts * (turn + 2 - PROGRAMS) as u32 / (turns + 1 - PROGRAMS) as u32;
            // A busy machine takes longer for as many.
            while Instant::now() < until || history.len() <= LEAST {
                happen(quorum, &networks, &mut rng);
            }
        }
        networks.iter().flatten().for_each(Proxy::pass);
        programs.iter().for_each(|(ended, _)| ended.store(true, Ordering::Relaxed));
        for program in programs {
            end(program).await;
        }
    });
    history
}

/// Lets a program end.
async fn end((ended, program): (Arc<AtomicBool>, JoinHandle<()>)) {
    ended.store(true, Ordering::Relaxed);
    program.await.expect("it does not panic");
}

/// Changes one network of a program, or all of them.
pub fn change_networks(networks: &[Vec<Proxy>], rng: &mut impl Rng) {
    let program = &networks[rng.random_range(0..networks.len())];
    let one = rng.random_range(0..program.len());
    let concerned = if rng.random_range(0..4) == 0 { &program[..] } else { &program[one..=one] };
    let event = rng.random_range(0..10);
    for network in concerned {
        match event {
            0 => network.cut(),
            1 => network.swallow(),
            2 => network.refuse(),
            3 => network.keep_back(Way::Up),
            4 => network.keep_back(Way::Down),
            5 => network.delay(ms(rng.random_range(1..40))),
            6 => network
                .cut_after([Way::Up, Way::Down][rng.random_range(0..2)], rng.random_range(0..300)),
            _ => network.pass(),
        }
    }
}

/// A program that wants locks all the time.
pub struct Contender {
    /// Its name in the history.
    pub name: String,
    /// Its client.
    pub client: Client,
    /// The record of its requests and their answers.
    pub history: Arc<History>,
    /// True when it is to end.
    pub ended: Arc<AtomicBool>,
    /// Chance.
    pub rng: StdRng,
    /// The mode that it wants.
    pub wish: Wish,
}

impl Contender {
    /// Takes and holds locks until it is to end.
    pub async fn contend(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            self.take_and_hold().await;
        }
    }

    async fn take_and_hold(&mut self) {
        let rng = &mut self.rng;
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let mode = match self.wish {
            Wish::ReadOrWrite if rng.random() => Mode::Shared,
            Wish::Permit => Mode::Permits(u32::from(PERMITS)),
            _ => Mode::Exclusive,
        };
        let lock = self.client.lock(key).ttl(TTL);
        let lock = match mode {
            Mode::Exclusive => lock,
            Mode::Shared => lock.shared(),
            Mode::Permits(_) => lock.limit(PERMITS),
        };
        let asked = Instant::now();
        let taken = if rng.random_range(0..3) == 0 {
            lock.try_acquire().await
        } else {
            lock.acquire_within(ms(rng.random_range(1..800))).await
        };
        let guard = match taken {
            Ok(guard) => guard,
            Err(error) => {
                let told = matches!(error, Error::Held { .. });
                let heard = if told { Heard::Refused } else { Heard::Nothing };
                self.history.add_attempt(key, &self.name, mode, asked, heard);
                return tokio::time::sleep(ms(5)).await;
            }
        };
        let (token, fence) = (guard.token().to_string(), guard.fence() as i64);
        let grant = Grant::new(key, &token, fence, asked, Duration::ZERO);
        let mut grant = grant.of(mode).by(&self.name);
        // Some hold for longer than a lease.
        let longest = if rng.random_range(0..12) == 0 { 700 } else { 12 };
        let until = Instant::now() + ms(rng.random_range(0..longest));
        loop {
            // A guard that is valid after this moment was valid at it.
            let now = Instant::now();
            if !guard.is_valid() {
                break;
            }
            grant.extended(now, Duration::ZERO);
            if now > until {
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
        if rng.random() {
            let sent = Instant::now();
            let released = guard.release().await;
            grant.released(sent, released.is_ok().then(Instant::now));
        }
        self.history.add(grant);
    }
}
