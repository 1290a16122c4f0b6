//! The scenarios once more, over plain RESP: as a program in any language sees them through `dlock agent`.
//!
//! A guard is a connection of its own with a lock that is `EPHEMERAL RENEW`; a detached one is a plain lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Agent, Client, Server, Value, eventually, library};
use serde_json::Value as Json;

use crate::judge;
use crate::run::{Keys, VERBS, asked, sees, strings, text};

/// Plays a scenario, if an agent can have a part in it.
pub fn play(scenario: &Json, servers: Vec<Server>) -> Vec<Server> {
    if is_for_others(scenario) {
        return servers;
    }
    let mut run = Run::new(scenario, servers);
    for (at, step) in scenario["steps"].as_array().expect("it has steps").iter().enumerate() {
        println!("  step {}: {step}", at + 1);
        run.step(step);
    }
    run.servers
}

/// Scenarios about what an agent leaves to libraries: semaphores, limits of a hold, addresses, and notices
/// in the program; about a lock that ends with the connection to a node; about passwords, without which an agent does not
/// start; and about a window that counts from the acquisition.
fn is_for_others(scenario: &Json) -> bool {
    let has = |step: &Json| {
        let options = &step["options"];
        let verbs = ["connect", "hears"];
        !options["limit"].is_null()
            || !options["maxHold"].is_null()
            || verbs.iter().any(|verb| !step[*verb].is_null())
            || ["CLIENT", "CONFIG"].iter().any(|command| step["run"][0] == *command)
    };
    let name = "a window that ends before the work leaves the lock free";
    scenario["name"] == name
        || scenario["steps"].as_array().is_some_and(|steps| steps.iter().any(has))
}

struct Run {
    servers: Vec<Server>,
    keys: Keys,
    node_timeout: String,
    /// Started at the first need: nodes may fail before.
    agent: Option<(Agent, Client)>,
    /// The losses that the agent has announced.
    told: Vec<Json>,
    held: BTreeMap<String, Held>,
    fences: BTreeMap<String, u64>,
    /// Names of guards that a later step detaches.
    detached: Vec<String>,
    /// Names of the clients that left their locks done.
    done: Vec<String>,
    /// Names of the detached locks that were released, once.
    released: Vec<String>,
    recipes: BTreeMap<String, (Json, Json)>,
    tokens: u64,
}

/// A lock, held or wanted, and its client's connection.
struct Held {
    client: Client,
    key: Vec<u8>,
    token: String,
}

impl Run {
    fn new(scenario: &Json, servers: Vec<Server>) -> Run {
        let steps = scenario["steps"].as_array().expect("it has steps");
        let detached = steps.iter().filter_map(|step| step["detach"].as_str());
        let millis = scenario["nodeTimeout"].as_u64().unwrap_or(10_000);
        Run {
            servers,
            keys: Keys::of(scenario["name"].as_str().expect("it has a name")),
            node_timeout: format!("{millis}ms"),
            agent: None,
            told: Vec::new(),
            held: BTreeMap::new(),
            fences: BTreeMap::new(),
            detached: detached.map(str::to_owned).collect(),
            done: Vec::new(),
            released: Vec::new(),
            recipes: BTreeMap::new(),
            tokens: 0,
        }
    }

    fn step(&mut self, step: &Json) {
        let verb = VERBS.iter().find(|verb| !step[**verb].is_null()).expect("a step has a verb");
        let name = step[*verb].as_str().unwrap_or_default().to_owned();
        let node = || usize::try_from(step[*verb].as_u64().expect("a number")).expect("a node") - 1;
        match *verb {
            "lock" | "begin" | "try" => {
                let wait = if *verb == "try" { Some(0) } else { step["options"]["wait"].as_u64() };
                let held = self.ask(&text(&step["as"]), &step[*verb], &step["options"], wait);
                self.held.insert(text(&step["as"]), held);
                if *verb != "begin" {
                    self.hear(&text(&step["as"]), step);
                }
            }
            "end" => self.hear(&name, step),
            "cancel" | "forget" => self.held.remove(&name).expect("it is there").client.close(),
            "recipe" => {
                let recipe = (step["recipe"].clone(), step["options"].clone());
                self.recipes.insert(text(&step["as"]), recipe);
            }
            "acquire" => {
                let (key, options) = self.recipes[&name].clone();
                let held = self.ask(&text(&step["as"]), &key, &options, step["wait"].as_u64());
                self.held.insert(text(&step["as"]), held);
                self.hear(&text(&step["as"]), step);
            }
            "release" | "extend" | "done" | "check" | "extendLease" | "releaseLease" => {
                self.with_token(verb, &name, step);
            }
            "detach" => {
                let held = self.held.remove(&name).expect("it is held");
                self.held.insert(text(&step["as"]), held);
            }
            "lost" => self.lost(&name, step),
            "grows" => {
                let all = strings(&step["grows"]);
                let fences: Vec<u64> = all.iter().map(|name| self.fences[name]).collect();
                assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
            }
            "block" => thread::sleep(library::ms(step["block"].as_u64().expect("a number"))),
            "sees" => sees(asked(&self.servers, step), &self.keys, step),
            "run" => self.run(step),
            "crowd" => self.crowd(step),
            "kill" => self.servers[node()].kill(),
            "start" => self.servers[node()].start_again(),
            "pause" => self.servers[node()].pause(),
            "resume" => self.servers[node()].resume(),
            // An agent reports neither holders nor the lengths of leases.
            "inspect" | "ttl" => {}
            other => unreachable!("{other} is for others"),
        }
    }

    /// The agent, and a connection for notices of losses.
    fn agent(&mut self) -> &mut (Agent, Client) {
        let nodes = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        let (nodes, timeout): (Vec<String>, _) = (nodes.collect(), self.node_timeout.clone());
        self.agent.get_or_insert_with(|| {
            let agent = Agent::with(&nodes, &["--node-timeout", &timeout]);
            let mut losses = agent.client();
            losses.run("SUBSCRIBE dlock:lost");
            (agent, losses)
        })
    }

    /// Asks for a lock over a connection of its own.
    fn ask(&mut self, name: &str, key: &Json, options: &Json, wait: Option<u64>) -> Held {
        let key = self.keys.key(key);
        self.tokens += 1;
        let token = format!("{name}-{}", self.tokens);
        let ttl = options["ttl"].as_u64().unwrap_or(30_000).to_string();
        let mut words = vec![b"DLOCK.ACQUIRE".to_vec(), key.clone()];
        let mut say = |word: &str| words.push(word.as_bytes().to_vec());
        say(&token);
        say(&ttl);
        if wait != Some(0) {
            // No limit is zero.
            say("WAIT");
            say(&wait.unwrap_or(0).to_string());
        }
        if options["shared"] == true {
            say("SHARED");
        }
        if options["again"] == true {
            say("AGAIN");
            say(LARGEST_FENCE);
        }
        let is_plain = options["renew"] == false || self.detached.iter().any(|one| one == name);
        if !is_plain {
            say("EPHEMERAL");
            say("RENEW");
        }
        let length = options["meta"]["length"].as_u64().map(|length| "x".repeat(length as usize));
        if let Some(meta) = options["meta"].as_str().map(str::to_owned).or(length) {
            say("META");
            say(&meta);
        }
        let mut client = self.agent().0.client();
        client.send_args(&words);
        Held { client, key, token }
    }

    /// Reads the reply to an ACQUIRE.
    fn hear(&mut self, name: &str, step: &Json) {
        let reply = self.held.get_mut(name).expect("it was asked for").client.recv();
        let code = code(&reply);
        if step["got"] == false || !step["fails"].is_null() {
            let wanted =
                if step["got"] == false { &Json::from("held") } else { &step["fails"]["code"] };
            judge::one_of(wanted, code.expect("it fails"));
            let asked = self.held.remove(name).expect("it was asked for");
            if let Some(by) = step["fails"]["by"].as_str() {
                self.judge_done(&asked.key, by, &reply.text(), &step["fails"]["outcome"]);
            }
        } else {
            self.fences.insert(name.to_owned(), reply.int().unsigned_abs());
        }
    }

    /// A done lock names its last holder, and DLOCK.INSPECT shows the outcome.
    fn judge_done(&mut self, key: &[u8], by: &str, said: &str, outcome: &Json) {
        let fence = said.split(' ').nth(2).and_then(|word| word.parse().ok());
        assert_eq!(fence, Some(self.fences[by]), "{said}");
        let found = self.servers[0].client().run_args(&[b"DLOCK.INSPECT".to_vec(), key.to_vec()]);
        let meta = found.at("meta").text();
        assert!(meta.ends_with(outcome.as_str().expect("it is text")), "{meta}");
    }

    /// Extends, releases or checks a lock by its token.
    fn with_token(&mut self, verb: &str, name: &str, step: &Json) {
        let fails = step["fails"]["code"].as_str();
        let Some(held) = self.held.get_mut(name) else {
            return assert_eq!(fails, Some("lost"), "it is not there any more");
        };
        let mut words = vec![held.key.clone(), held.token.clone().into_bytes()];
        let command = match verb {
            "check" => "DLOCK.CHECK",
            "extend" | "extendLease" => {
                words.push(step["ttl"].to_string().into_bytes());
                "DLOCK.EXTEND"
            }
            "done" => {
                let (window, outcome) = (step["window"].to_string(), &step["outcome"]);
                let outcome = outcome.as_str().unwrap_or_default();
                let terms = ["DONE", &window, "META", outcome].map(|word| word.as_bytes().to_vec());
                words.extend(terms);
                "DLOCK.RELEASE"
            }
            _ => "DLOCK.RELEASE",
        };
        words.insert(0, command.as_bytes().to_vec());
        let reply = held.client.run_args(&words);
        if verb == "release" {
            self.held.remove(name);
        }
        let was_done = self.done.iter().any(|done| done == name);
        let was_released = self.released.iter().any(|released| released == name);
        match (fails, &reply) {
            // The agent asks no node about a token that it has released.
            (Some("no_quorum"), _) if was_released => assert_eq!(reply, Value::Int(0)),
            // Its token no longer holds, but the agent repeats the success of DONE.
            (None, _) if was_done => assert_eq!(reply, Value::Int((verb == "done").into())),
            (Some("no_quorum"), _) => assert_eq!(code(&reply), Some("no_quorum"), "{reply:?}"),
            (Some("usage"), _) => assert_eq!(code(&reply), Some("usage"), "{reply:?}"),
            (Some(_), _) => assert!([Value::Int(0), Value::Null].contains(&reply), "{reply:?}"),
            (None, Value::Int(was)) if verb == "releaseLease" => assert_eq!(step["was"], *was == 1),
            (None, _) => assert!(reply.is_int() && reply != Value::Int(0), "{reply:?}"),
        }
        if verb == "done" && fails.is_none() {
            self.done.push(name.to_owned());
        }
        if verb == "releaseLease" {
            self.released.push(name.to_owned());
        }
    }

    /// Waits until the agent announces the loss.
    fn lost(&mut self, name: &str, step: &Json) {
        let key = String::from_utf8(self.held[name].key.clone()).expect("its name is text");
        let fence = self.fences[name];
        eventually(&step.to_string(), || {
            let heard = self.agent().1.recv_within(Duration::from_millis(100));
            self.told.extend(heard.map(|message| {
                serde_json::from_str(&message.items()[2].text()).expect("it is an object")
            }));
            self.told.iter().any(|loss| {
                let is_this = loss["key"] == key && loss["fence"] == fence;
                if is_this {
                    judge::one_of(&step["why"], loss["why"].as_str().expect("a word"));
                }
                is_this
            })
        });
    }

    /// The token that the agent has at the first node for a holder. The fence there is the holder's, too.
    fn at_node(&self, name: &str) -> Vec<u8> {
        let tokens = [b"DLOCK.TOKENS".to_vec(), self.held[name].key.clone()];
        let holders = self.servers[0].client().run_args(&tokens).at("holders");
        let fence = Value::Int(self.fences[name].cast_signed());
        let its = holders.items().iter().find(|holder| holder.at("fence") == fence);
        its.expect("it holds the lock").at("token").bytes().to_vec()
    }

    fn run(&self, step: &Json) {
        let server = asked(&self.servers, step);
        let words = step["run"].as_array().expect("it has words").iter().enumerate();
        let words: Vec<Vec<u8>> = words
            .map(|(at, word)| match (word["fence"].as_str(), word["token"].as_str()) {
                (Some(name), _) => self.fences[name].to_string().into_bytes(),
                (_, Some(name)) => self.at_node(name),
                _ => self.keys.word(at, word, step),
            })
            .collect();
        judge::reply(&server.client().run_args(&words), step);
    }

    fn crowd(&mut self, step: &Json) {
        let key = String::from_utf8(self.keys.key(&step["crowd"])).expect("its name is text");
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let agent = &self.agent().0;
        thread::scope(|scope| {
            for client in 0..step["clients"].as_u64().expect("a number") {
                let (key, held, most) = (&key, &held, &most);
                let turns = step["turns"].as_u64().expect("a number");
                scope.spawn(move || {
                    let mut connection = agent.client();
                    for turn in 0..turns {
                        let token = format!("{client}-{turn}");
                        connection.run(&format!("DLOCK.ACQUIRE {key} {token} 30000 WAIT 0")).int();
                        most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(library::ms(1));
                        held.fetch_sub(1, Ordering::SeqCst);
                        let released = connection.run(&format!("DLOCK.RELEASE {key} {token}"));
                        assert_eq!(released, Value::Int(1));
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}

/// The kind of an error, as libraries name it.
fn code(reply: &Value) -> Option<&'static str> {
    match reply {
        Value::Int(_) => None,
        Value::Null => Some("held"),
        other => Some(match other.text().split(' ').next().unwrap_or_default() {
            "NOQUORUM" | "QUARANTINE" => "no_quorum",
            "DONE" => "done",
            "ERR" => "usage",
            _ => "refused",
        }),
    }
}

const LARGEST_FENCE: &str = "9007199254740991";
