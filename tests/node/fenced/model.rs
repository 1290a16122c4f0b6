//! Random requests to DLOCK.FENCED, beside a model of what they mean.

use std::collections::BTreeMap;

use harness::{Kind, Server, Value, apply, on_two_servers, seed};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const REQUESTS: usize = 3000;
const MARKS: [&str; 3] = ["m1", "m2", "m3"];
const KEYS: [&str; 3] = ["k1", "k2", "k3"];

/// The result of a request, as far as the model tells.
#[derive(Debug, PartialEq)]
enum Said {
    Ran(String),
    Failed,
    Refused,
    Stale(u64),
}

#[derive(Default)]
struct Model {
    marks: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

#[apply(on_two_servers)]
fn a_model_of_what_they_mean_agrees_with_every_answer(kind: Kind) {
    let mut random = seed::rng();
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let mut model = Model::default();
    for _ in 0..REQUESTS {
        let (words, expected) = model.request(&mut random);
        let answer = primary.run(&words);
        assert_eq!(said(&answer), expected, "{words}: {answer:?}");
    }
    for (mark, fence) in &model.marks {
        assert_eq!(primary.run(&format!("DLOCK.MARK {mark}")).int() as u64, *fence);
    }
    for (key, text) in &model.texts {
        assert_eq!(primary.run(&format!("GET {key}")).text(), *text);
    }
    let keys = model.marks.len() + model.texts.len();
    assert_eq!(primary.run("DBSIZE").int() as usize, keys);
    primary.assert_agrees_with(&replica);
}

fn said(answer: &Value) -> Said {
    match answer {
        Value::Error(words) if words.starts_with("STALE ") => {
            let fence = words.split(' ').nth(1).and_then(|fence| fence.parse().ok());
            Said::Stale(fence.expect("STALE says the mark's fence"))
        }
        Value::Error(words) if words.contains("not an integer") => Said::Failed,
        Value::Error(_) => Said::Refused,
        Value::Int(n) => Said::Ran(n.to_string()),
        Value::Null => Said::Ran("null".to_owned()),
        other => Said::Ran(other.text()),
    }
}

impl Model {
    fn request(&mut self, random: &mut StdRng) -> (String, Said) {
        let before = self.texts.clone();
        let (inner, result) = self.inner(random);
        let mark = *MARKS.choose(random).expect("three");
        let fence = random.random_range(1..400);
        let words = format!("DLOCK.FENCED {mark} {fence} {inner}");
        if inner.starts_with("BLPOP") {
            return (words, result);
        }
        match self.marks.get(mark) {
            Some(seen) if fence < *seen => {
                self.texts = before;
                return (words, Said::Stale(*seen));
            }
            _ if result == Said::Refused => {}
            _ => _ = self.marks.insert(mark.to_owned(), fence),
        }
        // Now and then somebody starts anew.
        if fence > 390 {
            self.marks.remove(mark);
            return (format!("DLOCK.FENCED {mark} {fence} DEL {mark}"), {
                self.texts = before;
                Said::Ran("1".to_owned())
            });
        }
        (words, result)
    }

    fn inner(&mut self, random: &mut StdRng) -> (String, Said) {
        let key = *KEYS.choose(random).expect("three");
        let number = random.random_range(0..9);
        let there = self.texts.get(key).cloned();
        match random.random_range(0..8) {
            0 => {
                self.texts.insert(key.to_owned(), number.to_string());
                (format!("SET {key} {number}"), Said::Ran("OK".to_owned()))
            }
            1 => {
                self.texts.insert(key.to_owned(), "text".to_owned());
                (format!("SET {key} text"), Said::Ran("OK".to_owned()))
            }
            2 => {
                let text = there.unwrap_or_else(|| "null".to_owned());
                (format!("GET {key}"), Said::Ran(text))
            }
            3 | 4 => {
                let words = format!("INCR {key}");
                match there.map_or(Ok(0), |text| text.parse::<u64>()) {
                    Ok(n) => {
                        self.texts.insert(key.to_owned(), (n + 1).to_string());
                        (words, Said::Ran((n + 1).to_string()))
                    }
                    Err(_) => (words, Said::Failed),
                }
            }
            5 => {
                let removed = self.texts.remove(key).map_or(0, |_| 1);
                (format!("DEL {key}"), Said::Ran(removed.to_string()))
            }
            6 => (format!("NOPE {key}"), Said::Refused),
            _ => (format!("BLPOP {key} 0"), Said::Refused),
        }
    }
}
