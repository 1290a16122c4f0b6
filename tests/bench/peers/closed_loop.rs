//! Clients of a lock library, measured from outside: each asks, waits, holds, releases, and asks again at
//! once. The programs that run dlock and rslock are built with this file, so that the same code measures
//! both. Those in Python and Node do the same in their languages.
//!
//! `contended`: many clients want one lock. `uncontended`: one client has locks to itself. Both print one
//! JSON object.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use serde_json::{Value, json};
use tokio::io::unix::AsyncFd;
use tokio::time::sleep_until;

/// A client of a lock library, with connections of its own.
pub trait Contender: Send + Sync + Sized + 'static {
    /// A lock that is held.
    type Held: Send;

    /// Connects to the nodes, each as `host:port`.
    fn connect(nodes: &[String]) -> impl Future<Output = Self> + Send;

    /// Waits until it has the lock, without limit.
    fn acquire(
        &self,
        key: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<Self::Held, String>> + Send;

    /// Releases the lock; an error if it was lost before.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;
}

/// Runs the command line, and prints the result.
pub async fn run<C: Contender>(library: String, mut words: impl Iterator<Item = String>) {
    let part = words.next().unwrap_or_default();
    let arguments = Arguments::read(words);
    let measured = match part.as_str() {
        "contended" => contended::<C>(&arguments).await,
        "uncontended" => uncontended::<C>(&arguments).await,
        other => refuse(&format!("not a part of the comparison: {other}")),
    };
    let Value::Object(mut figures) = measured else { return };
    figures.insert("library".to_owned(), Value::String(library));
    println!("{}", Value::Object(figures));
    // Clients that still wait end with the process: their waits are counted.
    process::exit(0);
}

async fn contended<C: Contender>(arguments: &Arguments) -> Value {
    let (key, ttl) = (arguments.text("--key"), arguments.milliseconds("--ttl-ms"));
    let hold = Duration::from_micros(arguments.number("--hold-us"));
    let mut clients = Vec::new();
    for number in 0..arguments.number("--clients") {
        let client = connected::<C>(arguments, &format!("{key}:{number}"), ttl).await;
        clients.push((client, Arc::<Mutex<Record>>::default()));
    }
    let begin = Instant::now() + Duration::from_millis(100);
    let records: Vec<_> = clients.iter().map(|(_, record)| Arc::clone(record)).collect();
    for (client, record) in clients {
        let key = key.clone();
        tokio::spawn(async move {
            sleep_until(begin.into()).await;
            loop {
                round(&client, &record, &key, ttl, hold).await;
            }
        });
    }
    sleep_until((begin + Duration::from_secs(arguments.number("--seconds"))).into()).await;
    summary(&records, begin)
}

async fn round<C: Contender>(
    client: &C,
    record: &Mutex<Record>,
    key: &str,
    ttl: Duration,
    hold: Duration,
) {
    let note = |change: &dyn Fn(&mut Record)| change(&mut record.lock().expect("no panic in it"));
    let asked = Instant::now();
    note(&|record| record.asked = Some(asked));
    let held = loop {
        match client.acquire(key, ttl).await {
            Ok(held) => break held,
            Err(error) => {
                eprintln!("acquire: {error}");
                note(&|record| record.failures += 1);
                // Otherwise a server that is down would keep the processor busy.
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let won = Instant::now();
    note(&|record| {
        record.asked = None;
        record.waits.push(milliseconds(won - asked));
    });
    exactly(hold).await;
    let had = won.elapsed();
    note(&|record| record.holds.push(milliseconds(had)));
    if let Err(error) = client.release(held).await {
        eprintln!("release: {error}");
        note(&|record| record.failures += 1);
        tokio::time::sleep(PAUSE).await;
    }
}

/// After a failure.
const PAUSE: Duration = Duration::from_millis(10);

/// One client's figures so far.
#[derive(Default)]
struct Record {
    waits: Vec<f64>,
    holds: Vec<f64>,
    /// The beginning of its wait, while it waits.
    asked: Option<Instant>,
    failures: u64,
}

fn summary(records: &[Arc<Mutex<Record>>], begin: Instant) -> Value {
    let (mut waits, mut cut_off, mut holds, mut failures) = (vec![], vec![], vec![], 0);
    for record in records {
        let record = record.lock().expect("no panic in it");
        waits.push(record.waits.clone());
        cut_off.extend(record.asked.map(|asked| milliseconds(asked.elapsed())));
        holds.extend(&record.holds);
        failures += record.failures;
    }
    // The clients go on meanwhile: their counts fit into this time.
    let seconds = begin.elapsed().as_secs_f64();
    let hold = holds.iter().sum::<f64>() / holds.len().max(1) as f64;
    json!({
        "waits_ms": waits,
        "cut_off_ms": cut_off,
        "hold_ms_mean": hold,
        "seconds": seconds,
        "failures": failures,
    })
}

async fn uncontended<C: Contender>(arguments: &Arguments) -> Value {
    let (key, ttl) = (arguments.text("--key"), arguments.milliseconds("--ttl-ms"));
    let client = connected::<C>(arguments, &key, ttl).await;
    let rounds = arguments.number("--rounds") as usize;
    let (mut acquires, mut pairs) = (Vec::new(), Vec::new());
    let warm = Instant::now() + arguments.milliseconds("--warm-up-ms");
    let mut number = 0;
    while acquires.len() < rounds {
        // A key of its own each time, which is free for certain.
        let key = format!("{key}:{number}");
        number += 1;
        let begun = Instant::now();
        let held = client.acquire(&key, ttl).await.unwrap_or_else(|error| refuse(&error));
        let took = begun.elapsed();
        client.release(held).await.unwrap_or_else(|error| refuse(&error));
        if begun >= warm {
            acquires.push(took.as_secs_f64() * 1e6);
            pairs.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    json!({ "acquire_us": acquires, "pair_us": pairs })
}

/// A client that has taken a lock before, so that its connections are open and scripts loaded.
async fn connected<C: Contender>(arguments: &Arguments, own_key: &str, ttl: Duration) -> C {
    let client = C::connect(&arguments.nodes()).await;
    let held = client.acquire(own_key, ttl).await.unwrap_or_else(|error| refuse(&error));
    client.release(held).await.unwrap_or_else(|error| refuse(&error));
    client
}

/// The runtime's own timer is up to two milliseconds late. The system's is hardly ever late, and costs the
/// runtime no thread.
async fn exactly(time: Duration) {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK);
    let timer = timer.expect("the system has timers");
    let expiration = Expiration::OneShot(TimeSpec::from_duration(time));
    timer.set(expiration, TimerSetTimeFlags::empty()).expect("a timer can be set");
    // SAFETY: it owns the descriptor, which stays the same and open for as long as it exists.
    let timer = unsafe { AsyncFd::register(OwnedFd::from(timer)) };
    let timer = timer.expect("a timer can be awaited");
    timer.readable().await.expect("it goes off").retain_ready();
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The command line: names and values in turns.
struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Arguments {
        let mut given = BTreeMap::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            given.insert(name, value);
        }
        Arguments(given)
    }

    fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| refuse(&format!("{name} is missing")))
    }

    fn number(&self, name: &str) -> u64 {
        let number = self.text(name).parse();
        number.unwrap_or_else(|_| refuse(&format!("{name} is not a number")))
    }

    fn milliseconds(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    fn nodes(&self) -> Vec<String> {
        self.text("--nodes").split(',').map(str::to_owned).collect()
    }
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}");
    process::exit(1);
}
