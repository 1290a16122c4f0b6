//! Three nodes, of which one has crashed, and locks for which others wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use harness::{Client, Kind, Server};

/// Nodes and clients, until this is dropped.
pub struct Work {
    servers: Vec<Server>,
    _waiting: Vec<Client>,
    is_over: Arc<AtomicBool>,
    busy: Vec<JoinHandle<()>>,
}

impl Work {
    pub fn start() -> Work {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::start(Kind::Redis82)).collect();
        let waiting = servers.iter().take(2).flat_map(nightly).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let work = JOBS.iter().flat_map(|job| (0..job.clients).map(move |client| (job, client)));
        let busy = work.flat_map(|(job, client)| {
            servers
                .iter()
                .take(2)
                .map(|server| job.start(server, client, &is_over))
                .collect::<Vec<_>>()
        });
        let busy = busy.collect();
        // This many long leases keep all keys of a crashed node waiting.
        let long = (0..20).map(|n| format!("DLOCK.ACQUIRE long:{n} alice 60000"));
        servers[2].client().pipeline(long);
        servers[2].kill();
        servers[2].start_again();
        Work { servers, _waiting: waiting, is_over, busy }
    }

    /// The addresses of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.busy.drain(..).for_each(|one| drop(one.join()));
    }
}

/// A report that takes long, and the others that want to write it.
fn nightly(server: &Server) -> Vec<Client> {
    let mut holder = server.client();
    holder.run_args(&[
        "DLOCK.ACQUIRE",
        "report:nightly",
        "t",
        "600000",
        "META",
        "host=web1 pid=4711",
    ]);
    server.crowd(17, |n| format!("DLOCK.ACQUIRE report:nightly t{n} 600000 WAIT 0"))
}

/// Clients that take a lock again and again.
struct Job {
    key: &'static str,
    clients: u16,
    /// The time for which a client works under the lock, and then the time for which it does
    /// something else.
    works: Duration,
    rests: Duration,
}

const JOBS: [Job; 4] = [
    Job::new("queue:mail", 12, 8, 60),
    Job::new("invoice:2041", 5, 40, 150),
    Job::new("cart:{7}", 3, 15, 90),
    Job::new("cache:prices", 2, 5, 400),
];

impl Job {
    const fn new(key: &'static str, clients: u16, works: u64, rests: u64) -> Job {
        let (works, rests) = (Duration::from_millis(works), Duration::from_millis(rests));
        Job { key, clients, works, rests }
    }

    fn start(&self, server: &Server, client: u16, is_over: &Arc<AtomicBool>) -> JoinHandle<()> {
        let Job { key, works, rests, .. } = *self;
        let (mut connection, is_over) = (server.client(), Arc::clone(is_over));
        let (token, meta) =
            (format!("t{client}"), format!("host=web{} pid={}", client % 4 + 1, 800 + client));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let acquire = ["DLOCK.ACQUIRE", key, &token, "10000", "WAIT", "0", "META", &meta];
                connection.run_args(&acquire);
                thread::sleep(works);
                connection.run_args(&["DLOCK.RELEASE", key, &token]);
                thread::sleep(rests);
            }
        })
    }
}
