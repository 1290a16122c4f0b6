//! The options of a lock by name, for languages that have named arguments or objects. This is the only list of
//! names: a language reads a [`Slot`] of each kind.

use std::time::Duration;

use dlock_client::{Error, LockOptions, Mode, Patience};

/// The options of a lock. They begin with the library's defaults.
#[derive(Default)]
pub struct Options {
    /// All options but the mode.
    others: LockOptions,
    shared: bool,
    limit: Option<u16>,
}

/// The value of an option, to read or to set.
pub enum Slot<'a> {
    /// A length of time.
    Span(&'a mut Duration),
    /// A length of time; `None`: no limit.
    MaybeSpan(&'a mut Option<Duration>),
    /// The limit of a wait.
    Wait(&'a mut Patience),
    /// True or false.
    Flag(&'a mut bool),
    /// A number of holders.
    Permits(&'a mut Option<u16>),
    /// A text.
    Text(&'a mut String),
}

impl Options {
    /// All options, with the names that they have in Rust and Python: a new one gets its row here.
    pub fn slots(&mut self) -> [(&'static str, Slot<'_>); 8] {
        let LockOptions { ttl, wait, meta, max_hold, again, renew, .. } = &mut self.others;
        [
            ("ttl", Slot::Span(ttl)),
            ("wait", Slot::Wait(wait)),
            ("shared", Slot::Flag(&mut self.shared)),
            ("limit", Slot::Permits(&mut self.limit)),
            ("meta", Slot::Text(meta)),
            ("max_hold", Slot::MaybeSpan(max_hold)),
            ("again", Slot::Flag(again)),
            ("renew", Slot::Flag(renew)),
        ]
    }

    /// The options, for the library.
    ///
    /// # Errors
    /// [`Error::Usage`] if the lock is shared and has a limit.
    pub fn finish(self) -> Result<LockOptions, Error> {
        let mode = match self.limit {
            Some(_) if self.shared => {
                let text = "a lock is shared, or has a limit; not both";
                return Err(Error::Usage(text.to_owned()));
            }
            Some(permits) => Mode::Limit(permits),
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        };
        Ok(LockOptions { mode, ..self.others })
    }
}
