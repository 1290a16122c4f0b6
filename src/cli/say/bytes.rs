//! Keys, tokens and texts of any bytes: shown to people and in JSON, and typed in.

use dlock_client::Key;
use dlock_client::operator::{Printable, is_invisible};
use serde_json::{Value, json};

/// The form for people: bytes that cannot be printed are escaped as in `\x00`, and so is the backslash.
pub fn shown(bytes: &[u8]) -> String {
    Printable(bytes).to_string()
}

/// Reads a key that was typed plainly, or in the form of [`shown`].
pub fn typed(word: &[u8], is_escaped: bool) -> Result<Vec<u8>, String> {
    if is_escaped { unescape(word) } else { Ok(word.to_vec()) }
}

/// Adds a field to a JSON object, as [`text`]; bytes that are not UTF-8 get a second field `…_hex`.
pub fn insert(object: &mut Value, name: &str, bytes: &[u8]) {
    if str::from_utf8(bytes).is_err() {
        object[format!("{name}_hex")] = hex(bytes).into();
    }
    object[name] = text(bytes).into();
}

/// The form for programs: unchanged if it is UTF-8, else as [`shown`].
pub fn text(bytes: &[u8]) -> String {
    str::from_utf8(bytes).map_or_else(|_| shown(bytes), str::to_owned)
}

/// An object on a line of its own. Letters that could harm a terminal are escaped as in `\u009b`.
pub fn line(object: &Value) -> String {
    let mut line = String::new();
    for letter in object.to_string().chars() {
        if is_invisible(letter) {
            let mut units = [0; 2];
            let units = letter.encode_utf16(&mut units).iter();
            line.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            line.push(letter);
        }
    }
    line + "\n"
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An object about a lock: a field with its key, and others after it.
pub fn about(key: &Key, others: Value) -> Value {
    with(json!({}), key, others)
}

/// An event about a lock.
pub fn event(name: &str, key: &Key, others: Value) -> Value {
    with(json!({ "event": name }), key, others)
}

fn with(mut object: Value, key: &Key, others: Value) -> Value {
    insert(&mut object, "key", key.as_bytes());
    if let (Value::Object(object), Value::Object(others)) = (&mut object, others) {
        object.extend(others);
    }
    object
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
    fn what_was_shown_can_be_typed() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", b"plain", b"\\", "süß\u{feff}".as_bytes()] {
            assert_eq!(typed(shown(bytes).as_bytes(), true).as_deref(), Ok(bytes));
        }
        assert_eq!(typed(b"\\x00", false).as_deref(), Ok(&b"\\x00"[..]));
        for nonsense in ["\\", "\\x", "\\x4", "\\xg0", "\\x+1", "\\n"] {
            assert!(typed(nonsense.as_bytes(), true).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn json_loses_no_byte() {
        let mut object = json!({});
        insert(&mut object, "key", b"job");
        insert(&mut object, "meta", b"\xff");
        let expected = serde_json::json!({"key": "job", "meta": "\\xff", "meta_hex": "ff"});
        assert_eq!(object, expected);
        let hostile = json!({"key": "\u{9b}2J\u{e0041}\u{7}"});
        assert_eq!(line(&hostile), "{\"key\":\"\\u009b2J\\udb40\\udc41\\u0007\"}\n");
        assert_eq!(serde_json::from_str::<Value>(&line(&hostile)).unwrap(), hostile);
        let event = event("lost", &Key::from(&b"\xfe"[..]), serde_json::json!({"fence": 7}));
        let text = r#"{"event":"lost","key_hex":"fe","key":"\\xfe","fence":7}"#;
        assert_eq!(event.to_string(), text);
    }
}
