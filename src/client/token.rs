//! The secret name of one acquisition.

use std::fmt;
use std::str::FromStr;

/// 128 random bits. A client that has them can release and extend the lock, so `Debug` does not show
/// them; [`Display`](fmt::Display) does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token([u8; LENGTH]);

/// Length of the text: 32 hex digits.
const LENGTH: usize = 32;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Token {
    /// Makes a new token.
    #[must_use]
    pub fn random() -> Token {
        let mut bits = rand::random::<u128>();
        let mut digits = [0; LENGTH];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(bits & 15) as usize];
            bits >>= 4;
        }
        Token(digits)
    }

    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Token, InvalidToken> {
        let digits: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| InvalidToken)?;
        if digits.iter().all(|digit| DIGITS.contains(digit)) {
            Ok(Token(digits))
        } else {
            Err(InvalidToken)
        }
    }
}

/// The text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 32 hex digits in lower case")]
pub struct InvalidToken;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}…)", self.as_str().get(..4).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_as_it_was_written() {
        let token = Token::random();
        assert_eq!(token.to_string().len(), 32);
        assert_eq!(token.to_string().parse(), Ok(token));
        assert_ne!(token, Token::random());
    }

    #[test]
    fn anything_else_is_no_token() {
        for text in
            ["", "alice", &"0".repeat(31), &"0".repeat(33), &"g".repeat(32), &"A".repeat(32)]
        {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text:?}");
        }
    }

    #[test]
    fn debug_shows_no_more_than_four_digits() {
        let token: Token = "0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(format!("{token:?}"), "Token(0123…)");
    }
}
