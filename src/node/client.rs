//! A client: its nodes, and the connections that this process has to them.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::lease::Unheard;
use dlock_bindings::wanted::Wanted;
use dlock_client::Error;
use napi::bindgen_prelude::{Either, Uint8Array};
use napi_derive::napi;

use crate::arguments::{self, Name, span};
use crate::failure::{self, Failure};
use crate::outcome::Outcome;
use crate::post::{Letters, Post};
use crate::runtime;

/// A client of one or more nodes. It connects when it is first used.
#[napi]
pub struct Client {
    pub(crate) connected: Arc<Connected>,
    pub(crate) letters: Arc<Letters>,
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

    /// Acquires a lock.
    #[napi(catch_unwind)]
    pub fn acquire(&self, ticket: u32, key: Either<String, Uint8Array>, options: Options) {
        let connected = Arc::clone(&self.connected);
        let acquired = options.wanted(key).acquire(&connected.client, options.wait.map(span));
        self.run(ticket, async move { Ok(Outcome::Acquired(acquired.await?, connected)) });
    }

    /// Acquires a lock for one lease, which nobody renews.
    #[napi(catch_unwind)]
    pub fn lease(&self, ticket: u32, key: Either<String, Uint8Array>, options: Options) {
        let connected = Arc::clone(&self.connected);
        let acquired = options.wanted(key).acquire(&connected.client, options.wait.map(span));
        self.run(
            ticket,
            async move { Ok(Outcome::Leased(Unheard::of(acquired.await?, connected))) },
        );
    }

    /// Waits until releases in the background are done, and closes what is not in use.
    #[napi(catch_unwind)]
    pub fn close(&self, ticket: u32) {
        let client = self.connected.client.clone();
        self.run(ticket, async move {
            client.close().await;
            Ok(Outcome::Done)
        });
    }

    /// For tests: what a panic in the library does.
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
    fn wanted(&self, key: Name) -> Wanted {
        Wanted {
            key: arguments::key(key),
            ttl: span(self.ttl),
            shared: self.shared,
            // More than this no node grants: it says so.
            limit: self.limit.map(|limit| u16::try_from(limit).unwrap_or(u16::MAX)),
            ephemeral: self.ephemeral,
            meta: self.meta.clone(),
            max_hold: self.max_hold.map(span),
        }
    }
}
