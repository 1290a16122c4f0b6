//! A fake server that answers as the test says: lies, nonsense, or nothing.
//!
//! A fake server greets as a server does, and has no other command. It counts its requests, and ends with its
//! owner.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::value::Value;

/// The reaction to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// The answer of a server with greetings and no other command.
    Usual,
    /// Nothing, ever.
    Silence,
    /// The end of the connection.
    End,
}

/// Returns the reaction to a request, given as words.
pub type Script = dyn Fn(&[String]) -> Answer + Send + Sync;

/// A fake server.
pub struct Fake {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    script: Arc<Script>,
    ended: bool,
    asked: BTreeMap<String, usize>,
    open: BTreeMap<usize, TcpStream>,
    connections: usize,
}

impl Fake {
    /// Listens at a free port.
    pub fn start(script: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = State {
            script: Arc::new(script),
            ended: false,
            asked: BTreeMap::new(),
            open: BTreeMap::new(),
            connections: 0,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Fake { port, shared }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the script that answers requests from now on.
    pub fn says(&self, script: impl Fn(&[String]) -> Answer + Send + Sync + 'static) {
        self.shared.lock().script = Arc::new(script);
    }

    /// The number of requests that began with this word, greetings included.
    pub fn asked(&self, word: &str) -> usize {
        self.shared.lock().asked.get(word).copied().unwrap_or_default()
    }

    /// The number of requests, greetings included.
    pub fn requests(&self) -> usize {
        self.shared.lock().asked.values().sum()
    }

    /// The number of connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// The number of connections that are open now.
    pub fn open(&self) -> usize {
        self.shared.lock().open.len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        let open = std::mem::take(&mut state.open);
        drop(state);
        open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            let Ok(stream) = stream else { continue };
            let Ok(kept) = stream.try_clone() else { continue };
            let number = state.connections;
            state.connections += 1;
            state.open.insert(number, kept);
            drop(state);
            let shared = Arc::clone(self);
            thread::spawn(move || {
                shared.talk(&stream);
                let _ = stream.shutdown(Shutdown::Both);
                shared.lock().open.remove(&number);
            });
        }
    }

    /// Serves a connection until one of the two ends it.
    fn talk(&self, mut stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut requests = BufReader::new(stream);
        while let Ok(Value::Array(words)) = Value::read(&mut requests) {
            let words: Vec<String> = words.iter().map(Value::text).collect();
            let word = words.first().map(|word| word.to_uppercase()).unwrap_or_default();
            let mut state = self.lock();
            *state.asked.entry(word).or_default() += 1;
            let script = Arc::clone(&state.script);
            drop(state);
            let bytes = match script(&words) {
                Answer::Raw(bytes) => bytes,
                Answer::Usual => greeting(&words),
                Answer::Silence => continue,
                Answer::End => return,
            };
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

fn greeting(words: &[String]) -> Vec<u8> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["HELLO", ..] => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
        ["CLIENT" | "SELECT" | "AUTH" | "ASKING", ..] => b"+OK\r\n".to_vec(),
        ["SUBSCRIBE", channel] => {
            format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()).into()
        }
        [word, ..] => {
            format!("-ERR unknown command '{word}', with args beginning with: \r\n").into()
        }
        [] => b"-ERR nothing\r\n".to_vec(),
    }
}

impl Answer {
    /// An array of strings.
    pub fn strings(strings: &[&str]) -> Answer {
        let mut text = format!("*{}\r\n", strings.len());
        for string in strings {
            text.push_str(&format!("${}\r\n{string}\r\n", string.len()));
        }
        Answer::raw(text)
    }

    /// These bytes, as they are.
    pub fn raw(text: impl Into<Vec<u8>>) -> Answer {
        Answer::Raw(text.into())
    }

    /// An error.
    pub fn error(words: &str) -> Answer {
        Answer::raw(format!("-{words}\r\n"))
    }
}
