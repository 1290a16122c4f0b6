//! The judges themselves, on made-up histories: each line is in the programs' format.

use dlock_judges::verdict::Promise;
use dlock_judges::{Line, judge, read, write};

/// A hold from its request to the end of its validity, and its fence.
fn hold(who: &str, invoke: u64, granted: u64, until: u64, fence: u64) -> String {
    as_one_of("\"exclusive\"", who, invoke, granted, until, fence)
}

fn as_one_of(mode: &str, who: &str, invoke: u64, granted: u64, until: u64, fence: u64) -> String {
    let asked = format!(r#""asked":"acquire","mode":{mode},"fence":{fence},"until":{until}"#);
    line(who, invoke, Some(granted), "done", &asked)
}

fn change(who: &str, invoke: u64, returned: Option<u64>, read: &str, wrote: &str) -> String {
    let heard = if returned.is_some() { "done" } else { "nothing" };
    let asked = format!(r#""asked":"change","read":"{read}","wrote":"{wrote}""#);
    line(who, invoke, returned, heard, &asked)
}

fn line(who: &str, invoke: u64, returned: Option<u64>, heard: &str, asked: &str) -> String {
    let returned = returned.map_or("null".to_owned(), |at| at.to_string());
    format!(
        r#"{{"process":"{who}","key":"job","who":"{who}","invoke":{invoke},"return":{returned},"heard":"{heard}",{asked}}}"#
    )
}

fn lines(of: &[String]) -> Vec<Line> {
    let text = format!("{{\"history\":\"made up\",\"version\":1}}\n{}\n", of.join("\n"));
    let lines = read(text.as_bytes()).expect("it is one");
    let mut again = Vec::new();
    write(&mut again, "made up", &lines).expect("there is room");
    assert_eq!(String::from_utf8(again).expect("it is text"), text);
    lines
}

fn broken(of: &[String]) -> Option<Promise> {
    let accused = judge(&lines(of));
    assert!(accused.len() < 2, "{accused:?}");
    accused.first().map(|accusation| accusation.promise)
}

#[test]
fn a_hold_after_another_is_right_and_one_beside_it_is_not() {
    assert_eq!(broken(&[hold("a", 0, 10, 100, 1), hold("b", 50, 101, 200, 2)]), None);
    let beside = [hold("a", 0, 10, 100, 1), hold("b", 50, 99, 200, 2)];
    assert_eq!(broken(&beside), Some(Promise::Exclusion));
}

#[test]
fn a_lock_is_free_from_its_release_on() {
    let release = line("a", 40, Some(45), "done", r#""asked":"release""#);
    let early = [hold("a", 0, 10, 100, 1), release, hold("b", 30, 41, 200, 2)];
    assert_eq!(broken(&early), None);
    let earlier = [&early[..2], &[hold("b", 30, 39, 200, 2)]].concat();
    assert_eq!(broken(&earlier), Some(Promise::Exclusion));
}

#[test]
fn no_client_holds_after_a_break() {
    let broke = line("operator", 30, Some(32), "done", r#""asked":"break""#);
    let early = [hold("a", 0, 10, 100, 1), broke, hold("b", 30, 41, 200, 2)];
    assert_eq!(broken(&early), None);
}

#[test]
fn fences_grow_in_the_order_of_the_holds() {
    let at_the_same_time = [hold("a", 0, 30, 40, 7), hold("b", 20, 60, 90, 6)];
    assert_eq!(broken(&at_the_same_time), Some(Promise::Fences));
    assert_eq!(broken(&[hold("a", 0, 30, 40, 7), hold("b", 20, 60, 90, 7)]), Some(Promise::Fences));
    assert_eq!(broken(&[hold("a", 0, 30, 40, 7), hold("b", 20, 60, 90, 8)]), None);
}

#[test]
fn readers_hold_together_and_no_writer_with_them() {
    let shared = |who, from, to, fence| as_one_of("\"shared\"", who, from, from + 5, to, fence);
    let readers = [shared("a", 0, 100, 3), shared("b", 20, 200, 3)];
    assert_eq!(broken(&readers), None);
    let writer = [&readers[..], &[hold("c", 100, 150, 300, 4)]].concat();
    assert_eq!(broken(&writer), Some(Promise::Exclusion));
    let later = [&readers[..], &[hold("c", 100, 210, 300, 3)]].concat();
    assert_eq!(broken(&later), Some(Promise::Fences));
}

#[test]
fn no_more_hold_than_there_are_permits() {
    let permit = |who, from, to| as_one_of(r#"{"permits":2}"#, who, from, from + 5, to, from + 1);
    let two = [permit("a", 0, 100), permit("b", 10, 100)];
    assert_eq!(broken(&two), None);
    let three = [&two[..], &[permit("c", 20, 100)]].concat();
    assert_eq!(broken(&three), Some(Promise::Exclusion));
    let one_after = [&two[..], &[permit("c", 100, 200)]].concat();
    assert_eq!(broken(&one_after), None);
}

#[test]
fn a_client_without_a_grant_takes_nothing_from_the_others() {
    let asks = r#""asked":"acquire","mode":"exclusive""#;
    let refused = line("b", 5, Some(8), "refused", asks);
    let unheard = line("c", 6, None, "nothing", asks);
    assert_eq!(broken(&[hold("a", 0, 10, 100, 1), refused, unheard]), None);
}

#[test]
fn a_change_that_is_lost_is_found() {
    let chain = [change("a", 0, Some(9), "", "1"), change("b", 20, Some(30), "1", "2")];
    assert_eq!(broken(&chain), None);
    let lost = [&chain[..], &[change("c", 10, Some(40), "1", "3")]].concat();
    assert_eq!(broken(&lost), Some(Promise::Data));
}

#[test]
fn a_change_without_an_answer_may_have_happened_and_late() {
    let unheard = [change("a", 0, None, "", "1"), change("b", 20, Some(30), "1", "2")];
    assert_eq!(broken(&unheard), None);
    let without = [change("a", 0, None, "", "1"), change("b", 20, Some(30), "", "2")];
    assert_eq!(broken(&without), None);
    // Read while another value is there, one that was read before this one came.
    let late = [&without[..], &[change("c", 40, Some(50), "1", "3")]].concat();
    assert_eq!(broken(&late), Some(Promise::Data));
}
