//! A command's documentation for COMMAND DOCS, redis-cli's hints, HELP and the ACL.

use core::fmt;

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub struct Doc {
    /// The command's name.
    pub name: &'static str,
    /// The command's effect, in a sentence without a full stop.
    pub summary: &'static str,
    /// The cost.
    pub complexity: &'static str,
    /// The number of arguments with the name; negative: at least that many.
    pub arity: i32,
    /// The server's command flags.
    pub flags: &'static str,
    /// The ACL categories, for servers that let a module name them.
    pub acl: &'static str,
    /// The command's effect on the key, its first argument; `None`: it has no key.
    pub key: Option<Touch>,
    /// The arguments, the key first.
    pub args: &'static [Arg],
}

/// The version of dlock that brought the commands, which later versions do not change. The first command that comes
/// later makes it a field.
pub const SINCE: &str = "0.1.0";

/// A command's effect on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Reads the key.
    Reads,
    /// Reads and changes the key, and may create it.
    Makes,
    /// Reads and changes the key.
    Changes,
    /// Removes the key or a part of it.
    Removes,
}

/// One argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Arg {
    /// The argument's name.
    pub name: &'static str,
    /// The word before the value, or the word alone.
    pub word: Option<&'static str>,
    /// The argument's kind.
    pub kind: Kind,
    /// True if the argument can be left out.
    pub optional: bool,
}

/// The kind of an argument.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lock's key.
    Key,
    /// Any bytes.
    Text,
    /// A whole number.
    Number,
    /// The word alone.
    Word,
    /// Any number of texts, none included.
    Rest,
    /// One of these arguments.
    OneOf(&'static [Arg]),
}

impl Arg {
    /// The key.
    pub const KEY: Arg = Arg::plain("key", Kind::Key);
    /// The token.
    pub const TOKEN: Arg = Arg::plain("token", Kind::Text);
    /// The length of the lease.
    pub const TTL: Arg = Arg::plain("ttl-ms", Kind::Number);

    /// A required argument.
    #[must_use]
    pub const fn plain(name: &'static str, kind: Kind) -> Arg {
        Arg { name, word: None, kind, optional: false }
    }

    /// The remaining arguments.
    #[must_use]
    pub const fn rest(name: &'static str) -> Arg {
        Arg { name, word: None, kind: Kind::Rest, optional: true }
    }

    /// A word followed by a value.
    #[must_use]
    pub const fn option(word: &'static str, name: &'static str, kind: Kind) -> Arg {
        Arg { name, word: Some(word), kind, optional: true }
    }

    /// A word by itself.
    #[must_use]
    pub const fn flag(word: &'static str, name: &'static str) -> Arg {
        Arg { name, word: Some(word), kind: Kind::Word, optional: true }
    }

    /// The alternatives for this argument.
    #[must_use]
    pub fn alternatives(&'static self) -> &'static [Arg] {
        if let Kind::OneOf(args) = self.kind { args } else { core::slice::from_ref(self) }
    }
}

impl Doc {
    /// The options: arguments with a word, alternatives one by one.
    pub fn options(&self) -> impl Iterator<Item = &'static Arg> + Clone + use<> {
        self.args.iter().flat_map(Arg::alternatives).filter(|arg| arg.word.is_some())
    }
}

/// The usage line: the name and the arguments, as a manual writes them.
impl fmt::Display for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.optional {
            f.write_str("[")?;
        }
        match (&self.kind, self.word) {
            (Kind::OneOf(args), _) => {
                for (i, arg) in args.iter().enumerate() {
                    write!(f, "{}{arg}", if i == 0 { "" } else { " | " })?;
                }
            }
            (Kind::Word, Some(word)) => f.write_str(word)?,
            (Kind::Rest, _) => write!(f, "{} ...", self.name)?,
            (_, Some(word)) => write!(f, "{word} {}", self.name)?,
            (_, None) => f.write_str(self.name)?,
        }
        if self.optional {
            f.write_str("]")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use alloc::string::ToString;

    #[test]
    fn usage_reads_as_a_manual_writes_it() {
        assert_eq!(
            super::super::acquire::DOC.to_string(),
            "DLOCK.ACQUIRE key token ttl-ms [SHARED | LIMIT n] [WAIT ms] [KEEP ms] \
             [TURN] [FENCE proposal] [AGAIN fence] [EPHEMERAL] [META text]"
        );
        assert_eq!(
            super::super::fenced::DOC.to_string(),
            "DLOCK.FENCED mark fence [command] [argument ...]"
        );
        assert_eq!(super::super::r#break::DOC.to_string(), "DLOCK.BREAK key [token]");
    }

    #[test]
    fn the_arity_agrees_with_the_arguments() {
        for doc in Command::ALL.iter().map(|command| command.doc()) {
            let needed = 1 + doc.args.iter().filter(|a| !a.optional).count() as i32;
            let optional = doc.args.iter().any(|a| a.optional);
            assert_eq!(doc.arity, if optional { -needed } else { needed }, "{}", doc.name);
        }
    }
}
