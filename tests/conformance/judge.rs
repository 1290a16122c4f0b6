//! The comparison of an error or a reply with the expected one.

use dlock_client::{Error, Key};
use harness::Value;
use serde_json::Value as Json;

use crate::run::{Run, strings, text};

pub fn error(run: &Run, error: &Error, fails: &Json) {
    one_of(&fails["code"], error.code());
    if !fails["why"].is_null() {
        let Error::Lost(loss) = error else { panic!("{error}") };
        one_of(&fails["why"], loss.why.name());
    }
    if !fails["key"].is_null() {
        assert_eq!(error.key().map(Key::as_bytes), Some(run.key(&fails["key"]).as_slice()));
    }
    if !fails["states"].is_null() {
        let states: Vec<&str> = error.nodes().iter().map(|report| report.state.name()).collect();
        assert_eq!(states, strings(&fails["states"]), "{error}");
    }
    if let (Some(name), Error::Held { holder, .. }) = (fails["holder"].as_str(), error) {
        let holder = holder.as_ref().expect("the node could tell");
        assert_eq!(holder.fence, run.fences[name]);
        assert_eq!(holder.meta, text(&fails["meta"]).as_bytes());
    }
    if let (Some(name), Error::Done { by, fence, .. }) = (fails["by"].as_str(), error) {
        let by = by.as_ref().expect("the node could tell");
        assert_eq!((*fence, by.fence), (run.fences[name], run.fences[name]));
        assert_eq!(by.outcome, text(&fails["outcome"]).as_bytes());
    }
    let after = error.retry_after();
    assert_eq!(after.is_some(), fails["retryAfter"] == true, "{after:?}");
    assert!(after.is_none_or(|after| !after.is_zero() && after.as_secs() <= 60), "{after:?}");
}

/// Asserts that a word is this one, or one of these.
pub fn one_of(wanted: &Json, word: &str) {
    let is_one = |list: &Vec<Json>| list.iter().any(|one| one == word);
    assert!(wanted == word || wanted.as_array().is_some_and(is_one), "{word}, not {wanted}");
}

pub fn reply(reply: &Value, step: &Json) {
    let Some(gives) = step.get("gives") else { return assert!(!reply.is_error(), "{reply:?}") };
    match gives {
        Json::Null => assert!(reply.is_null(), "{reply:?}"),
        Json::Number(_) => assert_eq!(*gives, reply.int()),
        Json::String(words) => assert_eq!(*words, reply.text()),
        _ => assert!(reply.error().starts_with(&text(&gives["error"])), "{reply:?}"),
    }
}
