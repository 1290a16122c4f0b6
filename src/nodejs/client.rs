//! A client: its nodes, and this process's connections to them.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::value::{Record, Value};
use dlock_client::{Address, Error};
use napi::Env;
use napi::bindgen_prelude::{Either, Object};
use napi_derive::napi;

use crate::arguments::{self, Name};
use crate::event_loop::{EventLoop, OutcomeQueue};
use crate::lock::Lock;
use crate::options::{self, Given, option, renamed, span};
use crate::outcome::Outcome;
use crate::value::failure;

/// A client of one or more nodes. It connects at its first use.
#[napi]
pub struct Client {
    pub(crate) client: Arc<dlock_client::Client>,
    pub(crate) event_loop: Arc<EventLoop>,
}

#[napi]
impl Client {
    /// Makes a client with the option `nodeTimeout`, or returns its error. `environment` is the value of
    /// `DLOCK_NODES`, used if no nodes are given.
    #[napi(catch_unwind)]
    pub fn connect<'env>(
        env: &'env Env,
        queue: &OutcomeQueue,
        nodes: Option<Vec<String>>,
        environment: Option<String>,
        given: Object<'_>,
        notify: Option<u32>,
    ) -> napi::Result<Either<Client, Object<'env>>> {
        let event_loop = queue.event_loop();
        let _inside = event_loop.runtime.enter();
        let named = nodes.map_or_else(|| Address::of_environment(environment.as_deref()), Ok);
        let made = named.and_then(|nodes| {
            let mut builder = dlock_client::Client::builder().nodes(nodes);
            if let Some(timeout) = option(&given, "nodeTimeout", span)? {
                builder = builder.node_timeout(timeout);
            }
            if let Some(id) = notify {
                let event_loop = Arc::downgrade(&event_loop);
                builder = builder.notify(move |notice| {
                    if let Some(event_loop) = event_loop.upgrade() {
                        event_loop.push(id, Value::from(Record::from(notice)).into());
                    }
                });
            }
            builder.connect_later()
        });
        let client = match made {
            Ok(client) => client,
            Err(error) => return Ok(Either::B(failure(env, error)?)),
        };
        let client = Arc::new(client);
        event_loop.remember_client(&client);
        Ok(Either::A(Client { client, event_loop: Arc::clone(&event_loop) }))
    }

    /// The addresses, without secrets.
    #[napi]
    pub fn nodes(&self) -> Vec<String> {
        self.client.nodes().map(|node| node.name().to_owned()).collect()
    }

    /// Makes a lock to acquire, or returns its error.
    #[napi(catch_unwind)]
    pub fn lock<'env>(
        &self,
        env: &'env Env,
        key: Name,
        given: Object<'_>,
    ) -> napi::Result<Either<Lock, Object<'env>>> {
        let made = options::read(&given).and_then(|options| {
            let lock = self.client.lock(arguments::key(key));
            let lock = lock.options(options);
            lock.check().map(|()| lock)
        });
        Ok(match made {
            Err(error) => Either::B(failure(env, Error::Usage(renamed(&error.to_string())))?),
            Ok(lock) => {
                let (client, event_loop) = (self.client.clone(), self.event_loop.clone());
                Either::A(Lock { lock, client, event_loop })
            }
        })
    }

    /// Extends a lock by its token and fence, from now on.
    #[napi(catch_unwind)]
    pub fn extend(&self, id: u32, key: Name, token: String, ttl: Given<'_, f64>, fence: f64) {
        let client = Arc::clone(&self.client);
        let (key, ttl) = (arguments::key(key), span("ttl", ttl));
        self.run(id, async move {
            let token = arguments::token(&token)?;
            client.extend(key, &token, fence as u64, ttl?).await
        });
    }

    /// Releases a lock by its token. The outcome is true if the token held it.
    #[napi(catch_unwind)]
    pub fn release(&self, id: u32, key: Name, token: String) {
        let (client, key) = (&self.client, arguments::key(key));
        let released = arguments::token(&token).map(|token| client.release(key, &token));
        self.run(id, async move { released?.await });
    }

    /// Asks each node for its report about a lock.
    #[napi(catch_unwind)]
    pub fn inspect(&self, id: u32, key: Name) {
        let (client, key) = (Arc::clone(&self.client), arguments::key(key));
        self.run(id, async move { client.inspect(key).await });
    }

    /// Waits until releases in the background are done, and closes the idle connections.
    #[napi(catch_unwind)]
    pub fn close(&self, id: u32) {
        let client = Arc::clone(&self.client);
        self.run(id, async move {
            client.close().await;
            Ok(())
        });
    }

    /// Panics, for tests.
    #[napi(catch_unwind)]
    pub fn panic(&self, id: u32) {
        self.run::<()>(id, async { panic!("a panic for a test") });
    }
}

impl Client {
    fn run<T: Into<Outcome> + Send>(
        &self,
        id: u32,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        self.event_loop.run(id, work);
    }
}
