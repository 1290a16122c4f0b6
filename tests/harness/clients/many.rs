//! Many requests on one connection, and many connections.

use std::sync::Once;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::client::{Client, request};
use crate::server::Server;
use crate::value::Value;

/// This many requests are sent before their answers are read: enough to make a round trip cheap, and
/// few enough that neither side waits for the other to read.
const BATCH: usize = 500;

impl Client {
    /// Sends requests, each given as words between spaces, and returns their answers in order.
    #[track_caller]
    pub fn pipeline(&mut self, requests: impl IntoIterator<Item = String>) -> Vec<Value> {
        let mut requests = requests.into_iter();
        let mut answers = Vec::new();
        loop {
            let batch: Vec<String> = requests.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return answers;
            }
            answers.extend(self.exchange(&batch));
        }
    }

    /// Compiled in the harness, and so optimised more than a test.
    #[track_caller]
    fn exchange(&mut self, batch: &[String]) -> Vec<Value> {
        let mut bytes = Vec::new();
        for words in batch {
            let args: Vec<&str> = words.split_whitespace().collect();
            bytes.extend(request(&args));
        }
        self.send_raw(&bytes);
        batch.iter().map(|_| self.recv()).collect()
    }
}

impl Server {
    /// New connections that the server has accepted.
    #[track_caller]
    pub fn clients(&self, count: usize) -> Vec<Client> {
        static LIMIT: Once = Once::new();
        LIMIT.call_once(lift_limit);
        let mut clients: Vec<Client> = (0..count).map(|_| self.client()).collect();
        for client in &mut clients {
            client.send("PING");
        }
        for client in &mut clients {
            client.recv();
        }
        clients
    }

    /// New clients with waiting requests, in the order of arrival.
    #[track_caller]
    pub fn line(&self, count: usize, words: impl Fn(usize) -> String) -> Vec<Client> {
        let mut clients = self.clients(count);
        let before = self.info_number("clients", "blocked_clients");
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&words(number));
            self.until_blocked(before + number as i64 + 1);
        }
        clients
    }

    /// New clients that have sent these requests. The server handles them in this order, in one turn of its event
    /// loop: no lease and no wait ends between them, however slow the machine is.
    #[track_caller]
    pub fn in_one_turn<const N: usize>(&self, requests: [&str; N]) -> [Client; N] {
        let mut clients = self.clients(N);
        // The kernel reports sockets in the order in which they became readable, once the server has looked at all
        // of them again after their last requests.
        self.run("PING");
        self.pause();
        for (client, words) in clients.iter_mut().zip(requests) {
            client.send(words);
        }
        self.resume();
        clients.try_into().unwrap_or_else(|_| unreachable!("a client for each request"))
    }

    /// New clients with waiting requests, in any order.
    #[track_caller]
    pub fn crowd(&self, count: usize, words: impl Fn(usize) -> String) -> Vec<Client> {
        let mut clients = self.clients(count);
        let before = self.info_number("clients", "blocked_clients");
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&words(number));
        }
        self.until_blocked(before + count as i64);
        clients
    }
}

/// Many systems let a process have a thousand open files, more if it asks, and root any number. Tests of
/// crowds that run side by side need that.
pub fn lift_limit() {
    let files = Resource::RLIMIT_NOFILE;
    let (_, most) = getrlimit(files).expect("limits can be read");
    let wanted = most.max(1 << 16);
    let lifted = setrlimit(files, wanted, wanted).or_else(|_| setrlimit(files, most, most));
    lifted.expect("a limit can be raised to what is allowed");
}
