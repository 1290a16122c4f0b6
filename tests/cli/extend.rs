//! `dlock extend KEY TOKEN`

use harness::Quorum;

use crate::running::dlock;

#[test]
fn a_lease_is_prolonged_and_never_shortened() {
    let quorum = Quorum::start(1);
    let (token, fence) = acquire(&quorum, "1m");
    let extend = |ttl| ["extend", "--ttl", ttl, "--fence", &fence, "job", &token];
    let said = dlock(&quorum, &extend("10m")).with_code(0);
    assert!(said.out.contains(&format!("DLOCK_FENCE={fence}")), "{}", said.out);
    assert!(quorum[0].holder("job")["ttl-ms"].int() > 300_000);
    dlock(&quorum, &extend("1m")).with_code(0);
    assert!(quorum[0].holder("job")["ttl-ms"].int() > 300_000);
}

#[test]
fn wrong_usage_and_a_lost_majority_have_codes_of_their_own() {
    let mut quorum = Quorum::start(3);
    let (token, fence) = acquire(&quorum, "10m");
    let extend = |key| ["extend", "--fence", &fence, key, &token];
    dlock(&quorum, &["extend", "job"]).with_code(64);
    dlock(&quorum, &["extend", "--fence", "7", "job", "no-token"]).with_code(64);
    let said = dlock(&quorum, &["extend", "job", &token]).with_code(64);
    assert!(said.err.contains("no fence"), "{}", said.err);
    let said = dlock(&quorum, &extend("another")).with_code(75);
    assert!(!said.err.contains(&token), "{}", said.err);
    quorum[0].kill();
    dlock(&quorum, &extend("job")).with_code(0);
    quorum[1].kill();
    dlock(&quorum, &extend("job")).with_code(69);
}

/// Takes the lock `job`, and returns its token and fence.
pub fn acquire(quorum: &Quorum, ttl: &str) -> (String, String) {
    let said = dlock(quorum, &["acquire", "--json", "--ttl", ttl, "job"]).with_code(0);
    let object = &said.json()[0];
    let token = object["token"].as_str().expect("it is text");
    (token.to_owned(), object["fence"].to_string())
}
