//! `DLOCK.RELEASE key token [FINAL]`

use super::options::Options;
use super::read::{self, Args};
use super::{Arg, Doc, Refusal, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.RELEASE",
    summary: "Gives a lock back and hands it to the next waiters; replies 1, or 0 if the token did not hold it",
    complexity: "O(1); O(log(N)) where N is the number of holders or of waiters",
    arity: -3,
    flags: "write fast",
    acl: "write fast",
    key: Some(Touch::Removes),
    args: &[Arg::KEY, Arg::TOKEN, Arg::flag("FINAL", "final")],
};

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The token that gives the lock back.
    pub token: &'a [u8],
    /// True if the token is done: an ACQUIRE with it that arrives later was overtaken.
    pub is_final: bool,
}

/// Reads the arguments after the key.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Release<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let options = Options::read(&DOC, &mut args)?;
    Ok(Release { token, is_final: options.has("FINAL") })
}
