//! The mode of a lock, which the options of the other languages say in two words.

use dlock_client::{Error, Mode};

/// Returns the mode of these options.
///
/// # Errors
/// [`Error::Usage`] if both are given.
pub fn mode(shared: bool, limit: Option<u16>) -> Result<Mode, Error> {
    match limit {
        Some(_) if shared => {
            Err(Error::Usage("a lock is shared, or has a limit; not both".to_owned()))
        }
        Some(permits) => Ok(Mode::Limit(permits)),
        None if shared => Ok(Mode::Shared),
        None => Ok(Mode::Exclusive),
    }
}
