//! The nodes of a lock library: servers with the module, on this machine or at a distance from the
//! clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use harness::client::request;
use harness::{Kind, Server};

use crate::links::Links;
use crate::load::Pipe;
use crate::measure::{median, percentile};

/// New nodes: no state is left of the library before.
pub struct Nodes {
    ports: Vec<u16>,
    _servers: Vec<Server>,
    distance: Option<Distance>,
}

impl Nodes {
    /// The distance to the clients, each way.
    pub fn start(kind: Kind, count: usize, each_way: Option<Duration>) -> Result<Nodes, String> {
        let servers: Vec<Server> = (0..count).map(|_| Server::start(kind)).collect();
        let ports: Vec<u16> = servers.iter().map(Server::port).collect();
        let Some(each_way) = each_way else {
            return Ok(Nodes { ports, _servers: servers, distance: None });
        };
        let bystander = Server::build(kind).without_module().start();
        let distance = Distance::start(&ports, bystander, each_way);
        let distance = distance.map_err(|error| format!("no links: {error}"))?;
        let ports = distance.links.ports()[..count].to_vec();
        Ok(Nodes { ports, _servers: servers, distance: Some(distance) })
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// Does some work, and measures meanwhile how long a PING over such a link takes.
    pub fn beside_ping<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Ping>) {
        match &self.distance {
            Some(distance) => {
                let (done, ping) = distance.beside_ping(work);
                (done, Some(ping))
            }
            None => (work(), None),
        }
    }
}

/// Links to nodes, and one more to an otherwise idle server, to measure them by.
struct Distance {
    links: Links,
    _bystander: Server,
    /// A PING has to take this long, in milliseconds.
    wanted: f64,
}

/// The time that a PING takes over a link while it is in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ping {
    /// The measured time, in milliseconds.
    pub ms: f64,
    /// The time that it has to take: twice the link, and the time of a PING without a link.
    pub wanted: f64,
}

impl Ping {
    /// The links' error, as a part of what they should be; `None` if it is not worth a word.
    pub fn off(&self) -> Option<f64> {
        let off = self.ms / self.wanted - 1.0;
        (off.abs() > 0.03).then_some(off)
    }
}

impl Distance {
    fn start(targets: &[u16], bystander: Server, each_way: Duration) -> std::io::Result<Distance> {
        let targets: Vec<u16> = targets.iter().copied().chain([bystander.port()]).collect();
        let links = Links::start(&targets, each_way)?;
        let bare = pings(&mut Pipe::new(&bystander), each_way);
        let distance =
            Distance { links, _bystander: bystander, wanted: 2e3 * each_way.as_secs_f64() + bare };
        // The time of the link itself is part of its length.
        let over = (pings(&mut distance.pipe(), each_way) - distance.wanted) / 2e3;
        distance.links.shorten(Duration::from_secs_f64(over.max(0.0)));
        Ok(distance)
    }

    fn pipe(&self) -> Pipe {
        Pipe::to(self.links.ports()[self.links.ports().len() - 1])
    }

    fn beside_ping<T>(&self, work: impl FnOnce() -> T) -> (T, Ping) {
        let over = Arc::new(AtomicBool::new(false));
        let pinging: JoinHandle<Vec<f64>> = {
            let (over, mut pipe) = (Arc::clone(&over), self.pipe());
            thread::spawn(move || {
                let mut all = Vec::new();
                while !over.load(Ordering::Relaxed) || all.is_empty() {
                    all.push(ping(&mut pipe));
                    thread::sleep(Duration::from_millis(10));
                }
                all
            })
        };
        let done = work();
        over.store(true, Ordering::Relaxed);
        let all = pinging.join().expect("the bystander answers");
        (done, Ping { ms: median(all), wanted: self.wanted })
    }
}

/// The time of a PING if nothing else is in its way, with as much sleep before it as over a link.
fn pings(pipe: &mut Pipe, each_way: Duration) -> f64 {
    let one = |_| {
        thread::sleep(each_way);
        ping(pipe)
    };
    percentile((0..40).map(one).collect(), 0.25)
}

/// The time of a PING, in milliseconds.
fn ping(pipe: &mut Pipe) -> f64 {
    let begun = Instant::now();
    pipe.exchange(&request(&["PING"]), 1);
    begun.elapsed().as_secs_f64() * 1e3
}
