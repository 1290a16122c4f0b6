//! One scenario under way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dlock_client::{Client, Error, Guard, Key, Lease, Lock, NodeError, NodeState, Notice};
use futures_util::future::join_all;
use harness::library::ms;
use harness::{Server, Value, eventually};
use serde_json::Value as Json;
use tokio::task::JoinHandle;

use crate::judge;

pub struct Run {
    pub servers: Vec<Server>,
    client: Client,
    keys: Keys,
    guards: BTreeMap<String, Guard>,
    pub fences: BTreeMap<String, u64>,
    waits: BTreeMap<String, JoinHandle<Result<Guard, Error>>>,
    recipes: BTreeMap<String, Lock>,
    leases: BTreeMap<String, Lease>,
    /// The client's events, and their locks.
    told: Arc<Mutex<Vec<Event>>>,
}

type Event = (&'static str, Option<Key>);

impl Run {
    pub fn new(servers: Vec<Server>, scenario: &str, node_timeout: Duration) -> Run {
        let urls = servers.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
        let told: Arc<Mutex<Vec<Event>>> = Arc::default();
        let listener = Arc::clone(&told);
        let tell = move |notice: &Notice| {
            let key = match notice {
                Notice::Outage { key, .. } | Notice::Back { key } => Some(key.clone()),
                _ => None,
            };
            listener.lock().unwrap().push((notice.name(), key));
        };
        let client = Client::builder().nodes(urls).node_timeout(node_timeout).notify(tell);
        let (guards, fences, waits) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (recipes, leases) = (BTreeMap::new(), BTreeMap::new());
        let keys = Keys::of(scenario);
        let client = client.connect_later().unwrap();
        Run { servers, client, keys, guards, fences, waits, recipes, leases, told }
    }

    pub async fn step(&mut self, step: &Json) {
        // `extend` has a `ttl`, too: that is the last.
        let verb = VERBS.iter().find(|verb| !step[**verb].is_null()).expect("a step has a verb");
        let name = step[*verb].as_str().unwrap_or_default().to_owned();
        let number = || usize::try_from(step[*verb].as_u64().unwrap()).unwrap();
        match *verb {
            "lock" => self.lock(step).await,
            "try" => self.try_acquire(step).await,
            "begin" => {
                let lock = self.wanted(&step["begin"], &step["options"]);
                let wait = tokio::spawn(acquire(lock, step["options"]["wait"].as_u64()));
                self.waits.insert(text(&step["as"]), wait);
            }
            "end" => {
                let outcome = self.waits.remove(&name).unwrap().await.unwrap();
                self.keep_or_judge(&name, outcome, step);
            }
            "cancel" => self.waits[&name].abort(),
            "recipe" => {
                let lock = self.wanted(&step["recipe"], &step["options"]);
                self.recipes.insert(text(&step["as"]), lock);
            }
            "acquire" => {
                let outcome = acquire(self.recipes[&name].clone(), step["wait"].as_u64()).await;
                self.keep_or_judge(&text(&step["as"]), outcome, step);
            }
            "detach" | "extendLease" | "releaseLease" => self.lease(verb, &name, step).await,
            "inspect" => self.inspect(step).await,
            "hears" => self.hears(step),
            "release" | "extend" | "done" | "check" | "lost" | "ttl" => {
                self.guard(verb, &name, step).await
            }
            "grows" => {
                let fences: Vec<u64> =
                    strings(&step["grows"]).iter().map(|name| self.fences[name]).collect();
                assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
            }
            "forget" => drop(self.guards.remove(&name)),
            "block" => thread::sleep(ms(step["block"].as_u64().unwrap())),
            "sees" => sees(asked(&self.servers, step), &self.keys, step),
            "run" => self.run(step),
            "crowd" => self.crowd(step).await,
            "connect" => {
                let refused = Client::builder().nodes([name]).connect_later();
                judge::error(self, &refused.unwrap_err(), &step["fails"]);
            }
            "kill" => self.servers[number() - 1].kill(),
            "start" => self.servers[number() - 1].start_again(),
            "pause" => self.servers[number() - 1].pause(),
            "resume" => self.servers[number() - 1].resume(),
            _ => unreachable!("it is one of the verbs"),
        }
    }

    async fn lock(&mut self, step: &Json) {
        let lock = self.wanted(&step["lock"], &step["options"]);
        let outcome = acquire(lock, step["options"]["wait"].as_u64()).await;
        self.keep_or_judge(&text(&step["as"]), outcome, step);
    }

    async fn try_acquire(&mut self, step: &Json) {
        match self.wanted(&step["try"], &step["options"]).try_acquire().await {
            Ok(guard) if step["got"] == true => self.keep(&text(&step["as"]), guard),
            Err(Error::Held { .. }) if step["got"] == false => {}
            other => panic!("{other:?}"),
        }
    }

    /// A step with a guard. A released guard is gone: the compiler refuses to use it.
    async fn guard(&mut self, verb: &str, name: &str, step: &Json) {
        let Some(guard) = self.guards.get(name) else {
            let why = step["fails"]["why"].as_str().expect("it is not there any more");
            return assert!(["released", "detached"].contains(&why), "{why}");
        };
        let outcome = match verb {
            "release" => {
                let guard = self.guards.remove(name).unwrap();
                guard.release().await.map(drop).map_err(Error::from)
            }
            "extend" => guard.extend(ms(step["ttl"].as_u64().unwrap())).await,
            "done" => {
                let outcome = step["outcome"].as_str().unwrap_or_default();
                guard.done(ms(step["window"].as_u64().unwrap()), outcome).await
            }
            "check" if guard.is_valid() => Ok(()),
            "check" => Err(guard.lost().await.into()),
            "lost" => return judge::one_of(&step["why"], guard.lost().await.why.name()),
            _ => return assert_eq!(step["is"], u64::try_from(guard.ttl().as_millis()).unwrap()),
        };
        self.judge(outcome, step);
    }

    fn keep_or_judge(&mut self, name: &str, outcome: Result<Guard, Error>, step: &Json) {
        match outcome {
            Ok(guard) if step["fails"].is_null() => self.keep(name, guard),
            outcome => self.judge(outcome.map(drop), step),
        }
    }

    fn keep(&mut self, name: &str, guard: Guard) {
        self.fences.insert(name.to_owned(), guard.fence());
        self.guards.insert(name.to_owned(), guard);
    }

    fn judge(&self, outcome: Result<(), Error>, step: &Json) {
        match (outcome, &step["fails"]) {
            (Ok(()), Json::Null) => {}
            (Err(error), fails) if !fails.is_null() => judge::error(self, &error, fails),
            (outcome, _) => panic!("{outcome:?}"),
        }
    }

    fn wanted(&self, key: &Json, options: &Json) -> Lock {
        let mut lock = self.client.lock(Key::from(self.key(key)));
        if let Some(ttl) = options["ttl"].as_u64() {
            lock = lock.ttl(ms(ttl));
        }
        if options["shared"] == true {
            lock = lock.shared();
        }
        if let Some(limit) = options["limit"].as_u64() {
            lock = lock.limit(u16::try_from(limit).unwrap());
        }
        if options["renew"] == false {
            lock = lock.unrenewed();
        }
        if options["again"] == true {
            lock = lock.again();
        }
        if let Some(max_hold) = options["maxHold"].as_u64() {
            lock = lock.max_hold(ms(max_hold));
        }
        match (options["meta"].as_str(), options["meta"]["length"].as_u64()) {
            (Some(meta), _) => lock.meta(meta),
            (None, Some(length)) => lock.meta("x".repeat(usize::try_from(length).unwrap())),
            (None, None) => lock,
        }
    }

    /// A step with a lock that is used by its token alone.
    async fn lease(&mut self, verb: &str, name: &str, step: &Json) {
        if verb == "detach" {
            let lease = self.guards.remove(name).unwrap().detach().await.expect("it is held");
            return drop(self.leases.insert(text(&step["as"]), lease));
        }
        let Lease { key, token, fence, .. } = &self.leases[name];
        if verb == "releaseLease" {
            let outcome = self.client.release(key, token).await;
            if let Ok(was) = outcome {
                assert_eq!(step["was"], was);
            }
            return self.judge(outcome.map(drop), step);
        }
        let ttl = ms(step["ttl"].as_u64().unwrap());
        let outcome = self.client.extend(key, token, *fence, ttl).await;
        if let Ok(lease) = &outcome {
            assert_eq!((&lease.key, &lease.token, lease.fence), (key, token, *fence));
            assert!(!lease.valid_for.is_zero());
        }
        self.judge(outcome.map(drop), step);
    }

    async fn inspect(&self, step: &Json) {
        let answers = match self.client.inspect(self.key(&step["inspect"])).await {
            Ok(answers) => answers,
            Err(error) => return self.judge(Err(error), step),
        };
        self.judge(Ok(()), step);
        for (at, (_, answer)) in answers.iter().enumerate() {
            let lock = answer.as_ref().ok().and_then(Option::as_ref);
            assert_eq!(step["modes"][at], Json::from(lock.map(|lock| lock.mode.as_str())));
            let count = |number: Option<u64>| answer.as_ref().ok().map(|_| number.unwrap_or(0));
            let holders = count(lock.map(|lock| lock.holders.len() as u64));
            assert_eq!(step["holders"][at], Json::from(holders));
            assert_eq!(step["waiting"][at], Json::from(count(lock.map(|lock| lock.waiting))));
            if let (Some(first), Some(lock)) = (step["first"].as_str(), lock) {
                assert_eq!(lock.holders[0].meta, first.as_bytes());
            }
            judge_state(step, at, answer.as_ref().err());
        }
    }

    fn hears(&self, step: &Json) {
        let key = Key::from(self.key(&step["key"]));
        eventually(&step.to_string(), || {
            let told = self.told.lock().unwrap();
            told.iter()
                .any(|(event, about)| step["hears"] == *event && about.as_ref() == Some(&key))
        });
    }

    fn run(&self, step: &Json) {
        let server = asked(&self.servers, step);
        let words: Vec<Vec<u8>> = step["run"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(at, word)| self.word(at, word, step))
            .collect();
        judge::reply(&server.client().run_args(&words), step);
    }

    fn word(&self, at: usize, word: &Json, step: &Json) -> Vec<u8> {
        match (word["fence"].as_str(), word["token"].as_str()) {
            (Some(name), _) => self.fences[name].to_string().into_bytes(),
            (_, Some(name)) => self.guards[name].token().as_str().as_bytes().to_vec(),
            _ => self.keys.word(at, word, step),
        }
    }

    async fn crowd(&self, step: &Json) {
        let (held, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let work = |_| async {
            for _ in 0..step["turns"].as_u64().unwrap() {
                let guard = self.wanted(&step["crowd"], &Json::Null).acquire().await.unwrap();
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(ms(1)).await;
                held.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        };
        join_all((0..step["clients"].as_u64().unwrap()).map(work)).await;
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    pub fn key(&self, key: &Json) -> Vec<u8> {
        self.keys.key(key)
    }
}

/// The keys of a scenario, which are its own.
pub struct Keys {
    prefix: String,
}

impl Keys {
    pub fn of(scenario: &str) -> Keys {
        Keys { prefix: format!("{}:", scenario.replace(' ', "-")) }
    }

    /// A key with this scenario's prefix. The empty key has none.
    pub fn key(&self, key: &Json) -> Vec<u8> {
        let name = match (key.as_str(), key["hex"].as_str()) {
            (Some(""), _) => return Vec::new(),
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, hex) => bytes(hex.expect("a key is text or hex")),
        };
        [self.prefix.as_bytes(), &name].concat()
    }

    /// A word of a command. The first one of most commands is a key.
    pub fn word(&self, at: usize, word: &Json, step: &Json) -> Vec<u8> {
        let is_keyed = step["run"][0] != "CLIENT" && step["run"][0] != "CONFIG";
        match word.as_str().expect("it is text") {
            "data" => self.key(word),
            _ if at == 1 && is_keyed => self.key(word),
            text => text.as_bytes().to_vec(),
        }
    }
}

/// The node of a step: the first, unless it names another.
pub fn asked<'s>(servers: &'s [Server], step: &Json) -> &'s Server {
    &servers[step["node"].as_u64().map_or(0, |node| node as usize - 1)]
}

/// Waits until a node reports these numbers.
pub fn sees(server: &Server, keys: &Keys, step: &Json) {
    let words = [b"DLOCK.INSPECT".to_vec(), keys.key(&step["sees"])];
    eventually(&step.to_string(), || {
        let seen = server.client().run_args(&words);
        let count = |field| match &seen {
            Value::Null => 0,
            seen if field == "holders" => seen.at(field).items().len(),
            seen => usize::try_from(seen.at(field).int()).unwrap(),
        };
        let same = |field| step[field].is_null() || step[field] == count(field);
        same("holders") && same("waiting")
    });
}

async fn acquire(lock: Lock, wait: Option<u64>) -> Result<Guard, Error> {
    match wait {
        None => lock.acquire().await,
        Some(wait) => lock.acquire_within(ms(wait)).await,
    }
}

fn judge_state(step: &Json, node: usize, error: Option<&NodeError>) {
    let state = error.map(|error| NodeState::from(error.clone()).name());
    assert_eq!(step["states"][node], Json::from(state));
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(pair).collect()
}

pub fn text(word: &Json) -> String {
    word.as_str().unwrap().to_owned()
}

pub fn strings(words: &Json) -> Vec<String> {
    words.as_array().unwrap().iter().map(text).collect()
}

/// The verbs of the steps.
pub const VERBS: [&str; 29] = [
    "lock",
    "try",
    "begin",
    "end",
    "cancel",
    "recipe",
    "acquire",
    "release",
    "extend",
    "done",
    "check",
    "lost",
    "detach",
    "extendLease",
    "releaseLease",
    "inspect",
    "hears",
    "grows",
    "forget",
    "block",
    "sees",
    "run",
    "crowd",
    "connect",
    "kill",
    "start",
    "pause",
    "resume",
    "ttl",
];
