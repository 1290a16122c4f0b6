//! Writes that show the server a lock or a fence: GUARD and FENCED against the write alone and against
//! the same by hand in Lua, and what very many marks take.

use harness::{Kind, Server, module_file};

use crate::clients::{CLIENTS, OneByOne, Pipelined};
use crate::load::{Pipe, Random, push, request};
use crate::measure::{Compared, Side, in_turns};
use crate::memory::used_memory;
use crate::options::Options;
use crate::report::{Report, Row, Target};
use crate::restart::restart;

/// One of this many locks, marks and values is picked at random each time.
const KEYS: u64 = 1000;
const MARKS: u64 = 1_000_000;
const TOKEN: &str = "5f0e4c6a9b1d4f7e8a3c2b1d0e9f8a7b";
/// The least that is shown: a time, as fences are.
const FENCE: u64 = 1_790_000_000_000_000;

const CHECK_AND_SET: &str = "if redis.call('DLOCK.CHECK',KEYS[1],ARGV[1]) then \
     return redis.call('SET',KEYS[2],ARGV[2]) else return redis.error_reply('NOTHELD') end";
const COMPARE_AND_SET: &str = "local mark=redis.call('GET',KEYS[1]) \
     if mark and tonumber(mark)>tonumber(ARGV[1]) then return redis.error_reply('STALE') end \
     redis.call('SET',KEYS[1],ARGV[1]) return redis.call('SET',KEYS[2],ARGV[2])";

/// The ways in which a value is written.
#[derive(Clone)]
enum Write {
    /// Anybody writes.
    Plain,
    /// Anybody writes, through a module that passes the command on, and does nothing else.
    Passed,
    /// The lock's holder writes, with a script of this digest.
    CheckInLua(String),
    /// The client with the largest fence so far writes.
    Fenced,
    /// The client with the largest fence so far writes, with a script of this digest.
    CompareInLua(String),
}

impl Write {
    fn name(&self) -> &'static str {
        match self {
            Write::Plain => "SET",
            Write::Passed => "a module that passes SET on",
            Write::CheckInLua(_) => "EVALSHA with CHECK, SET",
            Write::Fenced => "FENCED + SET",
            Write::CompareInLua(_) => "EVALSHA with GET, SET, SET",
        }
    }

    fn push(&self, to: &mut Vec<u8>, number: u64, fence: u64) {
        let [lock, mark, data] = ["lock", "mark", "data"].map(|what| key(what, number));
        let fence = fence.to_string();
        match self {
            Write::Plain => push(to, &["SET", &data, VALUE]),
            Write::Passed => push(to, &["CALLER.PASS", &lock, "SET", &data, VALUE]),
            Write::CheckInLua(sha) => push(to, &["EVALSHA", sha, "2", &lock, &data, TOKEN, VALUE]),
            Write::Fenced => push(to, &["DLOCK.FENCED", &mark, &fence, "SET", &data, VALUE]),
            Write::CompareInLua(sha) => {
                // The marks of the other side are no strings.
                let mark = key("text", number);
                push(to, &["EVALSHA", sha, "2", &mark, &data, &fence, VALUE]);
            }
        }
    }
}

const VALUE: &str = "a value of thirty-two characters";

fn key(what: &str, number: u64) -> String {
    format!("bench:{what}:{number:09}")
}

/// Both commands, in batches and one at a time, and marks.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let server = server(kind);
    let script = |text: &str| server.client().run_args(&["SCRIPT", "LOAD", text]).text();
    let in_lua =
        [Write::CheckInLua(script(CHECK_AND_SET)), Write::CompareInLua(script(COMPARE_AND_SET))];
    let [check, compare] = in_lua;
    let most = |most| Target::AtMost(most);
    for (ours, theirs, in_batches, one_by_one) in [
        (Write::Passed, Write::Plain, Target::None, Target::None),
        (check, Write::Plain, Target::None, Target::None),
        (Write::Fenced, Write::Plain, Target::None, most(1.25)),
        (Write::Fenced, compare, most(0.45), most(1.0)),
    ] {
        report.attempt(ours.name(), |report| {
            let [figures] = batches(&server, options.rounds(48), &ours, &theirs);
            report.add(kind, Row::compared(ours.name(), theirs.name(), "µs", figures, in_batches));
        });
        let what = format!("{}, no pipeline, {CLIENTS} clients", ours.name());
        report.attempt(&what, |report| {
            let [figures] = singly(&server, options.rounds(16), &ours, &theirs);
            report.add(kind, Row::compared(&what, theirs.name(), "µs", figures, one_by_one));
        });
    }
    drop(server);
    marks(kind, options, report);
}

/// Starts a server with a lock for each value, all held by the same client.
fn server(kind: Kind) -> Server {
    let server = Server::build(kind).config(&load_caller()).start();
    let mut pipe = Pipe::new(&server);
    for number in 0..KEYS {
        pipe.exchange(&request(&["DLOCK.ACQUIRE", &key("lock", number), TOKEN, "3600000"]), 1);
    }
    server
}

/// Loads the module that does as little as one can.
fn load_caller() -> String {
    format!("loadmodule {}", module_file::caller().display())
}

/// Each write shows a fence that nobody has shown before: marks rise every time.
fn batches(server: &Server, rounds: usize, ours: &Write, theirs: &Write) -> [Compared; 1] {
    let mut fence = next_fence(server);
    let mut operation = |write: &Write, random: &mut Random, requests: &mut Vec<u8>| {
        fence += 1;
        write.push(requests, random.below(KEYS), fence);
    };
    let mut sides = [ours, theirs].map(|_| Pipelined::new(server, 1, |_, to| push(to, &["PING"])));
    in_turns(rounds, |side| {
        let write = if side == Side::Ours { ours } else { theirs };
        let pipelined = &mut sides[side as usize];
        pipelined.renew(|random, requests| operation(write, random, requests));
        [pipelined.cpu_of_all(server)]
    })
}

/// A client shows the same fence each time, as a holder does that writes more than once.
fn singly(server: &Server, rounds: usize, ours: &Write, theirs: &Write) -> [Compared; 1] {
    let fence = next_fence(server);
    let client = |write: &Write| {
        OneByOne::new(server, |_, client| {
            let mut requests = Vec::new();
            write.push(&mut requests, client as u64, fence);
            vec![requests]
        })
    };
    let (mut ours, mut theirs) = (client(ours), client(theirs));
    in_turns(rounds, |side| match side {
        Side::Ours => [ours.cpu(server, 30)],
        Side::Theirs => [theirs.cpu(server, 30)],
    })
}

/// Beyond all that were shown to this server, for the next few million.
fn next_fence(server: &Server) -> u64 {
    let rows = server.client().run("INCR bench:rows").int() as u64;
    FENCE + rows * 100_000_000
}

fn marks(kind: Kind, options: &Options, report: &mut Report) {
    let what = "memory of a mark";
    report.attempt(what, |report| {
        let [ours, theirs] = [mark, string].map(|make| per_key(&Server::start(kind), make));
        let figures = Compared::once(ours, theirs);
        let against = "a string of 16 bytes";
        report.add(kind, Row::compared(what, against, "B", figures, Target::AtMost(1.15)));
    });
    let what = "restart with 1,000,000 marks";
    report.attempt(what, |report| {
        let bare = Server::build(kind).without_module().config(&load_caller()).start();
        let mut servers = [(Server::start(kind), mark as Make), (bare, bare_type)];
        for (server, make) in &servers {
            fill(&mut Pipe::new(server), 0..MARKS, *make);
            assert_eq!(server.run("SAVE").text(), "OK");
        }
        let [figures] =
            in_turns(options.rounds(6), |side| [restart(&mut servers[side as usize].0)]);
        let against = "a bare module type";
        report.add(kind, Row::compared(what, against, "ms", figures, Target::AtMost(1.2)));
    });
}

/// The request that makes one, answered in one line.
type Make = fn(&mut Vec<u8>, &str);

fn mark(to: &mut Vec<u8>, key: &str) {
    push(to, &["DLOCK.FENCED", key, &FENCE.to_string()]);
}

fn string(to: &mut Vec<u8>, key: &str) {
    push(to, &["SET", key, "sixteen letters."]);
}

fn bare_type(to: &mut Vec<u8>, key: &str) {
    push(to, &["CALLER.KEEP", key, &FENCE.to_string()]);
}

fn per_key(server: &Server, make: Make) -> f64 {
    // Connected before and after, so that its buffers do not count.
    let mut pipe = Pipe::new(server);
    fill(&mut pipe, 0..1000, make);
    let before = used_memory(server);
    fill(&mut pipe, 1000..1000 + MARKS, make);
    (used_memory(server) - before) as f64 / MARKS as f64
}

fn fill(pipe: &mut Pipe, numbers: std::ops::Range<u64>, make: Make) {
    let numbers: Vec<u64> = numbers.collect();
    for part in numbers.chunks(100) {
        let mut requests = Vec::new();
        part.iter().for_each(|number| make(&mut requests, &key("mark", *number)));
        pipe.exchange(&requests, part.len());
    }
}
