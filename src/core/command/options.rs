//! The options of a request, read by the table in its command's [`Doc`].

use core::fmt;

use super::read::{Args, number};
use super::{Arg, Doc, Kind, Refusal};

/// The remaining arguments of a request, read as options, each at most once.
///
/// The iterator fails at a word that is not an option of the command, is repeated, or lacks its value.
#[derive(Clone, Debug)]
pub struct Options<'a, 'b> {
    doc: &'static Doc,
    args: Args<'a, 'b>,
    /// A bit for each option that was read, in the order of the command's arguments.
    seen: u16,
}

/// An option of a request.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The word, as the table writes it.
    pub word: &'static str,
    /// The value; empty for an option without one.
    pub value: &'a [u8],
}

impl<'a, 'b> Options<'a, 'b> {
    /// The options of this command in the remaining arguments.
    #[must_use]
    pub fn of(doc: &'static Doc, args: Args<'a, 'b>) -> Options<'a, 'b> {
        Options { doc, args, seen: 0 }
    }

    fn read(&mut self, given: &'a [u8]) -> Result<Given<'a>, Refusal<'a>> {
        let (bit, word, arg) =
            self.named(given).ok_or(Refusal::Unknown { given, doc: self.doc })?;
        let is_flag = matches!(arg.kind, Kind::Word);
        let value = if is_flag { &[][..] } else { self.args.value(word)? };
        if self.seen & bit != 0 {
            return Err(Refusal::Repeated(word));
        }
        self.seen |= bit;
        Ok(Given { word, value })
    }

    /// The option that is spelled like this, with its bit.
    fn named(&self, given: &[u8]) -> Option<(u16, &'static str, &'static Arg)> {
        let mut bit = 1_u16;
        for group in self.doc.args {
            for arg in group.alternatives() {
                if let Some(word) = arg.word.filter(|word| is_spelled(given, word.as_bytes())) {
                    return Some((bit, word, arg));
                }
                bit <<= 1;
            }
        }
        None
    }
}

impl<'a> Iterator for Options<'a, '_> {
    type Item = Result<Given<'a>, Refusal<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.args.take()?;
        Some(self.read(given))
    }
}

impl<'a> Given<'a> {
    /// The value, a number from `least` to `most`.
    ///
    /// # Errors
    /// Fails if the value is anything else.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, Refusal<'a>> {
        number(self.word, self.value, least, most)
    }

    /// The refusal of an option that is in the table but not read.
    #[must_use]
    pub fn unread(&self, doc: &'static Doc) -> Refusal<'a> {
        Refusal::Unknown { given: self.word.as_bytes(), doc }
    }
}

/// True if these are the letters of the word, in upper or lower case. The words are in upper case, which
/// differs from lower case in one bit.
fn is_spelled(given: &[u8], word: &[u8]) -> bool {
    given.len() == word.len() && given.iter().zip(word).all(|(given, word)| given & !0x20 == *word)
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

#[cfg(test)]
mod tests {
    use super::super::{Command, acquire};
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn each_option_of_every_command_has_a_bit_and_capital_letters() {
        for doc in Command::ALL.iter().map(|command| command.doc()).chain([&acquire::AT_AGENT]) {
            let options = doc.args.iter().flat_map(Arg::alternatives);
            assert!(options.clone().count() <= u16::BITS as usize, "{}", doc.name);
            let mut words = options.filter_map(|arg| arg.word);
            assert!(words.all(|word| word.bytes().all(|letter| letter.is_ascii_uppercase())));
        }
    }

    #[test]
    fn options_are_listed_with_their_values() {
        let all = "SHARED, LIMIT n, WAIT ms, KEEP ms, TURN, FENCE proposal, AGAIN fence, EPHEMERAL and META text";
        assert_eq!(Listed(&acquire::DOC).to_string(), all);
    }
}
