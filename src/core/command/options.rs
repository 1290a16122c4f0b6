//! The options of a request, read by the table in its command's [`Doc`].

use core::fmt;

use super::read::{Args, number};
use super::{Arg, Doc, Kind, Refusal};

/// The options that a request has, each at most once.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Each option's word and value.
    given: [(&'static str, &'a [u8]); MOST],
    count: usize,
}

impl<'a> Options<'a> {
    /// Reads the remaining arguments.
    ///
    /// # Errors
    /// Fails if a word is no option of this command, is repeated, or lacks its value.
    pub fn read(doc: &'static Doc, args: &mut Args<'a, '_>) -> Result<Options<'a>, Refusal<'a>> {
        let mut options = Options { given: [("", b""); MOST], count: 0 };
        while let Some(given) = args.take() {
            let is_this = |word: &str| given.eq_ignore_ascii_case(word.as_bytes());
            let found =
                doc.options().find_map(|arg| Some((arg.word.filter(|word| is_this(word))?, arg)));
            let (word, arg) = found.ok_or(Refusal::Unknown { given, doc })?;
            let value = if arg.kind == Kind::Word { &[][..] } else { args.value(word)? };
            let is_new = !options.has(word);
            let place = options.given.get_mut(options.count).filter(|_| is_new);
            *place.ok_or(Refusal::Repeated(word))? = (word, value);
            options.count += 1;
        }
        Ok(options)
    }

    /// True if the request has the option.
    #[must_use]
    pub fn has(&self, word: &str) -> bool {
        self.value(word).is_some()
    }

    /// The option's value; empty for an option without one.
    #[must_use]
    pub fn value(&self, word: &str) -> Option<&'a [u8]> {
        let mut given = self.given.iter().take(self.count);
        given.find(|(known, _)| *known == word).map(|(_, value)| *value)
    }

    /// The option's value, a number from `least` to `most`.
    ///
    /// # Errors
    /// Fails if the value is anything else.
    pub fn number(
        &self,
        word: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, Refusal<'a>> {
        self.value(word).map(|given| number(word, given, least, most)).transpose()
    }
}

/// The options of a command, as an error lists them.
pub(super) struct Listed(pub(super) &'static Doc);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.options().count().saturating_sub(1);
        for (at, Arg { word, kind, name, .. }) in self.0.options().enumerate() {
            f.write_str(match at {
                0 => "",
                at if at == last => " and ",
                _ => ", ",
            })?;
            f.write_str(word.unwrap_or_default())?;
            if *kind != Kind::Word {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

/// The largest number of options of any command.
const MOST: usize = 9;

#[cfg(test)]
mod tests {
    use super::super::{Command, acquire, evicted};
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn there_is_room_for_the_options_of_every_command() {
        let counts = Command::ALL.iter().map(|command| command.doc().options().count());
        assert_eq!(counts.max(), Some(MOST));
    }

    #[test]
    fn options_are_listed_with_their_values() {
        assert_eq!(Listed(&evicted::DOC).to_string(), "AFTER last and COUNT n");
        let all = "SHARED, LIMIT n, WAIT ms, KEEP ms, TURN, FENCE proposal, AGAIN fence, EPHEMERAL and META text";
        assert_eq!(Listed(&acquire::DOC).to_string(), all);
    }
}
