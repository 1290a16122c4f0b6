//! `dlock release KEY TOKEN`

use harness::Quorum;

use crate::extend::acquire;
use crate::running::dlock;

#[test]
fn a_lease_is_given_back_once() {
    let quorum = Quorum::start(1);
    let (token, _) = acquire(&quorum, "10m");
    let said = dlock(&quorum, &["release", "job", &token]).with_code(0);
    assert_eq!(said.out, "");
    quorum.until_released();
    let said = dlock(&quorum, &["release", "job", &token]).with_code(75);
    assert!(said.err.contains("lock") && !said.err.contains(&token), "{}", said.err);
}
