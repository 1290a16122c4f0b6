//! Primaries and replicas: waiting until the replica has what the primary wrote, and comparing them.

use crate::kind::Kind;
use crate::server::Server;
use crate::wait::eventually;

impl Server {
    /// A primary, and a replica that has all of its data.
    #[track_caller]
    pub fn pair(kind: Kind) -> (Server, Server) {
        let primary = Server::start(kind);
        let replica = primary.replica();
        (primary, replica)
    }

    /// A new replica that gets this server's writes at once.
    #[track_caller]
    pub fn replica(&self) -> Server {
        let replica = Server::build(self.kind()).replica_of(self).start();
        self.until_streaming_to(&replica);
        replica
    }

    /// Waits until a new replica gets this server's writes at once.
    #[track_caller]
    pub fn until_streaming_to(&self, replica: &Server) {
        self.until_followed_by(replica);
        // The replica has the data, but gets nothing more until it has acknowledged them, which may take a
        // second. So it is sent something that leaves no trace.
        self.run("PUBLISH nobody anything");
        self.until_followed_by(replica);
    }

    /// Waits until a replica has everything that this server has written so far.
    #[track_caller]
    pub fn until_followed_by(&self, replica: &Server) {
        let written = self.info_number("replication", "master_repl_offset");
        eventually("the replica has everything", || {
            let state = replica.info("replication");
            let number = |field| state.get(field).and_then(|value| value.parse::<i64>().ok());
            state.get("master_link_status").is_some_and(|status| status == "up")
                && number("slave_repl_offset").is_some_and(|read| read >= written)
        });
    }

    /// Asserts that a replica has the same data as this server: each lock with its mode, its holders, their
    /// fences and the length of their leases.
    #[track_caller]
    pub fn assert_agrees_with(&self, replica: &Server) {
        self.until_followed_by(replica);
        let (own, other) = (self.digest(), replica.digest());
        if own != other {
            let (own, other) = (self.pictures(), replica.pictures());
            panic!("the replica differs:\n{own:#?}\n{other:#?}");
        }
    }

    /// A hash of all data.
    #[track_caller]
    pub fn digest(&self) -> String {
        self.run("DEBUG DIGEST").text()
    }
}
