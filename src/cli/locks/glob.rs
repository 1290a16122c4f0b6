//! Patterns of keys, as KEYS and SCAN read them: `*`, `?`, `[a-z]`, `[^a]`, and `\\` before any of
//! these.

/// True if the whole text matches the pattern.
pub fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The pattern after the last star, and the rest of the text if that star takes one byte more.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix(b"*") {
            pattern = rest;
            star = Some((rest, text));
        } else if let Some((rest_of_pattern, rest_of_text)) = one(pattern, text) {
            (pattern, text) = (rest_of_pattern, rest_of_text);
        } else if pattern.is_empty() && text.is_empty() {
            return true;
        } else {
            let Some((after, [_, rest @ ..])) = star else { return false };
            (pattern, text) = (after, rest);
            star = Some((after, rest));
        }
    }
}

/// Returns the rest of both if the pattern's beginning matches one byte of the text.
fn one<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (byte, rest_of_text) = text.split_first()?;
    let (fits, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, *byte),
        [b'\\', escaped, rest @ ..] | [escaped, rest @ ..] => (escaped == byte, rest),
    };
    fits.then_some((rest, rest_of_text))
}

/// Matches the byte against a class in brackets. Returns the rest of the pattern, too.
fn class(mut rest: &[u8], byte: u8) -> (bool, &[u8]) {
    let negated = rest.first() == Some(&b'^');
    if negated {
        rest = &rest[1..];
    }
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b']', rest @ ..] => return (found != negated, rest),
            [b'\\', escaped, rest @ ..] => {
                found |= *escaped == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [one, rest @ ..] => {
                found |= *one == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_as_the_server_would_say() {
        for (pattern, matching, other) in [
            ("job:*", &["job:", "job:1", "job:*"][..], &["job", "ajob:1"][..]),
            ("*", &["", "a"], &[]),
            ("*a*b", &["ab", "xaxb", "aab", "abab"], &["ba", "abx", ""]),
            ("j?b", &["job", "j?b"], &["jb", "joob"]),
            ("[a-c]1", &["a1", "c1"], &["d1", "-1"]),
            ("[c-a]1", &["b1"], &["d1"]),
            ("[^a]1", &["b1"], &["a1", "1"]),
            ("[xy]", &["x", "y"], &["", "z", "xy"]),
            (r"\*", &["*"], &["a", r"\"]),
            (r"[\]]", &["]"], &[r"\"]),
            (r"\", &[r"\"], &["a"]),
            ("", &[""], &["a"]),
        ] {
            for text in matching {
                assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
            for text in other {
                assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
        }
    }
}
