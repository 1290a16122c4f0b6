//! The comparison of a program's output with a page.

/// The parts that are the same in two printings of the same thing: words, and small counts (0, 1 and 2).
/// Other numbers, and words with a digit, may differ; so may the unit behind a number, and the distance of
/// columns.
pub fn essence(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.filter(|line| !is_duration(line)).map(words).collect()
}

/// Asserts that both are alike.
#[track_caller]
pub fn assert_alike(place: &str, shown: &str, printed: &str) {
    let (want, got) = (essence(shown), essence(printed));
    let same = want.iter().zip(&got).take_while(|(want, got)| want == got).count();
    let (want_line, got_line) = (want.get(same), got.get(same));
    assert!(
        want == got,
        "{place} shows\n{shown}\nand what is printed is\n{printed}\nthey differ at {want_line:?}, {got_line:?}"
    );
}

fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let is_unit = ["%", "ns", "µs", "ms", "s"].contains(&word);
        if !(is_unit && words.last().is_some_and(|last| last == ANY)) {
            words.push(general(word));
        }
    }
    words
}

/// Stands for a word with a number in it.
const ANY: &str = "#";

fn general(word: &str) -> String {
    // A page's example comes from a machine with another name.
    if let Some(name) = ["host=", "user="].into_iter().find(|name| word.starts_with(name)) {
        return name.to_owned();
    }
    let counts = word.parse::<u8>().is_ok_and(|number| number <= 2);
    let is_index = word.strip_suffix(')').is_some_and(|index| index.parse::<u8>().is_ok());
    if counts || is_index || !word.contains(|letter: char| letter.is_ascii_digit()) {
        return word.to_owned();
    }
    ANY.to_owned()
}

/// redis-cli prints the time of a reply on a terminal: `(1.21s)`.
fn is_duration(line: &str) -> bool {
    let inner = line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)"));
    inner.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

#[test]
fn numbers_units_and_gaps_aside() {
    assert_eq!(essence("(integer) 1795238075371227"), essence("(integer) 42"));
    assert_eq!(essence("a  3.10 ms  b"), essence("a 212 µs b\n(1.21s)\n"));
    assert_ne!(essence("(integer) 1"), essence("(integer) 0"));
    assert_ne!(essence("1) \"mode\""), essence("2) \"mode\""));
    assert_ne!(essence("(nil)"), essence("(integer) 42"));
}
