//! Keys, tokens and texts of any bytes: shown to people and in JSON, and typed in.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

use serde_json::{Map, Value};

/// As people see it: what cannot be printed is escaped as in `\x00`, and so is the backslash.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter if is_invisible(letter) => {
                    for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                        escape(&mut text, byte);
                    }
                }
                letter => text.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(&mut text, *byte));
    }
    text
}

/// A key as it was typed, or as [`shown`] wrote it.
pub fn typed(word: OsString, is_escaped: bool) -> Result<Vec<u8>, String> {
    let bytes = word.into_vec();
    if is_escaped { unescape(&bytes) } else { Ok(bytes) }
}

/// Adds a field to a JSON object: as it is if it is text, else as [`shown`], with a field `…-hex`
/// beside it.
pub fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object.insert(format!("{name}-hex"), hex.into());
            object.insert(name.to_owned(), shown(bytes).into())
        }
    };
}

/// Control characters, and those that turn the direction of writing: they could show a key as
/// another one.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escape(text: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

fn unescape(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                plain.push(b'\\');
                rest = after;
            }
            [b'x', high, low, after @ ..] => {
                let digits = [*high, *low];
                let digits = str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                plain.push(byte.ok_or(EXPECTED)?);
                rest = after;
            }
            _ => return Err(EXPECTED.to_owned()),
        }
    }
    Ok(plain)
}

const EXPECTED: &str = "with --escaped, a backslash is written \\\\ and any byte as \\x00";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_printed_is_escaped() {
        assert_eq!(shown("job:42 süß".as_bytes()), "job:42 süß");
        assert_eq!(shown(b"a\0\xff\n\x1b[2J"), "a\\x00\\xff\\x0a\\x1b[2J");
        assert_eq!(shown(b"C:\\x41"), "C:\\\\x41");
        assert_eq!(shown("\u{202e}gnp".as_bytes()), "\\xe2\\x80\\xaegnp");
    }

    #[test]
    fn what_was_shown_can_be_typed() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", b"plain", b"\\", "süß\u{feff}".as_bytes()] {
            assert_eq!(typed(shown(bytes).into(), true).as_deref(), Ok(bytes));
        }
        assert_eq!(typed("\\x00".into(), false).as_deref(), Ok(&b"\\x00"[..]));
        for nonsense in ["\\", "\\x", "\\x4", "\\xg0", "\\x+1", "\\n"] {
            assert!(typed(nonsense.into(), true).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn json_loses_no_byte() {
        let mut object = Map::new();
        insert(&mut object, "key", b"job");
        insert(&mut object, "meta", b"\xff");
        let expected = serde_json::json!({"key": "job", "meta": "\\xff", "meta-hex": "ff"});
        assert_eq!(Value::Object(object), expected);
    }
}
