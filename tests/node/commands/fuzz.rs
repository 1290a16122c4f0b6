//! Thousands of random requests from several connections, some of them nonsense, some cut off. The server
//! goes on, and in the end no lock is held and no client waits.
//!
//! Every run differs. A failure prints its seed; DLOCK_SEED=… sends the same requests again.

use std::io::ErrorKind;
use std::time::Duration;

use harness::client::request;
use harness::{Client, Kind, Server, Value, apply, eventually, on_two_servers, seed};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const REQUESTS: usize = 3000;
const CLIENTS: usize = 8;
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// No lease and no wait lasts longer, so that the end comes by itself.
const LONGEST: u64 = 1500;

#[apply(on_two_servers)]
fn random_requests_leave_a_server_that_lives_and_nothing_held(kind: Kind) {
    let server = Server::build(kind).config(&format!("dlock.max-ttl {LONGEST}")).start();
    let judge = server.run("CLIENT ID").int();
    let mut fuzz = Fuzz { random: seed::rng(), judge, kept: Vec::new() };
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let mut fences = 0;
    for number in 0..REQUESTS {
        let at = fuzz.below(CLIENTS);
        match fuzz.below(100) {
            0..2 => {
                let old = std::mem::replace(&mut clients[at], server.client());
                old.close();
            }
            2 => {
                // This need not arrive: the server may have closed the connection.
                let _ = clients[at].try_send_raw(&fuzz.garbage());
                clients[at] = server.client();
            }
            _ => {
                let _ = clients[at].try_send_raw(&request(&fuzz.request()));
            }
        }
        // Clients read now and then: replies pile up, and so do requests behind a blocked one.
        if fuzz.below(16) == 0 {
            fuzz.read(&server, &mut clients[at]);
        }
        if number % 500 == 0 {
            assert_eq!(server.run("PING"), Value::Simple("PONG".into()));
            let fence = server.node("fence").int();
            assert!(fence >= fences, "the counter went back");
            fences = fence;
        }
    }

    clients.into_iter().for_each(Client::close);
    eventually("all leases and waits are over", || {
        let now = server.traces();
        let locks = server.run("SCAN 0 COUNT 100000 TYPE dlock-key");
        (now.leases, now.waiters) == (0, 0) && locks.items()[1].items().is_empty()
    });
    assert_eq!(server.info_number("clients", "blocked_clients"), 0);
    server.run("FLUSHALL");
    assert!(server.run("DLOCK.ACQUIRE a alice 1000").int() > fences);
}

struct Fuzz {
    random: StdRng,
    /// The connection that judges.
    judge: i64,
    /// Payloads of DUMP, to be damaged and restored.
    kept: Vec<Vec<u8>>,
}

impl Fuzz {
    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words.choose(&mut self.random).copied().unwrap_or_default()
    }

    /// A request as words, mostly one that makes sense.
    fn request(&mut self) -> Vec<Vec<u8>> {
        let mut args = match self.below(22) {
            0..15 => self.lock_command(),
            15..19 => self.other_command(),
            19..21 => self.with_another_inside(),
            _ => return self.nonsense(),
        };
        // One command in three is damaged; but none may kill the connection that judges.
        if self.below(3) == 0 && !args.iter().any(|arg| arg == b"CLIENT") {
            for _ in 0..=self.below(3) {
                self.damage(&mut args);
            }
        }
        args
    }

    fn lock_command(&mut self) -> Vec<Vec<u8>> {
        let (key, token) = (self.pick(&KEYS), self.pick(&["t1", "t2", "t3", "t4"]));
        let ttl = self.ttl();
        let mut words = match self.below(12) {
            0..6 => format!("DLOCK.ACQUIRE {key} {token} {ttl}"),
            6 => return words(&format!("DLOCK.RELEASE {key} {token}")),
            // Not for all tokens: after FINAL a token cannot ask for a minute.
            7 => return words(&format!("DLOCK.RELEASE {key} t4 FINAL")),
            8 => format!("DLOCK.EXTEND {key} {token} {ttl}"),
            9 => return words(&format!("DLOCK.CHECK {key} {token}")),
            10 => return words(&format!("DLOCK.INSPECT {key}")),
            _ => {
                let rare = [
                    "DLOCK.BREAK a",
                    "DLOCK.BREAK b t1",
                    "DLOCK.TOKENS c",
                    "DLOCK.MARK d",
                    "DLOCK.NODE",
                    "DLOCK.HELP",
                ];
                return words(self.pick(&rare));
            }
        };
        let options = [
            "SHARED",
            "LIMIT 2",
            "LIMIT 3",
            "WAIT 1",
            "WAIT 0",
            "WAIT 700",
            "KEEP 4000",
            "KEEP 1",
            "WAIT 200 KEEP 3000 TURN",
            "TURN",
            "EPHEMERAL",
            "FENCE 1",
            "META here",
            "FENCE 9007199254740991",
            "LIMIT 0",
            "WAIT -1",
            "KEEP 0",
        ];
        for _ in 0..self.below(4) {
            words.push(' ');
            words.push_str(self.pick(&options));
        }
        self::words(&words)
    }

    fn ttl(&mut self) -> String {
        let odd = ["0", "-1", "1501", "18446744073709551616", "1e3", "+5", " 7", "0x10"];
        match self.below(20) {
            0 => self.pick(&odd).to_owned(),
            _ => (1 + self.below(LONGEST as usize)).to_string(),
        }
    }

    /// FENCED, with a command inside.
    fn with_another_inside(&mut self) -> Vec<Vec<u8>> {
        let key = self.pick(&KEYS);
        let fence = self.pick(&["1", "7", "8", "1790000000000000", "9007199254740991", "0", "-1"]);
        let mut args = words(&format!("DLOCK.FENCED {key} {fence}"));
        args.extend(match self.below(8) {
            0 => Vec::new(),
            1 => self.with_another_inside(),
            2..5 => self.lock_command(),
            _ => self.other_command(),
        });
        args
    }

    /// Commands of the server that change keys, and requests that end.
    fn other_command(&mut self) -> Vec<Vec<u8>> {
        let (key, other) = (self.pick(&KEYS), self.pick(&KEYS));
        let id = self.judge + 1 + self.below(60) as i64;
        if self.below(8) == 0
            && let Some(payload) = self.kept.choose(&mut self.random).cloned()
        {
            let mut args = words(&format!("RESTORE {key} 0"));
            args.extend([payload, b"REPLACE".to_vec()]);
            return args;
        }
        words(&match self.below(24) {
            0 => format!("DEL {key}"),
            1 => format!("UNLINK {key}"),
            2 => format!("SET {key} t1 PX 300"),
            3 => format!("RENAME {key} {other}"),
            4 => format!("RENAMENX {key} {other}"),
            5 => format!("COPY {key} {other} REPLACE"),
            6 => format!("PEXPIRE {key} 20"),
            7 => format!("PERSIST {key}"),
            8 => format!("MOVE {key} 1"),
            9 => "SWAPDB 0 1".to_owned(),
            10 => "FLUSHALL ASYNC".to_owned(),
            // Not with a word that is itself a command once the first is gone: SYNC makes a replica of it.
            11 => "FLUSHDB".to_owned(),
            12 => "MULTI".to_owned(),
            13 | 14 => "EXEC".to_owned(),
            15 => format!("WATCH {key}"),
            16 => format!("CLIENT UNBLOCK {id} ERROR"),
            17 => format!("CLIENT UNBLOCK {id}"),
            18 => format!("CLIENT KILL ID {id}"),
            19 => format!("LPUSH {key} x"),
            20 => format!("MEMORY USAGE {key}"),
            21 => format!("DEBUG OBJECT {key}"),
            22 => "HELLO 3".to_owned(),
            _ => format!("DUMP {key}"),
        })
    }

    fn nonsense(&mut self) -> Vec<Vec<u8>> {
        let count = if self.below(50) == 0 { 20_000 } else { 1 + self.below(20) };
        let mut args: Vec<Vec<u8>> = (0..count).map(|_| self.bytes()).collect();
        args[0] = self.pick(&["DLOCK.ACQUIRE", "DLOCK.APPLY", "dlock.extend", "DLOCK."]).into();
        args
    }

    fn bytes(&mut self) -> Vec<u8> {
        let longest = if self.below(500) == 0 { 100_000 } else { 12 };
        let mut bytes = vec![0; self.below(longest)];
        self.random.fill(&mut bytes[..]);
        bytes
    }

    fn damage(&mut self, args: &mut Vec<Vec<u8>>) {
        let at = self.below(args.len());
        match self.below(6) {
            0 if args.len() > 1 => drop(args.remove(at)),
            1 => args.insert(at, args[at].clone()),
            2 if at > 0 => args[at] = self.bytes(),
            3 => args.push(self.bytes()),
            4 if at > 0 => args[at] = Vec::new(),
            _ => {
                let bit = self.below(8);
                let place = self.below(args[at].len().max(1));
                if let Some(byte) = args[at].get_mut(place) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }

    /// Bytes that are no request, or half of one.
    fn garbage(&mut self) -> Vec<u8> {
        let mut bytes =
            b"*5\r\n$13\r\nDLOCK.ACQUIRE\r\n$1\r\na\r\n$2\r\nt1\r\n$4\r\n1000\r\n$6\r\nSH".to_vec();
        bytes.truncate(self.below(bytes.len()));
        bytes.extend(self.bytes());
        bytes
    }

    /// Reads the replies so far. A connection that the server has closed is replaced by a new one.
    fn read(&mut self, server: &Server, client: &mut Client) {
        while let Some(answer) = self.next_answer(server, client) {
            if let Value::Bulk(payload) = answer
                && payload.len() > 20
                && self.kept.len() < 50
            {
                self.kept.push(payload);
            }
        }
    }

    fn next_answer(&mut self, server: &Server, client: &mut Client) -> Option<Value> {
        match client.try_recv_within(Duration::from_millis(1)) {
            Ok(answer) => answer,
            Err(error) => {
                let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                assert!(closed.contains(&error.kind()), "{error}");
                *client = server.client();
                None
            }
        }
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(Into::into).collect()
}
