//! Reads arguments: strictly, without copying.

use super::Refusal;
use crate::limits::{MAX_META, MAX_TOKEN, MAX_TTL_CEILING};
use crate::words::Millis;

/// The arguments after the command's name, read from the left.
#[derive(Clone, Debug)]
pub struct Args<'a, 'b> {
    rest: &'b [&'a [u8]],
}

impl<'a, 'b> Args<'a, 'b> {
    /// A reader of all arguments.
    #[must_use]
    pub fn new(args: &'b [&'a [u8]]) -> Args<'a, 'b> {
        Args { rest: args }
    }

    /// The next argument, if there is one.
    pub fn take(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next argument, which is required.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn need(&mut self) -> Result<&'a [u8], Refusal<'a>> {
        self.take().ok_or(Refusal::Arity)
    }

    /// The value of an option, which is required.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn value(&mut self, option: &'static str) -> Result<&'a [u8], Refusal<'a>> {
        self.take().ok_or(Refusal::Unfinished(option))
    }

    /// Checks that no argument is left.
    ///
    /// # Errors
    /// Fails if there is one.
    pub fn end(&self) -> Result<(), Refusal<'a>> {
        if self.rest.is_empty() { Ok(()) } else { Err(Refusal::Arity) }
    }
}

/// Checks a token.
///
/// # Errors
/// Fails if it is empty or too long.
pub fn token(given: &[u8]) -> Result<&[u8], Refusal<'_>> {
    length("token", given, 1, MAX_TOKEN)
}

/// Checks a META text.
///
/// # Errors
/// Fails if it is too long.
pub fn meta(given: &[u8]) -> Result<&[u8], Refusal<'_>> {
    length("META", given, 0, MAX_META)
}

/// Reads a whole number in plain decimal digits, within its bounds.
///
/// # Errors
/// Fails if it is anything else.
pub fn number<'a>(
    what: &'static str,
    given: &'a [u8],
    least: u64,
    most: u64,
) -> Result<u64, Refusal<'a>> {
    decimal(given).filter(|n| (least..=most).contains(n)).ok_or(Refusal::Number {
        what,
        least,
        most,
        given,
    })
}

/// Reads the length of a new lease. The node checks `dlock.max-ttl`.
///
/// # Errors
/// Fails if it is not a length.
pub fn ttl(given: &[u8]) -> Result<Millis, Refusal<'_>> {
    number("ttl-ms", given, 1, MAX_TTL_CEILING).map(Millis)
}

/// Digits, without a sign, a space or a leading zero.
fn decimal(given: &[u8]) -> Option<u64> {
    if given.is_empty() || (given.len() > 1 && given.first() == Some(&b'0')) {
        return None;
    }
    given.iter().try_fold(0_u64, |n, &digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn length<'a>(
    what: &'static str,
    given: &'a [u8],
    least: usize,
    most: usize,
) -> Result<&'a [u8], Refusal<'a>> {
    if (least..=most).contains(&given.len()) {
        Ok(given)
    } else {
        Err(Refusal::Length { what, least, most, given: given.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimal_digits_are_a_number() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        let bad: [&[u8]; 13] = [
            b"",
            b"-1",
            b"+5",
            b"5:",
            b" 5",
            b"5 ",
            b"0x1",
            b"1e3",
            b"05",
            b"1.0",
            b"5\0",
            b"\xff",
            b"18446744073709551616",
        ];
        for given in bad {
            assert_eq!(decimal(given), None, "{}", given.escape_ascii());
        }
    }

    #[test]
    fn bounds_are_inclusive() {
        assert!(number("n", b"1", 1, 3).is_ok());
        assert!(number("n", b"3", 1, 3).is_ok());
        assert!(number("n", b"0", 1, 3).is_err());
        assert!(number("n", b"4", 1, 3).is_err());
        assert!(token(&[b'x'; MAX_TOKEN]).is_ok());
        assert!(token(&[b'x'; MAX_TOKEN + 1]).is_err());
        assert!(token(b"").is_err());
        assert!(meta(b"").is_ok() && meta(&[0; MAX_META]).is_ok());
        assert!(meta(&[0; MAX_META + 1]).is_err());
    }
}
