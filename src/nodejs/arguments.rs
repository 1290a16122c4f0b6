//! Reads keys and lengths of time from JavaScript.

use std::time::Duration;

use dlock_client::{Error, InvalidToken, Key, Token};
use napi::bindgen_prelude::{Buffer, Either, Uint8Array};

/// The name of a lock: text or bytes.
pub(crate) type Name = Either<String, Uint8Array>;

pub(crate) fn key(name: Name) -> Key {
    match name {
        Either::A(text) => text.into(),
        Either::B(bytes) => bytes.to_vec().into(),
    }
}

/// A key for JavaScript: text where it is UTF-8.
pub(crate) fn shown(key: &Key) -> Either<String, Buffer> {
    bytes(key.as_bytes())
}

/// Bytes that are mostly text.
pub(crate) fn bytes(bytes: &[u8]) -> Either<String, Buffer> {
    match str::from_utf8(bytes) {
        Ok(text) => Either::A(text.to_owned()),
        Err(_) => Either::B(bytes.to_vec().into()),
    }
}

/// A length of time in milliseconds, for JavaScript.
pub(crate) fn millis(span: Duration) -> f64 {
    // From seconds as a float, 1.882 would become 1882.0000000000002 ms.
    span.as_micros() as f64 / 1e3
}

/// Converts a fence or a count. Fences are at most 2^53 - 1, and all counts are smaller, so a number of JavaScript
/// is exact.
pub(crate) fn number(number: u64) -> f64 {
    number as f64
}

pub(crate) fn token(text: &str) -> Result<Token, Error> {
    text.parse().map_err(|error: InvalidToken| Error::Usage(error.to_string()))
}
