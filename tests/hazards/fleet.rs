//! Services of a fleet that moves over: the old ones, and the work of all under the lock.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, Server, Value};

use crate::recipe::set_nx;

/// A service with one lock, as on any page about locks in Redis.
pub struct Old {
    pub client: Client,
    value: String,
}

impl Old {
    pub fn new(server: &Server, value: &str) -> Old {
        Old { client: server.client(), value: value.to_owned() }
    }

    pub fn tries(&mut self) -> bool {
        set_nx(&mut self.client, "job", &self.value, 60_000)
    }

    pub fn script(&mut self, script: &str) -> Value {
        self.client.run_args(&["EVAL", script, "1", "job", &self.value])
    }
}

/// The services' turns under the lock, which must not overlap: they read a count, take a moment,
/// and write it.
pub struct Turns {
    port: u16,
    /// The services in the order of their turns.
    who: Mutex<Vec<&'static str>>,
    /// A turn of one kind of service must follow one of the other kind this often.
    changes: usize,
}

impl Turns {
    pub fn new(server: &Server, changes: usize) -> Turns {
        server.run("SET count 0");
        Turns { port: server.port(), who: Mutex::default(), changes }
    }

    /// Lets a service have one turn after the other, until both kinds have had enough. Between turns it does
    /// something else for at least as long as its last turn took. Otherwise there would always be a queue,
    /// and it keeps out clients that poll.
    pub fn go_on(&self, who: &'static str, mut under_the_lock: impl FnMut(&mut dyn FnMut())) {
        let mut client = Client::connect(self.port).expect("it is up");
        while !self.were_enough() {
            let begun = Instant::now();
            under_the_lock(&mut || self.take(who, &mut client));
            thread::sleep(begun.elapsed().mul_f64(rand::random_range(1.0..4.0)));
        }
    }

    fn take(&self, who: &'static str, client: &mut Client) {
        let count: usize = client.run("GET count").text().parse().expect("a number");
        thread::sleep(Duration::from_micros(300));
        client.run(&format!("SET count {}", count + 1));
        self.who.lock().expect("nobody panicked").push(who);
    }

    fn were_enough(&self) -> bool {
        let who = self.who.lock().expect("nobody panicked");
        let changes = who.windows(2).filter(|pair| pair[0] != pair[1]).count();
        changes >= self.changes
    }

    #[track_caller]
    pub fn assert_none_was_lost(&self, server: &Server) {
        assert_eq!(self.lost(server), 0);
    }

    #[track_caller]
    pub fn assert_some_were_lost(&self, server: &Server) {
        assert!(self.lost(server) > 0);
    }

    fn lost(&self, server: &Server) -> usize {
        let turns = self.who.lock().expect("nobody panicked").len();
        let count: usize = server.run("GET count").text().parse().expect("a number");
        println!("{turns} turns, and the count is {count}");
        turns - count
    }
}

/// A script wraps the server's error in its own words.
pub fn assert_wrong_type(answer: &Value) {
    assert!(answer.error().contains("WRONGTYPE"), "{answer:?}");
}
