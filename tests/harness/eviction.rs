//! Servers that run out of memory and evict keys.

use crate::server::Server;
use crate::wait::eventually;

impl Server {
    /// Lets the server evict every key that its policy allows, and gives it room again. Its policy
    /// is that of the configuration, or, if that evicts nothing, a random one.
    #[track_caller]
    pub fn evict_all(&self) {
        if self.run("CONFIG GET maxmemory-policy").at("maxmemory-policy").text() == "noeviction" {
            self.run("CONFIG SET maxmemory-policy allkeys-random");
        }
        assert_eq!(self.run("CONFIG SET maxmemory 1").text(), "OK");
        eventually("every key is evicted", || !self.run("INFO keyspace").text().contains("keys="));
        assert_eq!(self.run("CONFIG SET maxmemory 0").text(), "OK");
    }

    /// Gives the server a little more memory than it uses, and writes keys until a lock is no key
    /// any more, though it is held.
    #[track_caller]
    pub fn write_until_evicted(&self, key: &str, policy: &str) {
        self.run(&format!("CONFIG SET maxmemory-policy {policy}"));
        self.run("CONFIG SET maxmemory-samples 10");
        let most = self.info_number("memory", "used_memory") + 400_000;
        self.run(&format!("CONFIG SET maxmemory {most}"));
        let mut client = self.client();
        let value = "x".repeat(10_000);
        let mut number = 0;
        eventually("the lock is evicted", || {
            let batch = (number..number + 20).map(|n| format!("SET fill{n} {value}"));
            number += 20;
            client.pipeline(batch);
            client.run(&format!("EXISTS {key}")).int() == 0
        });
        self.run("CONFIG SET maxmemory 0");
    }
}
