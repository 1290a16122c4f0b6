//! A network between a client and one server that does as the test says: slow, cut, deaf or gone.
//!
//! The network is a TCP proxy on loopback, in threads. A change of its behaviour holds for open connections
//! as well. The proxy ends with its owner.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use crate::stuck::{self, Tells};
use crate::wait::uninterrupted;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server: requests.
    Up,
    /// From the server to the client: answers.
    Down,
}

/// A network in front of one port.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _told: Arc<Tells>,
}

impl Proxy {
    /// Stands in front of a port of this machine, and lets everything through.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            server: AtomicU16::new(server),
            network: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        let tells = Arc::clone(&shared);
        Proxy { port, shared, _told: stuck::part(move || tells.told(port)) }
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Restores the usual network: messages that were kept back arrive now.
    pub fn pass(&self) {
        self.change(|network| {
            network.refuses = false;
            network.delay = Duration::ZERO;
            network.keeps = [Keeps::Nothing; 2];
            network.kept_back = [false; 2];
            network.parted.clear();
            network.looks_for = None;
            network.found.clear();
            network.trickles = None;
        });
    }

    /// Leads new connections to another server's port from now on.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::Relaxed);
    }

    /// Delays all bytes by this long, each way.
    pub fn delay(&self, by: Duration) {
        self.change(|network| network.delay = by);
    }

    /// Lets a hundred thousand bytes a second arrive, one way, on each connection, until [`Proxy::pass`].
    pub fn trickle(&self, way: Way) {
        self.change(|network| network.trickles = Some(way));
    }

    /// Keeps all messages back, either way, on all connections, until [`Proxy::pass`]. New connections are
    /// accepted.
    pub fn swallow(&self) {
        self.change(|network| network.keeps = [Keeps::All; 2]);
    }

    /// The same on connections from this address only.
    pub fn swallow_from(&self, from: IpAddr) {
        self.change(|network| network.parted.push(from));
    }

    /// Keeps back the bytes that go one way on open connections, until [`Proxy::pass`]. New connections are
    /// not affected.
    pub fn keep_back(&self, way: Way) {
        self.change(|network| {
            network.keeps[way as usize] = Keeps::Older(network.connections);
            network.kept_back[way as usize] = false;
        });
    }

    /// Keeps back the bytes that go one way until [`Proxy::pass`], on new connections as well.
    pub fn keep_back_all(&self, way: Way) {
        self.change(|network| {
            network.keeps[way as usize] = Keeps::All;
            network.kept_back[way as usize] = false;
        });
    }

    /// Keeps back the next message one way that contains this text, with all that follows on its connection,
    /// until [`Proxy::pass`]. Happens once; other connections are not affected.
    pub fn keep_back_from(&self, way: Way, text: &str) {
        self.change(|network| {
            network.looks_for = Some((way, text.as_bytes().to_vec()));
            network.kept_back[way as usize] = false;
        });
    }

    /// True once a message was kept back, this way.
    pub fn has_kept_back(&self, way: Way) -> bool {
        self.shared.lock().kept_back[way as usize]
    }

    /// Ends all connections, and resets each new one.
    pub fn refuse(&self) {
        self.change(|network| network.refuses = true);
        self.cut();
    }

    /// Ends all open connections. Messages that were kept back never arrive at the client. At the server they
    /// arrive when they are let go, as if only the client had noticed the end.
    pub fn cut(&self) {
        for pair in self.shared.lock().open.drain(..) {
            pair.cut();
        }
    }

    /// Ends the connection of the last of this many more bytes one way, counted over all connections. Happens
    /// once.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.change(|network| network.cut = Some((way, bytes)));
    }

    /// True once [`Proxy::cut_after`] has ended a connection.
    pub fn has_cut(&self) -> bool {
        self.shared.lock().cut.is_none()
    }

    /// The number of bytes that have arrived so far, one way.
    pub fn arrived(&self, way: Way) -> u64 {
        self.shared.lock().arrived[way as usize]
    }

    /// The number of bytes that were sent so far, one way: they have arrived or are on their way.
    pub fn sent(&self, way: Way) -> u64 {
        self.shared.lock().taken[way as usize]
    }

    /// The number of bytes that have been sent and have not arrived, one way: kept back, or just under way.
    pub fn under_way(&self, way: Way) -> u64 {
        let network = self.shared.lock();
        network.taken[way as usize] - network.arrived[way as usize]
    }

    /// The number of connections with messages that are kept back, one way.
    pub fn silenced(&self, way: Way) -> usize {
        let network = self.shared.lock();
        let has_some = |line: &Line| {
            line.lock()
                .unwrap_or_else(|e| e.into_inner())
                .iter()
                .any(|piece| !piece.bytes.is_empty())
        };
        let lines = network.lines.iter().filter(|(of, ..)| *of == way);
        lines.filter_map(|(.., line)| line.upgrade()).filter(|line| has_some(line)).count()
    }

    /// The number of connections that were opened so far.
    pub fn connections(&self) -> u64 {
        self.shared.lock().connections
    }

    fn change(&self, change: impl FnOnce(&mut Network)) {
        change(&mut self.shared.lock());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.change(|network| network.ended = true);
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// The state that the threads of a proxy share.
struct Shared {
    server: AtomicU16,
    network: Mutex<Network>,
    changed: Condvar,
}

/// The test's settings, and the events so far.
#[derive(Default)]
struct Network {
    ended: bool,
    refuses: bool,
    delay: Duration,
    keeps: [Keeps; 2],
    /// True once a message was kept back, each way.
    kept_back: [bool; 2],
    parted: Vec<IpAddr>,
    looks_for: Option<(Way, Vec<u8>)>,
    /// The connections on which the text was found.
    found: Vec<(Way, u64)>,
    trickles: Option<Way>,
    cut: Option<(Way, u64)>,
    taken: [u64; 2],
    arrived: [u64; 2],
    connections: u64,
    open: Vec<Pair>,
    /// The messages under way, on each connection.
    lines: Vec<(Way, u64, Weak<Line>)>,
}

/// The connections that are kept back.
#[derive(Clone, Copy, Debug, Default)]
enum Keeps {
    #[default]
    Nothing,
    /// Connections with a number up to this.
    Older(u64),
    All,
}

impl Network {
    fn keeps(&mut self, way: Way, number: u64, bytes: &[u8]) -> bool {
        if let Some((_, text)) = self.looks_for.take_if(|(looks, _)| *looks == way) {
            if bytes.windows(text.len()).any(|part| part == text) {
                self.found.push((way, number));
            } else {
                self.looks_for = Some((way, text));
            }
        }
        let is_parted = |pair: &Pair| pair.number == number && self.parted.contains(&pair.from);
        if self.found.contains(&(way, number)) || self.open.iter().any(is_parted) {
            return true;
        }
        match self.keeps[way as usize] {
            Keeps::Nothing => false,
            Keeps::Older(last) => number <= last,
            Keeps::All => true,
        }
    }

    /// The number of bytes of a piece that may pass; true if the connection ends then.
    fn pass(&mut self, way: Way, length: usize) -> (usize, bool) {
        let Some((cut_way, left)) = &mut self.cut else { return (length, false) };
        if *cut_way != way {
            return (length, false);
        }
        if *left > length as u64 {
            *left -= length as u64;
            return (length, false);
        }
        let passes = *left as usize;
        self.cut = None;
        (passes, true)
    }
}

/// The two halves of a connection.
struct Pair {
    number: u64,
    from: IpAddr,
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        // The server gets the messages sent before, and then the end: the thread that carries the bytes
        // closes its half. Its answers have nowhere to go.
        let _ = self.server.shutdown(Shutdown::Read);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        for client in listener.incoming() {
            let mut network = self.lock();
            if network.ended {
                return;
            }
            let Ok(client) = client else { continue };
            let Ok(from) = client.peer_addr().map(|from| from.ip()) else { continue };
            network.connections += 1;
            let number = network.connections;
            if network.refuses {
                drop(network);
                reset(client);
                continue;
            }
            drop(network);
            match TcpStream::connect(("127.0.0.1", self.server.load(Ordering::Relaxed))) {
                Ok(server) => self.carry(Pair { number, from, client, server }),
                Err(_) => reset(client),
            }
        }
    }

    fn carry(self: &Arc<Shared>, pair: Pair) {
        let Pair { number, client, server, .. } = &pair;
        let copy = |stream: &TcpStream| {
            let _ = stream.set_nodelay(true);
            stream.try_clone().expect("a socket can be shared")
        };
        let number = *number;
        let (requests, answers) = ((copy(client), copy(server)), (copy(server), copy(client)));
        let mut network = self.lock();
        // The network was changed while this connected to the server.
        if network.refuses {
            return reset(pair.client);
        }
        network.open.push(pair);
        drop(network);
        self.pump(number, Way::Up, requests);
        self.pump(number, Way::Down, answers);
    }

    /// Two threads: one notes when bytes come, the other lets them arrive when they are due.
    fn pump(self: &Arc<Shared>, number: u64, way: Way, (from, to): (TcpStream, TcpStream)) {
        let line = Arc::new(Line::default());
        {
            let mut network = self.lock();
            network.lines.retain(|(.., line)| line.strong_count() > 0);
            network.lines.push((way, number, Arc::downgrade(&line)));
        }
        let (shared, into) = (Arc::clone(self), Arc::clone(&line));
        thread::spawn(move || shared.take(way, from, &into));
        let shared = Arc::clone(self);
        thread::spawn(move || {
            shared.deliver(number, way, &to, &line);
            let _ = to.shutdown(Shutdown::Write);
            shared.forget(number, way);
        });
    }

    fn take(&self, way: Way, mut from: TcpStream, line: &Line) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let length = uninterrupted(|| from.read(&mut buffer)).unwrap_or(0);
            let piece = Piece { came: Instant::now(), bytes: buffer[..length].to_vec() };
            let mut network = self.lock();
            network.taken[way as usize] += length as u64;
            line.lock().unwrap_or_else(|e| e.into_inner()).push_back(piece);
            drop(network);
            self.changed.notify_all();
            if length == 0 {
                return;
            }
        }
    }

    fn deliver(&self, number: u64, way: Way, mut to: &TcpStream, line: &Line) {
        while let Some((bytes, cut)) = self.next(number, way, line) {
            let written = to.write_all(&bytes);
            let mut network = self.lock();
            network.arrived[way as usize] += bytes.len() as u64;
            if cut && let Some(pair) = network.open.iter().find(|pair| pair.number == number) {
                pair.cut();
            }
            if cut || written.is_err() {
                return;
            }
        }
    }

    /// Waits until the next piece is due. `None` at the end of the connection.
    fn next(&self, number: u64, way: Way, line: &Line) -> Option<(Vec<u8>, bool)> {
        let mut network = self.lock();
        loop {
            if network.ended {
                return None;
            }
            let mut pieces = line.lock().unwrap_or_else(|e| e.into_inner());
            let first = pieces.front();
            let due = first.map(|piece| piece.came + network.delay);
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            let kept = first.is_some_and(|piece| network.keeps(way, number, &piece.bytes));
            network.kept_back[way as usize] |=
                kept && first.is_some_and(|piece| !piece.bytes.is_empty());
            if left == Some(Duration::ZERO) && !kept {
                let mut bytes = pieces.pop_front()?.bytes;
                if bytes.is_empty() {
                    return None;
                }
                if network.trickles == Some(way) && bytes.len() > DROP {
                    let came = Instant::now() + DROP_PAUSE;
                    pieces.push_front(Piece { came, bytes: bytes.split_off(DROP) });
                }
                let (passes, cut) = network.pass(way, bytes.len());
                if cut {
                    // Bytes that do not pass count as not taken.
                    network.taken[way as usize] -= (bytes.len() - passes) as u64;
                }
                bytes.truncate(passes);
                return Some((bytes, cut));
            }
            drop(pieces);
            // Only time makes a delayed piece due; every other change wakes this thread.
            let patience = match left {
                Some(left) if !left.is_zero() => left,
                _ => Duration::from_secs(3600),
            };
            network = match self.changed.wait_timeout(network, patience) {
                Ok((network, _)) => network,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The settings of the network at a port, and the messages on their way.
    fn told(&self, port: u16) -> String {
        let network = self.lock();
        let Network { refuses, delay, keeps, looks_for, taken, arrived, connections, .. } =
            &*network;
        let mut told = format!(
            "the network at port {port}: refuses {refuses}, delay {delay:?}, keeps {keeps:?}, looks for {looks_for:?}, \
             sent {taken:?}, arrived {arrived:?}, {connections} connections, {} open\n",
            network.open.len()
        );
        for (way, number, line) in &network.lines {
            let Some(line) = line.upgrade() else { continue };
            for piece in &*line.lock().unwrap_or_else(|e| e.into_inner()) {
                let bytes = piece.bytes.escape_ascii().to_string();
                let came = piece.came.elapsed();
                writeln!(
                    told,
                    "  {way:?} on connection {number}, sent {came:.1?} ago: {bytes:.500}"
                )
                .ok();
            }
        }
        told
    }

    /// Stops counting a connection as open when both halves have ended.
    fn forget(&self, number: u64, way: Way) {
        if way == Way::Down {
            self.lock().open.retain(|pair| pair.number != number);
        }
    }
}

/// The number of bytes that arrive at a time where bytes trickle, and the pause after them.
const DROP: usize = 1_000;
const DROP_PAUSE: Duration = Duration::from_millis(10);

/// The messages under way on a connection, one way.
type Line = Mutex<VecDeque<Piece>>;

/// Bytes on their way. No bytes: the end of the connection.
struct Piece {
    came: Instant,
    bytes: Vec<u8>,
}

/// Ends a connection as a machine without that service does.
fn reset(client: TcpStream) {
    let at_once = linger { l_onoff: 1, l_linger: 0 };
    let _: io::Result<()> = setsockopt(&client, sockopt::Linger, &at_once).map_err(Into::into);
}
