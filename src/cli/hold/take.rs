//! Taking one lock or several, for `run` and `acquire`.

use std::ffi::{OsStr, OsString};
use std::future::{Future, poll_fn};
use std::sync::LazyLock;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlock_client::{Client, Error, Guard, Key, LockOptions, Loss, Mode, Patience};
use futures_util::future::join_all;
use nix::sys::signal::Signal;

use super::events::Events;
use super::meta::{self, Meta};
use crate::key::Named;
use crate::say::duration;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::signals::Signals;

/// Options for the kind of lock, and for a lock that is not free.
#[derive(Debug, clap::Args)]
pub struct LockArgs {
    /// Do not wait: fail if the lock is not free
    #[arg(short, long)]
    pub nonblock: bool,

    /// Wait at most this long, for all locks together: 30, 0.5, 500ms, 2m [default: without limit]
    #[arg(short, long, value_name = "SECS", value_parser = duration::parse)]
    #[arg(conflicts_with = "nonblock", allow_hyphen_values = true)]
    pub wait: Option<Duration>,

    /// A shared lock: for readers, any number of them at once
    #[arg(short, long)]
    pub shared: bool,

    /// A semaphore: at most N holders at once. On a single node only
    #[arg(long, value_name = "N", conflicts_with = "shared")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub limit: Option<u16>,

    /// Exit code if the lock is not free, or not in time
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::CONFLICT.code())]
    pub conflict_exit_code: u8,

    /// The lease: if dlock is killed, the lock is free again after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_lease)]
    #[arg(default_value = USUAL_TTL_TEXT.as_str())]
    pub ttl: Duration,

    /// A text that `inspect` shows with the holder, beside host, pid and user; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = meta::parse)]
    pub meta: Vec<Meta>,

    /// Print nothing if the lock is not free: the exit code tells
    #[arg(short, long)]
    pub quiet: bool,
}

impl LockArgs {
    /// Limit of the wait for all locks together.
    pub fn patience(&self) -> Patience {
        match self.wait {
            _ if self.nonblock => Patience::Try,
            Some(wait) => Patience::from(wait),
            None => Patience::Forever,
        }
    }

    /// The options of the locks of a process, and of the program that it runs.
    pub fn options(&self, pid: u32, program: Option<&OsString>) -> LockOptions {
        LockOptions {
            ttl: self.ttl,
            wait: self.patience(),
            mode: match self.limit {
                Some(limit) => Mode::Limit(limit),
                None if self.shared => Mode::Shared,
                None => Mode::Exclusive,
            },
            meta: meta::text(pid, program.map(OsString::as_os_str), &self.meta),
            ..LockOptions::default()
        }
    }

    /// The failure when the lock cannot be taken.
    pub fn failure(&self, error: &Error) -> Failure {
        let (Error::Held { .. } | Error::Done { .. }) = error else {
            return Failure::from(error.clone());
        };
        // The first line names the holder; the others list the states of the nodes.
        let message = error.to_string();
        let line = message.lines().next().filter(|_| !self.quiet).unwrap_or_default();
        Failure {
            exit: Exit::Code(self.conflict_exit_code),
            ..Failure::new(Kind::from(error), line)
        }
    }
}

/// The outcome of taking locks.
pub enum Outcome {
    All(Vec<Guard>),
    /// No lock is held any more.
    Failed(Error),
    /// One lock was lost while dlock waited for another.
    Lost(Loss),
    Interrupted(Signal),
}

/// Takes all locks, in the same order everywhere, so that no two processes wait for each other. All or none: if
/// one cannot be taken, this releases the earlier ones. The limit of the wait is for all of them together.
pub async fn take(
    client: &Client,
    (keys, options): (&[Named], &LockOptions),
    signals: &mut Signals,
    events: &Events,
) -> Outcome {
    let started = Instant::now();
    let mut guards: Vec<Guard> = Vec::new();
    for key in in_order(keys) {
        let asked = Instant::now();
        let failed = tokio::select! {
            biased;
            loss = first_loss(&guards) => Outcome::Lost(loss),
            signal = signals.next_that_ends() => Outcome::Interrupted(signal),
            guard = acquire(client, &key, options, started) => match guard {
                Ok(guard) => {
                    events.taken(&guard, asked.elapsed());
                    guards.push(guard);
                    continue;
                }
                Err(error) => Outcome::Failed(error),
            },
            () = events.wait(client, &key) => continue,
        };
        release(guards).await;
        return failed;
    }
    Outcome::All(guards)
}

async fn acquire(
    client: &Client,
    key: &Key,
    options: &LockOptions,
    started: Instant,
) -> Result<Guard, Error> {
    let mut options = options.clone();
    if let Patience::Within(all) = options.wait {
        options.wait = Patience::from(all.saturating_sub(started.elapsed()));
    }
    client.lock(key).options(options).acquire().await
}

/// Resolves when the first lock is lost; never, if there are no locks.
pub async fn first_loss(guards: &[Guard]) -> Loss {
    let mut losses: Vec<_> = guards.iter().map(|guard| Box::pin(guard.lost())).collect();
    poll_fn(|context| {
        let mut polled = losses.iter_mut().map(|loss| loss.as_mut().poll(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// The outcome of releasing all locks.
#[derive(Default)]
pub struct GivenBack {
    /// Locks that are free.
    pub free: Vec<Key>,
    /// Losses of locks before their release.
    pub losses: Vec<Loss>,
}

/// Releases all locks at the same time.
pub async fn release(guards: Vec<Guard>) -> GivenBack {
    let release = async |guard: Guard| (guard.key().clone(), guard.release().await);
    let mut all = GivenBack::default();
    for (key, released) in join_all(guards.into_iter().map(release)).await {
        match released {
            Err(loss) => all.losses.push(loss),
            Ok(release) if release.is_free => all.free.push(key),
            // The client reports this.
            Ok(_) => {}
        }
    }
    all
}

/// Returns the environment of a command: the keys as they were given, and the rest in the same order.
pub fn environment(keys: &[Named], guards: &[Guard]) -> Vec<(&'static str, OsString)> {
    let mut named: Vec<(&OsStr, &Guard)> = Vec::new();
    for key in keys {
        let guard = guards.iter().find(|guard| *guard.key() == key.key);
        let is_new = named.iter().all(|(_, other)| *other.key() != key.key);
        named.extend(guard.filter(|_| is_new).map(|guard| (key.typed.as_os_str(), guard)));
    }
    let joined = |word: fn(&OsStr, &Guard) -> OsString| {
        let words: Vec<OsString> = named.iter().map(|(typed, guard)| word(typed, guard)).collect();
        words.join(OsStr::new(" "))
    };
    let left = guards.iter().map(Guard::valid_for).min().unwrap_or_default();
    vec![
        ("DLOCK_KEY", joined(|typed, _| typed.to_owned())),
        ("DLOCK_TOKEN", joined(|_, guard| guard.token().as_str().into())),
        ("DLOCK_FENCE", joined(|_, guard| guard.fence().to_string().into())),
        ("DLOCK_DEADLINE_MS", deadline(left).to_string().into()),
    ]
}

/// The end of a lease in ms since 1970, by this machine's clock.
pub fn deadline(left: Duration) -> u128 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + left).as_millis()
}

fn in_order(keys: &[Named]) -> Vec<Key> {
    let mut keys: Vec<Key> = keys.iter().map(|named| named.key.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Default length of a lease, as a user would type it.
pub static USUAL_TTL_TEXT: LazyLock<String> =
    LazyLock::new(|| format!("{}s", LockOptions::DEFAULT_TTL.as_secs()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_takes_keys_in_the_same_order_and_once() {
        let named = |word: &str| Named { key: word.into(), typed: word.into() };
        let keys = ["b", "a", "b", "c"].map(named);
        assert_eq!(in_order(&keys), ["a", "b", "c"]);
    }
}
