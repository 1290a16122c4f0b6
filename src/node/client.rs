//! A client: its nodes, and this process's connections to them.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::mode::mode;
use dlock_client::{Address, Error, LockOptions};
use napi::bindgen_prelude::Either;
use napi_derive::napi;

use crate::arguments::{self, Name, span};
use crate::failure::{self, Failure};
use crate::lock::Lock;
use crate::outcome::Outcome;
use crate::post::{Letters, Post};
use crate::runtime;

/// A client of one or more nodes. It connects at its first use.
#[napi]
pub struct Client {
    pub(crate) connected: Arc<Connected>,
    pub(crate) letters: Arc<Letters>,
}

/// The options of a lock. Times are in milliseconds.
#[napi(object, object_to_js = false)]
pub struct Options {
    /// Length of the lease.
    pub ttl: f64,
    /// True for a reader.
    pub shared: bool,
    /// Permits of a semaphore.
    pub limit: Option<u32>,
    /// True if the lock ends with the connection.
    pub ephemeral: bool,
    /// A text about the holder.
    pub meta: String,
    /// Time after which the lock is lost.
    pub max_hold: Option<f64>,
    /// True if the client renews the lease.
    pub renew: bool,
}

#[napi]
impl Client {
    /// Makes a client, or returns its error. `environment` is the value of `DLOCK_NODES`, which counts if no
    /// nodes are given.
    #[napi(catch_unwind)]
    pub fn connect(
        post: &Post,
        nodes: Option<Vec<String>>,
        environment: Option<String>,
        node_timeout: Option<f64>,
        notify: Option<u32>,
    ) -> napi::Result<Either<Client, Failure>> {
        let letters = post.letters();
        let named = nodes.map_or_else(|| Address::of_environment(environment.as_deref()), Ok);
        let nodes = match named {
            Ok(nodes) => nodes,
            Err(error) => return Ok(Either::B(failure::of(&error))),
        };
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
            Err(error) => return Ok(Either::B(failure::of(&error))),
        };
        let connected = Arc::new(Connected::new(client, runtime.clone()));
        letters.remember_client(&connected);
        Ok(Either::A(Client { connected, letters }))
    }

    /// The addresses, without secrets.
    #[napi]
    pub fn nodes(&self) -> Vec<String> {
        self.connected.client.nodes().map(|node| node.name().to_owned()).collect()
    }

    /// Makes a lock to acquire, or returns its error.
    #[napi(catch_unwind)]
    pub fn lock(&self, key: Name, options: Options) -> Either<Lock, Failure> {
        let made = options.read().and_then(|options| {
            let lock = self.connected.client.lock(arguments::key(key)).options(options);
            lock.check().map(|()| lock)
        });
        match made {
            Err(error) => Either::B(failure::of(&error)),
            Ok(lock) => {
                let (connected, letters) = (self.connected.clone(), self.letters.clone());
                Either::A(Lock { lock, connected, letters })
            }
        }
    }

    /// Extends a lock by its token, from now on. Without a fence it asks the nodes for it.
    #[napi(catch_unwind)]
    pub fn extend(&self, ticket: u32, key: Name, token: String, ttl: f64, fence: Option<f64>) {
        let client = self.connected.client.clone();
        let (key, fence) = (arguments::key(key), fence.map(|fence| fence as u64));
        self.run(ticket, async move {
            let token = arguments::token(&token)?;
            client.extend(key, &token, fence, span(ttl)).await.map(Outcome::Extended)
        });
    }

    /// Releases a lock by its token. The outcome says whether the token held it.
    #[napi(catch_unwind)]
    pub fn release(&self, ticket: u32, key: Name, token: String) {
        let (client, key) = (&self.connected.client, arguments::key(key));
        let released = arguments::token(&token).map(|token| client.release(key, &token));
        self.run(ticket, async move { released?.await.map(Outcome::Was) });
    }

    /// Asks each node for its report about a lock.
    #[napi(catch_unwind)]
    pub fn inspect(&self, ticket: u32, key: Name) {
        let (client, key) = (self.connected.client.clone(), arguments::key(key));
        self.run(ticket, async move { client.inspect(key).await.map(Outcome::Inspected) });
    }

    /// Ends all leases of a lock on all nodes, or only the lease of this token. The outcome has the number
    /// that each node ended.
    #[napi(catch_unwind)]
    pub fn break_lock(&self, ticket: u32, key: Name, token: Option<String>) {
        let (client, key) = (self.connected.client.clone(), arguments::key(key));
        self.run(ticket, async move {
            let token = token.as_deref().map(arguments::token).transpose()?;
            client.break_lock(key, token.as_ref()).await.map(Outcome::Broken)
        });
    }

    /// Waits until releases in the background are done, and closes the idle connections.
    #[napi(catch_unwind)]
    pub fn close(&self, ticket: u32) {
        let client = self.connected.client.clone();
        self.run(ticket, async move {
            client.close().await;
            Ok(Outcome::Done)
        });
    }

    /// Panics, for tests.
    #[napi(catch_unwind)]
    pub fn panic(&self, ticket: u32) {
        self.run(ticket, async { panic!("a panic for a test") });
    }
}

impl Client {
    fn run(
        &self,
        ticket: u32,
        work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
    ) {
        self.letters.run(&self.connected, ticket, work);
    }
}

impl Options {
    fn read(self) -> Result<LockOptions, Error> {
        // No node grants more than this: its error says so.
        let limit = self.limit.map(|limit| u16::try_from(limit).unwrap_or(u16::MAX));
        Ok(LockOptions {
            ttl: span(self.ttl),
            mode: mode(self.shared, limit)?,
            ephemeral: self.ephemeral,
            meta: self.meta,
            max_hold: self.max_hold.map(span),
            renew: self.renew,
            ..LockOptions::default()
        })
    }
}
