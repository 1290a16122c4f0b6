//! No lock at all: a token goes round through a list, by `bench bare-list …`. A client that wants it waits in
//! BLPOP, and puts it back by LPUSH. No hand-over by way of a server takes less on this machine: nothing is
//! checked, retried or renewed, and a crash of the holder would go unnoticed.

use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::closed_loop::{self, Contender};
use crate::load::request;

/// The first word of a command line that asks for this.
pub const WORD: &str = "bare-list";

/// Does what the rest of the command line asks for. The function ends the process.
pub fn run(words: impl Iterator<Item = String>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let name = "BLPOP + LPUSH".to_owned();
    runtime.block_on(closed_loop::run::<List>(name, words));
}

struct List(Mutex<TcpStream>);

impl Contender for List {
    /// The list that the token belongs to.
    type Held = String;

    async fn connect(nodes: &[String]) -> List {
        let stream = TcpStream::connect(&nodes[0]).await.expect("the node is there");
        stream.set_nodelay(true).expect("a socket takes options");
        List(Mutex::new(stream))
    }

    /// The first client makes the token.
    async fn prepare(&self, key: &str) -> Result<(), String> {
        match self.ask(&["SET", &format!("made:{key}"), "1", "NX"], b"+OK\r\n").await {
            Ok(()) => self.give(key).await,
            Err(_) => Ok(()),
        }
    }

    async fn acquire(&self, key: &str, _: Duration) -> Result<String, String> {
        let token = format!("*2\r\n${}\r\n{key}\r\n$1\r\n1\r\n", key.len());
        self.ask(&["BLPOP", key, "0"], token.as_bytes()).await?;
        Ok(key.to_owned())
    }

    async fn release(&self, key: String) -> Result<(), String> {
        self.give(&key).await
    }
}

impl List {
    async fn give(&self, key: &str) -> Result<(), String> {
        self.ask(&["LPUSH", key, "1"], b":1\r\n").await
    }

    /// Fails if the answer is another one.
    async fn ask(&self, args: &[&str], wanted: &[u8]) -> Result<(), String> {
        let stream = &*self.0.lock().await;
        let request = request(args);
        let sent = stream.async_io(Interest::WRITABLE, || stream.try_write(&request)).await;
        if sent.map_err(|error| error.to_string())? != request.len() {
            return Err("the socket took only a part of a short request".to_owned());
        }
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") || answer.len() < wanted.len() && answer[0] == wanted[0] {
            let mut part = [0; 1024];
            let read = stream.async_io(Interest::READABLE, || stream.try_read(&mut part)).await;
            match read.map_err(|error| error.to_string())? {
                0 => return Err("the server closed the connection".to_owned()),
                length => answer.extend_from_slice(&part[..length]),
            }
        }
        let right = answer == wanted;
        if right { Ok(()) } else { Err(format!("{args:?}: {}", answer.escape_ascii())) }
    }
}
