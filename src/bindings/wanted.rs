//! A lock's options.

use std::time::Duration;

use dlock_client::{Client, Error, Guard, Key, Lock};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

/// A lock and its options. It can be acquired any number of times.
#[derive(Clone)]
pub struct Wanted {
    /// Name of the lock.
    pub key: Key,
    /// Length of the lease.
    pub ttl: Duration,
    /// True for a reader.
    pub shared: bool,
    /// Permits of a semaphore.
    pub limit: Option<u16>,
    /// True if the lock ends with the connection.
    pub ephemeral: bool,
    /// A text about the holder.
    pub meta: String,
    /// Time after which the lock is lost.
    pub max_hold: Option<Duration>,
    /// True if the client renews the lease.
    pub renews: bool,
}

impl Wanted {
    /// Acquires the lock, and waits for at most `wait`, or without limit. The returned future is small: the
    /// caller may have a small stack.
    pub fn acquire(
        &self,
        client: &Client,
        wait: Option<Duration>,
    ) -> BoxFuture<'static, Result<Guard, Error>> {
        if let Err(error) = self.check(client) {
            return ready(Err(error)).boxed();
        }
        let lock = self.of(client);
        match wait {
            None => async move { lock.acquire().await }.boxed(),
            Some(wait) => async move { lock.acquire_within(wait).await }.boxed(),
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`Error::Usage`], which names the wrong option.
    pub fn check(&self, client: &Client) -> Result<(), Error> {
        if self.shared && self.limit.is_some() {
            let words = "a lock is shared, or has a limit; not both";
            return Err(Error::Usage(words.to_owned()));
        }
        self.of(client).check()
    }

    fn of(&self, client: &Client) -> Lock {
        let mut lock = client.lock(&self.key).ttl(self.ttl).meta(self.meta.as_str());
        if self.shared {
            lock = lock.shared();
        }
        if let Some(limit) = self.limit {
            lock = lock.limit(limit);
        }
        if self.ephemeral {
            lock = lock.ephemeral();
        }
        if let Some(max_hold) = self.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if !self.renews {
            lock = lock.unrenewed();
        }
        lock
    }
}
