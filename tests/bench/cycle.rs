//! A lock is taken and released, by one client after the other: the module's two commands against the usual
//! recipe.

use harness::client::request;
use harness::{Kind, Server};

use crate::clients::Pipelined;
use crate::load::{COMPARE_AND_DELETE, Random, TTL, key};
use crate::measure::{Side, in_turns};
use crate::options::Options;
use crate::report::{Report, Row, Target};

/// One of this many locks is picked at random each time.
const KEYS: u64 = 1000;

/// The commands for taking and releasing a lock.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// DLOCK.ACQUIRE and DLOCK.RELEASE.
    Module,
    /// SET NX PX and a script that compares and deletes, by its digest.
    Script(String),
    /// SET NX PX and DELIFEQ.
    DelIfEq,
}

impl Recipe {
    /// The usual recipe, with its script loaded.
    pub fn script(server: &Server) -> Recipe {
        let loaded = server.client().run_args(&["SCRIPT", "LOAD", COMPARE_AND_DELETE]);
        Recipe::Script(loaded.text())
    }

    /// The newer recipe, if the server has the command.
    fn del_if_eq(server: &Server) -> Option<Recipe> {
        let known = server.run("COMMAND INFO DELIFEQ");
        (!known.items()[0].is_null()).then_some(Recipe::DelIfEq)
    }

    fn name(&self) -> &'static str {
        match self {
            Recipe::Module => "ACQUIRE + RELEASE",
            Recipe::Script(_) => "SET NX PX + EVALSHA",
            Recipe::DelIfEq => "SET NX PX + DELIFEQ",
        }
    }

    /// The request that takes a lock.
    pub fn take(&self, to: &mut Vec<u8>, key: &str, token: &str, ttl: &str) {
        match self {
            Recipe::Module => to.extend(request(&["DLOCK.ACQUIRE", key, token, ttl])),
            _ => to.extend(request(&["SET", key, token, "NX", "PX", ttl])),
        }
    }

    /// The request that gives it back.
    pub fn give(&self, to: &mut Vec<u8>, key: &str, token: &str) {
        match self {
            Recipe::Module => to.extend(request(&["DLOCK.RELEASE", key, token])),
            Recipe::Script(digest) => to.extend(request(&["EVALSHA", digest, "1", key, token])),
            Recipe::DelIfEq => to.extend(request(&["DELIFEQ", key, token])),
        }
    }
}

/// Both commands, with and without an append-only file.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let recipes: [fn(&Server) -> Option<Recipe>; 2] =
        [|server| Some(Recipe::script(server)), Recipe::del_if_eq];
    for with_file in [false, true] {
        let file = if with_file { ", AOF everysec" } else { "" };
        for recipe in recipes {
            let what = format!("cycle{file}");
            report.attempt(&what, |report| {
                let server = start(kind, with_file);
                let Some(other) = recipe(&server) else { return };
                let [mut ours, mut theirs] =
                    [&Recipe::Module, &other].map(|recipe| pipelined(&server, recipe, usual_ttl));
                let figures = in_turns(options.rounds(48), |side| match side {
                    Side::Ours => ours.cpu(&server, 80),
                    Side::Theirs => theirs.cpu(&server, 80),
                });
                let target = target(kind, &other, with_file);
                report.add(Row::compared(&what, other.name(), "µs", figures, target));
            });
        }
    }
}

fn start(kind: Kind, with_file: bool) -> Server {
    let mut server = Server::build(kind);
    if with_file {
        server = server
            .config("appendonly yes")
            .config("appendfsync everysec")
            .config("auto-aof-rewrite-percentage 0");
    }
    server.start()
}

fn target(kind: Kind, other: &Recipe, with_file: bool) -> Target {
    match (kind, other) {
        (_, Recipe::Script(_)) if with_file => Target::AtMost(0.6),
        (Kind::Redis70 | Kind::Redis82, Recipe::Script(_)) => Target::AtMost(0.65),
        (Kind::Valkey91, Recipe::DelIfEq) => Target::AtMost(1.0),
        _ => Target::None,
    }
}

/// Locks that are taken and given back in a pipeline, with leases of the given length.
pub fn pipelined(
    server: &Server,
    recipe: &Recipe,
    ttl: impl Fn(&mut Random) -> String,
) -> Pipelined {
    Pipelined::new(server, 2, |random, requests| {
        let (key, token) = (key(random.below(KEYS)), random.token());
        recipe.take(requests, &key, &token, &ttl(random));
        recipe.give(requests, &key, &token);
    })
}

/// The usual length of a lease.
fn usual_ttl(_: &mut Random) -> String {
    TTL.to_owned()
}
