//! Requests, as clients send them: an array of strings.
//!
//! Existing codecs are for clients, which trust their server: they nest without a limit, or allocate any
//! announced length. Here nothing is nested, and a request is bounded before it has arrived.

use std::ops::Range;

use super::limits::{ARGUMENTS, LINE};

/// A request, at least one word long.
pub struct Request {
    bytes: Box<[u8]>,
    words: Vec<Range<usize>>,
}

/// The answer to bytes that are not a request. The connection is closed after it.
#[derive(Debug, PartialEq, Eq)]
pub struct Nonsense(pub &'static str);

impl Request {
    /// The words, the command's name first.
    pub fn words(&self) -> Vec<&[u8]> {
        self.words.iter().filter_map(|word| self.bytes.get(word.clone())).collect()
    }
}

/// Reads the first request, and the number of its bytes, `most` at most. `None`: it is not complete. An empty array is
/// a request without words, which has no answer.
pub fn read(arrived: &[u8], most: usize) -> Result<Option<(Request, usize)>, Nonsense> {
    let mut reader = Reader { arrived, at: 0, most };
    let words = reader.array()?;
    if reader.at > most || (words.is_none() && arrived.len() > most) {
        return Err(TOO_LARGE);
    }
    let Some(words) = words else { return Ok(None) };
    let bytes = arrived.get(..reader.at).unwrap_or_default().into();
    Ok(Some((Request { bytes, words }, reader.at)))
}

struct Reader<'a> {
    arrived: &'a [u8],
    at: usize,
    most: usize,
}

impl Reader<'_> {
    /// `*2`, and two strings.
    fn array(&mut self) -> Result<Option<Vec<Range<usize>>>, Nonsense> {
        let Some(count) = self.number(b'*', BAD_ARRAY)? else { return Ok(None) };
        if count > ARGUMENTS {
            return Err(TOO_MANY);
        }
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(length) = self.number(b'$', BAD_STRING)? else { return Ok(None) };
            if length > self.most {
                return Err(TOO_LARGE);
            }
            let (begin, end) = (self.at, self.at + length);
            match self.arrived.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => self.at = end + 2,
                Some(_) => return Err(BAD_STRING),
            }
            words.push(begin..end);
        }
        Ok(Some(words))
    }

    /// A number behind this sign.
    fn number(&mut self, sign: u8, nonsense: Nonsense) -> Result<Option<usize>, Nonsense> {
        if self.arrived.get(self.at).is_some_and(|first| *first != sign) {
            return Err(nonsense);
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let digits = self.arrived[line].strip_prefix(&[sign]);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        number.map(Some).ok_or(nonsense)
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Option<Range<usize>>, Nonsense> {
        let rest = self.arrived.get(self.at..).unwrap_or_default();
        let near = &rest[..rest.len().min(LINE)];
        let Some(length) = near.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE { Ok(None) } else { Err(LONG_LINE) };
        };
        let begin = self.at;
        self.at += length + 1;
        let is_crlf = length > 0 && rest[length - 1] == b'\r';
        Ok(Some(begin..begin + length - usize::from(is_crlf)))
    }
}

const BAD_ARRAY: Nonsense = Nonsense("ERR Protocol error: a request is an array of strings");
const BAD_STRING: Nonsense = Nonsense("ERR Protocol error: invalid bulk length");
const LONG_LINE: Nonsense = Nonsense("ERR Protocol error: too big line");
const TOO_MANY: Nonsense =
    Nonsense("ERR Protocol error: a request to an agent has at most 64 arguments");
const TOO_LARGE: Nonsense = Nonsense(
    "ERR Protocol error: a request to an agent has at most 65536 bytes, and 4096 before a login",
);

#[cfg(test)]
mod tests {
    use super::super::limits::REQUEST;
    use super::*;

    type Words = (Vec<Vec<u8>>, usize);

    fn words(bytes: &[u8]) -> Result<Option<Words>, Nonsense> {
        let read = read(bytes, REQUEST)?;
        Ok(read.map(|(request, used)| {
            (request.words().into_iter().map(<[u8]>::to_vec).collect(), used)
        }))
    }

    #[test]
    fn a_request_is_an_array_of_strings() {
        let ping = || vec![b"PING".to_vec()];
        assert_eq!(words(b"*1\r\n$4\r\nPING\r\nmore"), Ok(Some((ping(), 14))));
        assert_eq!(words(b"*0\r\n"), Ok(Some((vec![], 4))));
        let any = vec![b"a\r\n\xff".to_vec(), vec![]];
        assert_eq!(words(b"*2\r\n$4\r\na\r\n\xff\r\n$0\r\n\r\n"), Ok(Some((any, 20))));
    }

    #[test]
    fn a_request_that_is_cut_anywhere_is_not_there_yet() {
        let whole = b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(words(&whole[..length]), Ok(None), "{length}");
        }
        assert!(matches!(words(whole), Ok(Some((_, used))) if used == whole.len()));
    }

    #[test]
    fn what_is_announced_is_bounded_before_it_arrives() {
        assert_eq!(words(b"*1\r\n$536870912\r\n"), Err(TOO_LARGE));
        assert_eq!(words(b"*1000000000\r\n"), Err(TOO_MANY));
        assert_eq!(words(&[b'*'; LINE]), Err(LONG_LINE));
        let many = [&b"*64\r\n"[..], b"$1024\r\n", &[b'x'; REQUEST]].concat();
        assert!(words(&many).is_err());
        let sum: Vec<u8> = [
            b"*3\r\n".to_vec(),
            [b"$40000\r\n".to_vec(), vec![b'x'; 40_000], b"\r\n".to_vec()].concat().repeat(3),
        ]
        .concat();
        assert_eq!(words(&sum), Err(TOO_LARGE));
    }

    #[test]
    fn nonsense_is_told_at_once() {
        let begins =
            [&b"*x\r\n"[..], b"*-1\r\n", b"*1\r\n:", b"*1\r\n$-1\r\n", b"PING", b"POST / "];
        for bytes in begins.into_iter().chain([&b"*1\r\n$1\r\nab\r\n"[..]]) {
            assert!(words(bytes).is_err(), "{bytes:?}");
        }
    }
}
