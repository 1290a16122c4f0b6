//! `dlock extend KEY TOKEN`

use harness::Quorum;

use crate::running::dlock;

#[test]
fn a_lease_is_prolonged_and_never_shortened() {
    let quorum = Quorum::start(1);
    let (token, fence) = acquire(&quorum, "1m");
    let said = dlock(&quorum, &["extend", "--ttl", "10m", "job", &token]).with_code(0);
    assert!(said.out.contains(&format!("DLOCK_FENCE={fence}")), "{}", said.out);
    assert!(quorum[0].holder("job")["ttl-ms"].int() > 300_000);
    dlock(&quorum, &["extend", "--ttl", "1m", "--fence", &fence, "job", &token]).with_code(0);
    assert!(quorum[0].holder("job")["ttl-ms"].int() > 300_000);
}

#[test]
fn wrong_usage_and_a_lost_majority_have_codes_of_their_own() {
    let mut quorum = Quorum::start(3);
    let (token, _) = acquire(&quorum, "10m");
    dlock(&quorum, &["extend", "job"]).with_code(64);
    dlock(&quorum, &["extend", "job", "no-token"]).with_code(64);
    let said = dlock(&quorum, &["extend", "another", &token]).with_code(75);
    assert!(!said.err.contains(&token), "{}", said.err);
    quorum[0].kill();
    dlock(&quorum, &["extend", "job", &token]).with_code(0);
    quorum[1].kill();
    dlock(&quorum, &["extend", "job", &token]).with_code(69);
}

/// Takes the lock `job`, and returns its token and fence.
pub fn acquire(quorum: &Quorum, ttl: &str) -> (String, String) {
    let said = dlock(quorum, &["acquire", "--json", "--ttl", ttl, "job"]).with_code(0);
    let object = &said.json()[0];
    let token = object["token"].as_str().expect("it is text");
    (token.to_owned(), object["fence"].to_string())
}
