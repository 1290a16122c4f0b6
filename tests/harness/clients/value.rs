//! The values that a server answers with: the types of RESP2 and RESP3, and how to read them in a
//! test.

use std::collections::BTreeMap;
use std::io::{self, BufRead, ErrorKind};

/// One answer. RESP2 and RESP3 keep their own types, so that a test can tell an array of pairs from a map;
/// the accessors below treat both alike.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null, of either protocol.
    Null,
    /// An integer.
    Int(i64),
    /// A status such as `OK`.
    Simple(String),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// An error: its code and its words.
    Error(String),
    /// An array.
    Array(Vec<Value>),
    /// A map (RESP3).
    Map(Vec<(Value, Value)>),
    /// A set (RESP3).
    Set(Vec<Value>),
    /// A boolean (RESP3).
    Bool(bool),
    /// A floating-point number (RESP3).
    Double(f64),
    /// A number of any length (RESP3).
    Big(String),
    /// A message without a request, such as of a subscription (RESP3).
    Push(Vec<Value>),
}

impl Value {
    /// The integer.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Value::Int(n) => *n,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    /// Null.
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// An integer, the answer to a granted request.
    pub fn is_int(&self) -> bool {
        matches!(self, Value::Int(_))
    }

    /// An error.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }

    /// The bytes of a string.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bulk(bytes) => bytes,
            Value::Simple(text) => text.as_bytes(),
            other => panic!("expected a string, got {other:?}"),
        }
    }

    /// A string as text; for an error, its words.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Value::Error(words) => words.clone(),
            other => String::from_utf8_lossy(other.bytes()).into_owned(),
        }
    }

    /// The words of an error.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Value::Error(words) => words,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// The first word of an error, which programs match.
    #[track_caller]
    pub fn code(&self) -> &str {
        let words = self.error();
        words.split_once(' ').map_or(words, |(code, _)| code)
    }

    /// Asserts that this is an error: with this code, and these words somewhere in it.
    #[track_caller]
    pub fn assert_error(&self, code: &str, words: &str) {
        assert_eq!(self.code(), code, "{self:?}");
        assert!(self.error().contains(words), "{words:?} is not in {self:?}");
    }

    /// The elements of an array, a set or a push.
    #[track_caller]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => items,
            other => panic!("expected an array, got {other:?}"),
        }
    }

    /// The pairs of a map, which RESP2 flattens to an array.
    #[track_caller]
    pub fn map(&self) -> BTreeMap<String, Value> {
        match self {
            Value::Map(pairs) => {
                pairs.iter().map(|(key, value)| (key.text(), value.clone())).collect()
            }
            Value::Array(items) if items.len() % 2 == 0 => {
                items.chunks_exact(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
            }
            other => panic!("expected a map, got {other:?}"),
        }
    }

    /// The value of a map at a key.
    #[track_caller]
    pub fn at(&self, key: &str) -> Value {
        let mut map = self.map();
        map.remove(key).unwrap_or_else(|| panic!("expected a field {key:?} in {self:?}"))
    }

    /// Reads one answer.
    pub fn read(from: &mut impl BufRead) -> io::Result<Value> {
        let line = read_line(from)?;
        let (&kind, rest) = line.split_first().ok_or_else(|| garbage(&line))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b'+' => Value::Simple(text()),
            b'-' => Value::Error(text()),
            b':' => Value::Int(number(rest)?),
            b'_' => Value::Null,
            b'#' => Value::Bool(rest == b"t"),
            b',' => Value::Double(text().parse().map_err(|_| garbage(&line))?),
            b'(' => Value::Big(text()),
            b'$' | b'*' if rest == b"-1" => Value::Null,
            b'$' => Value::Bulk(read_bytes(from, number(rest)?)?),
            b'!' => Value::Error(
                String::from_utf8_lossy(&read_bytes(from, number(rest)?)?).into_owned(),
            ),
            // A verbatim string opens with its format, as in `txt:`.
            b'=' => Value::Bulk(read_bytes(from, number(rest)?)?.split_off(4)),
            b'*' => Value::Array(read_items(from, number(rest)?)?),
            b'~' => Value::Set(read_items(from, number(rest)?)?),
            b'>' => Value::Push(read_items(from, number(rest)?)?),
            b'%' => {
                let items = read_items(from, 2 * number(rest)?)?;
                let mut items = items.into_iter();
                let mut pairs = Vec::new();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
            _ => return Err(garbage(&line)),
        })
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    // A lone CR or LF inside a line means broken framing.
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => Ok(text.to_vec()),
        _ => Err(garbage(&line)),
    }
}

fn read_bytes(from: &mut impl BufRead, length: i64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)? + 2];
    from.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err(garbage(&bytes));
    }
    bytes.truncate(bytes.len() - 2);
    Ok(bytes)
}

fn read_items(from: &mut impl BufRead, count: i64) -> io::Result<Vec<Value>> {
    (0..count).map(|_| Value::read(from)).collect()
}

fn number(text: &[u8]) -> io::Result<i64> {
    let parsed = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| garbage(text))
}

fn garbage(line: &[u8]) -> io::Error {
    let line = line.escape_ascii();
    io::Error::new(ErrorKind::InvalidData, format!("not RESP: \"{line}\""))
}
