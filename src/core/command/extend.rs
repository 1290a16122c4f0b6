//! `DLOCK.EXTEND key token ttl-ms [FENCE f] [GT]`

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};
use crate::limits::MAX_FENCE;
use crate::settings::Settings;
use crate::words::{Fence, Millis};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.EXTEND",
    summary: "Lets a held lock end ttl-ms from now; replies 1, or 0 if the token does not hold it",
    complexity: "O(1); O(log(N)) where N is the number of holders",
    arity: -4,
    flags: "write fast",
    acl: "write fast",
    key: Some(Touch::Changes),
    args: &[
        Arg::KEY,
        Arg::TOKEN,
        Arg::TTL,
        Arg::option("FENCE", "fence", Kind::Number),
        Arg::flag("GT", "gt"),
    ],
};

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend<'a> {
    /// Who holds.
    pub token: &'a [u8],
    /// The lease from now on.
    pub ttl: Millis,
    /// Only if the holder's fence is not greater, and then it is raised to this.
    pub fence: Option<Fence>,
    /// GT, as of EXPIRE: a lease that ends later anyway is left as it is. So a request that comes
    /// late does no harm.
    pub gt: bool,
}

/// Reads the arguments after the key.
///
/// # Errors
/// When an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]], settings: &Settings) -> Result<Extend<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let ttl = Millis(read::number("ttl-ms", args.need()?, 1, settings.max_ttl)?);
    let (mut fence, mut gt) = (None, false);
    while let Some(word) = args.take() {
        let repeated = if word.eq_ignore_ascii_case(b"FENCE") {
            let given = read::number("FENCE", args.value("FENCE")?, 1, MAX_FENCE)?;
            fence.replace(Fence(given)).map(|_| "FENCE")
        } else if word.eq_ignore_ascii_case(b"GT") {
            core::mem::replace(&mut gt, true).then_some("GT")
        } else {
            return Err(Refusal::Unknown { given: word, options: OPTIONS });
        };
        if let Some(option) = repeated {
            return Err(Refusal::Repeated(option));
        }
    }
    Ok(Extend { token, ttl, fence, gt })
}

const OPTIONS: &str = "FENCE f and GT";
