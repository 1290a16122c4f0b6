//! Examples of redis-cli: lines with its prompt, and its output.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use harness::{Kind, Server, process};

use crate::alike::assert_alike;
use crate::page::{self, Example, Page};

/// The prompt before a command.
const PROMPT: &str = "127.0.0.1:6379> ";

#[test]
fn examples_of_redis_cli_give_what_they_show() {
    let mut tried = 0;
    for page in page::all() {
        let examples: Vec<Example> = page.examples().into_iter().filter(is_ours).collect();
        if !examples.is_empty() {
            let mut session = Session::start();
            for example in &examples {
                tried += session.try_out(&page, example);
            }
            assert!(session.open.is_none(), "{}: a reply is never shown", page.path.display());
        }
    }
    assert!(tried >= 15, "only {tried} commands were found");
}

/// True for an example with a prompt, or with the reply that an earlier example is still waiting for.
fn is_ours(example: &Example) -> bool {
    example.language.is_empty()
        && example
            .lines
            .first()
            .is_some_and(|l| l.starts_with(PROMPT) || l.starts_with("(integer)"))
}

/// A server that keeps a state file, and its clients.
struct Session {
    server: Server,
    /// The clients that sent the requests in the comments.
    others: Vec<Child>,
    /// A redis-cli with its reply shown in a later example.
    open: Option<Child>,
}

impl Session {
    fn start() -> Session {
        Session { server: Server::start(Kind::Redis82), others: Vec::new(), open: None }
    }

    /// Runs an example. Returns the number of its commands.
    fn try_out(&mut self, page: &Page, example: &Example) -> usize {
        for note in example.notes("before") {
            self.prepare(note);
        }
        let place = example.place(page);
        let text = example.lines.join("\n");
        let mut parts = text.split(PROMPT);
        let late = parts.next().unwrap_or_default();
        if !late.is_empty() {
            let open = self.open.take().unwrap_or_else(|| panic!("{place}: nobody waits for this"));
            assert_alike(&place, late, &end(open));
        }
        let exchanges: Vec<&str> = parts.collect();
        for (index, exchange) in exchanges.iter().enumerate() {
            let (command, reply) = exchange.split_once('\n').unwrap_or((exchange, ""));
            let is_last = index + 1 == exchanges.len();
            let cli = self.send(command);
            if is_last && reply.is_empty() {
                self.server.until_blocked(1);
                self.open = Some(cli);
            } else {
                assert_alike(&format!("{place} ({command})"), reply, &end(cli));
            }
        }
        exchanges.len()
    }

    fn send(&self, line: &str) -> Child {
        let port = self.server.port().to_string();
        let mut command = Command::new("redis-cli");
        command.args(["--no-raw", "-p", &port]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cli = process::spawn(command).expect("redis-cli can be started");
        let mut stdin = cli.stdin.take().expect("it is piped");
        writeln!(stdin, "{line}").expect("redis-cli reads");
        cli
    }

    fn prepare(&mut self, note: &str) {
        if note == "crash" {
            self.server.kill();
            self.server.start_again();
            self.others.drain(..).for_each(|other| drop(end(other)));
            return;
        }
        let other = self.send(note);
        if note.contains(" WAIT ") {
            self.others.push(other);
            self.server.until_blocked(self.others.len() as i64);
        } else {
            end(other);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for other in self.others.iter_mut().chain(&mut self.open) {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

fn end(mut cli: Child) -> String {
    let mut printed = String::new();
    let mut stdout = cli.stdout.take().expect("it is piped");
    stdout.read_to_string(&mut printed).expect("it prints UTF-8");
    cli.wait().expect("it ends");
    printed
}
