//! The name of a lock.

use std::fmt;

use crate::printable::Printable;

/// The name of a lock: any bytes, and mostly text.
///
/// `Display` escapes it, so that it is safe to print. The nodes store its [bytes](Key::as_bytes).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

impl Key {
    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text, if it is UTF-8.
    #[must_use]
    pub fn to_str(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0).fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Key {
        Key(bytes.into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Key {
        text.into_bytes().into()
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Key {
    fn from(bytes: &T) -> Key {
        Key(bytes.as_ref().into())
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Key {
    fn eq(&self, text: &str) -> bool {
        *self.0 == *text.as_bytes()
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_any_bytes_and_is_shown_on_one_line() {
        let key = Key::from(&b"job\xff\n"[..]);
        assert_eq!((key.as_bytes(), key.to_str()), (&b"job\xff\n"[..], None));
        assert_eq!(format!("{key} {key:?}"), r"job\xff\x0a 'job\xff\x0a'");
        assert_eq!(Key::from("süß"), "süß");
        assert_eq!(Key::from("süß".to_owned()).to_str(), Some("süß"));
    }
}
