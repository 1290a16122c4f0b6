//! Servers that run out of memory and evict keys.

use crate::server::Server;
use crate::wait::eventually;

impl Server {
    /// Lets the server evict every key that its policy allows, and gives it room again. The policy is the
    /// configured one, or a random one if that evicts nothing.
    #[track_caller]
    pub fn evict_all(&self) {
        if self.run("CONFIG GET maxmemory-policy").at("maxmemory-policy").text() == "noeviction" {
            self.run("CONFIG SET maxmemory-policy allkeys-random");
        }
        assert_eq!(self.run("CONFIG SET maxmemory 1").text(), "OK");
        eventually("every key is evicted", || !self.run("INFO keyspace").text().contains("keys="));
        assert_eq!(self.run("CONFIG SET maxmemory 0").text(), "OK");
    }

    /// Writes keys until a lock is no key any more, though it is held.
    #[track_caller]
    pub fn write_until_evicted(&self, key: &str, policy: &str) {
        self.run("CONFIG SET maxmemory-samples 10");
        self.cache_until("the lock is evicted", policy, || {
            self.run(&format!("EXISTS {key}")).int() == 0
        });
    }

    /// Makes the server a cache, with pages that have a TTL, in little more memory than it uses. Gives it
    /// room again when this has happened.
    #[track_caller]
    pub fn cache_until(&self, description: &str, policy: &str, mut happened: impl FnMut() -> bool) {
        self.run(&format!("CONFIG SET maxmemory-policy {policy}"));
        let most = self.info_number("memory", "used_memory") + 400_000;
        self.run(&format!("CONFIG SET maxmemory {most}"));
        let mut client = self.client();
        let page = "x".repeat(10_000);
        let mut number = 0;
        eventually(description, || {
            let batch = (number..number + 20).map(|n| format!("SET page:{n} {page} EX 600"));
            number += 20;
            client.pipeline(batch);
            happened()
        });
        self.run("CONFIG SET maxmemory 0");
    }
}
