//! `DLOCK.RELEASE key token [FINAL] [DONE ms [FENCE fence] [META text]]`

use super::options::Options;
use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};
use crate::limits::{MAX_DONE_FOR, MAX_FENCE};
use crate::words::{Fence, Millis};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.RELEASE",
    summary: "Releases a lock and hands it to the next waiters; replies 1, or 0 if the token did not hold it",
    complexity: "O(1); O(log(N)) where N is the number of holders or of waiters",
    arity: -3,
    flags: "write fast",
    acl: "write fast",
    key: Some(Touch::Removes),
    args: &[Arg::KEY, Arg::TOKEN, FINAL, DONE, Arg::option("FENCE", "fence", Kind::Number), META],
};

/// The documentation of the same command at an agent.
pub const AT_AGENT: Doc = Doc { args: &[Arg::KEY, Arg::TOKEN, FINAL, DONE, META], ..DOC };

const FINAL: Arg = Arg::flag("FINAL", "final");
const DONE: Arg = Arg::option("DONE", "ms", Kind::Number);
const META: Arg = Arg::option("META", "text", Kind::Text);

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The token that releases the lock.
    pub token: &'a [u8],
    /// True if this is the token's last request: an ACQUIRE with it that arrives later was overtaken.
    pub is_final: bool,
    /// The terms of the completion record; `None`: the lock becomes free.
    pub done: Option<DoneFor<'a>>,
}

/// The terms of a done lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneFor<'a> {
    /// Time until the lock is free again.
    pub time: Millis,
    /// The fence of the claim; `None`: the grant's fence.
    pub fence: Option<Fence>,
    /// The holder's text about the outcome.
    pub meta: &'a [u8],
}

/// Reads the arguments after the key.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Release<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let mut is_final = false;
    let (mut time, mut fence, mut meta) = (None, None, None);
    for option in Options::of(&DOC, args) {
        let option = option?;
        match option.word {
            "FINAL" => is_final = true,
            "DONE" => time = Some(Millis(option.number(0, MAX_DONE_FOR)?)),
            "FENCE" => fence = Some(Fence(option.number(1, MAX_FENCE)?)),
            "META" => meta = Some(read::meta(option.value)?),
            _ => return Err(option.unread(&DOC)),
        }
    }
    if time.is_none() && (fence.is_some() || meta.is_some()) {
        return Err(Refusal::DoneAlone);
    }
    let meta = meta.unwrap_or_default();
    let done = time.filter(|time| time.0 > 0).map(|time| DoneFor { time, fence, meta });
    Ok(Release { token, is_final, done })
}
