//! A lock that is wanted, with its options.

use std::time::Duration;

use dlock_client::{Client, Error, Guard, Key, Lock};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

/// A lock that is wanted. It can be acquired any number of times.
#[derive(Clone)]
pub struct Wanted {
    /// Its name.
    pub key: Key,
    /// The lease.
    pub ttl: Duration,
    /// For readers.
    pub shared: bool,
    /// For a semaphore.
    pub limit: Option<u16>,
    /// Whether it ends with the connection.
    pub ephemeral: bool,
    /// A text about the holder.
    pub meta: String,
    /// After this time it is lost.
    pub max_hold: Option<Duration>,
    /// Whether the lease is renewed.
    pub renews: bool,
}

impl Wanted {
    /// Acquires it; `wait` is how long to wait, without limit by default. What is returned is small: whoever
    /// calls this may have a small stack.
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

    /// Whether its options make sense.
    ///
    /// # Errors
    /// [`Error::Usage`], which says what is wrong.
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
