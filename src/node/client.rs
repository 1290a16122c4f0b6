//! A client: its nodes, and the connections that this process has to them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dlock_client::{Error, Guard};
use napi::bindgen_prelude::{Either, Uint8Array};
use napi_derive::napi;
use tokio::runtime::Handle;

use crate::arguments::{self, Name, span};
use crate::lease;
use crate::outcome::{self, Failure, Outcome};
use crate::post::{Letters, Post};
use crate::runtime;

/// A client of one or more nodes. It connects when it is first used.
#[napi]
pub struct Client {
    pub(crate) connected: Arc<Connected>,
    pub(crate) letters: Arc<Letters>,
}

pub(crate) struct Connected {
    pub(crate) client: dlock_client::Client,
    pub(crate) runtime: Handle,
    /// Something in here has panicked, so nothing is certain any more.
    broken: AtomicBool,
}

/// The options of a lock. Times are in milliseconds.
#[napi(object, object_to_js = false)]
pub struct Options {
    /// The lease.
    pub ttl: f64,
    /// How long to wait; without limit if it is missing.
    pub wait: Option<f64>,
    /// For readers.
    pub shared: bool,
    /// For a semaphore.
    pub limit: Option<u32>,
    /// Whether it ends with the connection.
    pub ephemeral: bool,
    /// A text about the holder.
    pub meta: String,
    /// After this time it is lost.
    pub max_hold: Option<f64>,
}

#[napi]
impl Client {
    /// A client, or why there is none.
    #[napi(catch_unwind)]
    pub fn connect(
        post: &Post,
        nodes: Vec<String>,
        node_timeout: Option<f64>,
        notify: Option<u32>,
    ) -> napi::Result<Either<Client, Failure>> {
        let letters = post.letters();
        let mut builder = dlock_client::Client::builder().nodes(nodes);
        if let Some(timeout) = node_timeout {
            builder = builder.node_timeout(span(timeout));
        }
        if let Some(ticket) = notify {
            let letters = Arc::downgrade(&letters);
            builder = builder.notify(move |notice| {
                if let Some(letters) = letters.upgrade() {
                    letters.post(ticket, Outcome::Noticed(notice.clone()));
                }
            });
        }
        let runtime = runtime::current()?;
        let _inside = runtime.enter();
        let client = match builder.connect_later() {
            Ok(client) => client,
            Err(error) => return Ok(Either::B(outcome::failed(&error))),
        };
        let (runtime, broken) = (runtime.clone(), AtomicBool::new(false));
        let connected = Arc::new(Connected { client, runtime, broken });
        letters.remember_client(&connected);
        Ok(Either::A(Client { connected, letters }))
    }

    /// The addresses, without secrets.
    #[napi]
    pub fn nodes(&self) -> Vec<String> {
        self.connected.client.nodes().map(|node| node.name().to_owned()).collect()
    }

    /// Acquires a lock.
    #[napi(catch_unwind)]
    pub fn acquire(&self, ticket: u32, key: Either<String, Uint8Array>, options: Options) {
        let connected = Arc::clone(&self.connected);
        let acquired = connected.acquire(key, &options);
        self.run(ticket, async move {
            acquired.await.map_or_else(Outcome::Failed, |guard| Outcome::Acquired(guard, connected))
        });
    }

    /// Acquires a lock for one lease, which nobody renews.
    #[napi(catch_unwind)]
    pub fn lease(&self, ticket: u32, key: Either<String, Uint8Array>, options: Options) {
        let connected = Arc::clone(&self.connected);
        let acquired = connected.acquire(key, &options);
        self.run(ticket, async move {
            match acquired.await {
                Ok(guard) => lease::of(guard, connected).await,
                Err(error) => Outcome::Failed(error),
            }
        });
    }

    /// Extends a lock by its token. Tells for how long it is valid.
    #[napi(catch_unwind)]
    pub fn extend(
        &self,
        ticket: u32,
        key: Either<String, Uint8Array>,
        token: String,
        fence: f64,
        ttl: f64,
    ) {
        let connected = Arc::clone(&self.connected);
        let key = arguments::key(key);
        self.run(ticket, lease::extend(connected, key, token, fence, span(ttl)));
    }

    /// Releases a lock by its token. Tells whether the token held it.
    #[napi(catch_unwind)]
    pub fn release(&self, ticket: u32, key: Either<String, Uint8Array>, token: String) {
        let release = lease::release(Arc::clone(&self.connected), arguments::key(key), token);
        self.letters.carry_out(&self.connected, ticket, release);
    }

    /// Waits until releases in the background are done, and closes what is not in use.
    #[napi(catch_unwind)]
    pub fn close(&self, ticket: u32) {
        let client = self.connected.client.clone();
        self.run(ticket, async move {
            client.close().await;
            Outcome::Done
        });
    }

    /// For tests: what a panic in the library does.
    #[napi(catch_unwind)]
    pub fn panic(&self, ticket: u32) {
        self.run(ticket, async { panic!("a panic for a test") });
    }
}

impl Client {
    fn run(&self, ticket: u32, work: impl Future<Output = Outcome> + Send + 'static) {
        self.letters.run(&self.connected, ticket, work);
    }
}

impl Connected {
    /// Whether something has panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn breaks(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    fn acquire(
        &self,
        key: Name,
        options: &Options,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + use<> {
        let key = arguments::key(key);
        let mut lock = self.client.lock(key).ttl(span(options.ttl)).meta(options.meta.as_str());
        if options.shared {
            lock = lock.shared();
        }
        if let Some(limit) = options.limit {
            // More than this no node grants: it says so.
            lock = lock.limit(u16::try_from(limit).unwrap_or(u16::MAX));
        }
        if options.ephemeral {
            lock = lock.ephemeral();
        }
        if let Some(max_hold) = options.max_hold {
            lock = lock.max_hold(span(max_hold));
        }
        let wait = options.wait.map(span);
        async move {
            match wait {
                None => lock.acquire().await,
                Some(wait) => lock.acquire_within(wait).await,
            }
        }
    }
}
