//! Links with a length: bytes come out after a fixed time, in order, each way.
//!
//! One thread serves all connections. With threads for each, a crowd of a hundred over five links would need
//! two thousand, and measure how the kernel wakes them. (The network of the tests, harness::proxy, has such
//! threads: it can also cut and keep back.) All pieces take equally long, so those under way are in one
//! queue, the next due one in front.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// A link to each of several ports of this machine.
pub struct Links {
    ports: Vec<u16>,
    shared: Arc<Shared>,
}

/// The settings of the thread.
struct Shared {
    /// The delay of each piece, in nanoseconds.
    hold: AtomicU64,
    ended: AtomicBool,
}

impl Links {
    /// Starts links to these ports. No server need listen there yet.
    pub fn start(targets: &[u16], each_way: Duration) -> io::Result<Links> {
        let nanos = AtomicU64::new(each_way.as_nanos() as u64);
        let shared = Arc::new(Shared { hold: nanos, ended: AtomicBool::new(false) });
        let mut carrier = Carrier::new(Arc::clone(&shared))?;
        let ports: io::Result<Vec<u16>> =
            targets.iter().map(|target| carrier.listen(*target)).collect();
        let links = Links { ports: ports?, shared };
        thread::spawn(move || carrier.work());
        Ok(links)
    }

    /// The ports for clients, one for each target.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Keeps each piece for this much less: the time of this thread is part of the link.
    pub fn shorten(&self, by: Duration) {
        let less = |hold: u64| Some(hold.saturating_sub(by.as_nanos() as u64));
        // The closure always gives a number.
        let _ = self.shared.hold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = self.ports.first().map(|port| TcpStream::connect(("127.0.0.1", *port)));
    }
}

/// The thread's state.
struct Carrier {
    shared: Arc<Shared>,
    epoll: Epoll,
    timer: TimerFd,
    listeners: Vec<(TcpListener, u16)>,
    /// The two ends of a connection have neighbouring numbers, the even one is the client's.
    ends: BTreeMap<u64, End>,
    next: u64,
    under_way: VecDeque<Piece>,
}

/// One end of a connection.
struct End {
    stream: TcpStream,
    /// The bytes that have arrived, and do not fit into the socket.
    backlog: VecDeque<u8>,
    /// True if it waits for room for them.
    wants_room: bool,
}

/// Bytes on their way. No bytes: the end of the connection.
struct Piece {
    due: Instant,
    to: u64,
    bytes: Vec<u8>,
}

const TIMER: u64 = u64::MAX;
/// The number of the first listener; connections begin beyond the listeners.
const FIRST: u64 = 1 << 16;

impl Carrier {
    fn new(shared: Arc<Shared>) -> io::Result<Carrier> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let (listeners, ends, under_way) = (Vec::new(), BTreeMap::new(), VecDeque::new());
        Ok(Carrier { shared, epoll, timer, listeners, ends, next: FIRST, under_way })
    }

    fn listen(&mut self, target: u16) -> io::Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let number = self.listeners.len() as u64;
        self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        let port = listener.local_addr()?.port();
        self.listeners.push((listener, target));
        Ok(port)
    }

    fn work(mut self) {
        // Else each sleep would last 50 µs longer.
        let _ = set_timerslack(1);
        let mut events = [EpollEvent::empty(); 256];
        while !self.shared.ended.load(Ordering::Relaxed) {
            self.set_timer();
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(_) => return,
            };
            self.deliver();
            for event in &events[..ready] {
                match event.data() {
                    TIMER => {}
                    number if number < FIRST => self.accept(number as usize),
                    number => self.serve(number, event.events()),
                }
            }
        }
    }

    /// Sets the timer for the next piece that is due.
    fn set_timer(&self) {
        let set = match self.under_way.front() {
            Some(piece) => {
                // Zero would stop it.
                let left = piece.due.saturating_duration_since(Instant::now());
                let left = TimeSpec::from_duration(left.max(Duration::from_nanos(1)));
                self.timer.set(Expiration::OneShot(left), TimerSetTimeFlags::empty())
            }
            None => self.timer.unset(),
        };
        set.expect("a timer can be set");
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.under_way.front().is_some_and(|piece| piece.due <= now) {
            let Some(Piece { to, bytes, .. }) = self.under_way.pop_front() else { return };
            if bytes.is_empty() {
                // No client here closes one half and goes on with the other.
                self.ends.remove(&to);
                self.ends.remove(&(to ^ 1));
            } else if let Some(end) = self.ends.get_mut(&to) {
                end.backlog.extend(bytes);
                end.write(to, &self.epoll);
            }
        }
    }

    fn accept(&mut self, number: usize) {
        let (listener, target) = &self.listeners[number];
        let Ok((client, _)) = listener.accept() else { return };
        // Where no server listens the client's connection ends.
        let Ok(server) = TcpStream::connect(("127.0.0.1", *target)) else { return };
        for stream in [client, server] {
            let ready = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
            ready.expect("a socket takes options");
            let event = EpollEvent::new(EpollFlags::EPOLLIN, self.next);
            self.epoll.add(&stream, event).expect("a socket can be watched");
            self.ends
                .insert(self.next, End { stream, backlog: VecDeque::new(), wants_room: false });
            self.next += 1;
        }
    }

    fn serve(&mut self, number: u64, events: EpollFlags) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        if events.contains(EpollFlags::EPOLLOUT) {
            end.write(number, &self.epoll);
        }
        // Reading shows anything else.
        if events != EpollFlags::EPOLLOUT {
            self.take(number);
        }
    }

    /// Notes the bytes that came in at one end; they are due at the other.
    fn take(&mut self, number: u64) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        let mut buffer = [0; 16 * 1024];
        let length = match end.stream.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => 0,
        };
        if length == 0 {
            let _ = self.epoll.delete(&end.stream);
        }
        let due = Instant::now() + Duration::from_nanos(self.shared.hold.load(Ordering::Relaxed));
        self.under_way.push_back(Piece { due, to: number ^ 1, bytes: buffer[..length].to_vec() });
    }
}

impl End {
    /// Writes as much as fits; the rest when there is room.
    fn write(&mut self, number: u64, epoll: &Epoll) {
        while !self.backlog.is_empty() {
            match self.stream.write(self.backlog.as_slices().0) {
                Ok(length) => drop(self.backlog.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The error is read as the end of the connection.
                Err(_) => self.backlog.clear(),
            }
        }
        if self.wants_room == self.backlog.is_empty() {
            self.wants_room = !self.wants_room;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, self.wants_room);
            let _ = epoll.modify(&self.stream, &mut EpollEvent::new(flags, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Links;

    /// An echo server, and the near end of a link to it.
    fn echo(each_way: Duration) -> (Links, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let links = Links::start(&[listener.local_addr().unwrap().port()], each_way).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", links.ports()[0])).unwrap();
        stream.set_nodelay(true).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            std::io::copy(&mut &stream, &mut &stream).unwrap();
        });
        (links, stream)
    }

    #[test]
    fn a_message_and_its_answer_take_at_least_twice_the_way() {
        let each_way = Duration::from_millis(20);
        let (_links, mut stream) = echo(each_way);
        for _ in 0..3 {
            let begun = Instant::now();
            stream.write_all(b"ping").unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"ping");
            assert!(begun.elapsed() >= 2 * each_way, "{:?}", begun.elapsed());
        }
    }

    #[test]
    fn all_that_goes_in_comes_out_in_order_also_more_than_sockets_hold() {
        let (_links, stream) = echo(Duration::from_millis(1));
        let sent: Vec<u8> = (0..8_000_000_u32).map(|number| (number % 251) as u8).collect();
        let mut writer = stream.try_clone().unwrap();
        let all = sent.clone();
        let writing = thread::spawn(move || writer.write_all(&all).unwrap());
        let mut came = vec![0; sent.len()];
        (&stream).read_exact(&mut came).unwrap();
        writing.join().unwrap();
        assert!(came == sent, "the bytes are others");
    }

    #[test]
    fn an_end_arrives_at_the_other_end() {
        let (_links, stream) = echo(Duration::from_millis(1));
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!((&stream).read(&mut [0; 8]).unwrap(), 0);
    }
}
