//! `DLOCK.ACQUIRE key token ttl-ms [SHARED | LIMIT n] [WAIT ms] [KEEP ms] [TURN]
//! [FENCE proposal] [AGAIN fence] [EPHEMERAL] [META text]`

use super::options::Options;
use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};
use crate::limits::{MAX_FENCE, MAX_KEEP, MAX_LIMIT, MAX_WAIT};
use crate::words::{Fence, Millis, Mode};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.ACQUIRE",
    summary: "Takes a lock for ttl-ms, or waits for it; replies with the fence, or null if it is held",
    complexity: "O(1); O(log(N)) where N is the number of holders or of waiters",
    arity: -4,
    flags: "write deny-oom fast blocking",
    acl: "write fast blocking",
    key: Some(Touch::Makes),
    args: &[
        Arg::KEY,
        Arg::TOKEN,
        Arg::TTL,
        Arg {
            name: "mode",
            word: None,
            kind: Kind::OneOf(&[
                Arg { optional: false, ..SHARED },
                Arg { optional: false, ..Arg::option("LIMIT", "n", Kind::Number) },
            ]),
            optional: true,
        },
        WAIT,
        KEEP,
        Arg::flag("TURN", "turn"),
        Arg::option("FENCE", "proposal", Kind::Number),
        AGAIN,
        EPHEMERAL,
        META,
    ],
};

/// The documentation of the same command at an agent.
pub const AT_AGENT: Doc = Doc {
    args: &[
        Arg::KEY,
        Arg::TOKEN,
        Arg::TTL,
        SHARED,
        WAIT,
        KEEP,
        AGAIN,
        EPHEMERAL,
        Arg::flag("RENEW", "renew"),
        Arg::flag("CLOSE", "close"),
        META,
    ],
    ..DOC
};

const SHARED: Arg = Arg::flag("SHARED", "shared");
const WAIT: Arg = Arg::option("WAIT", "ms", Kind::Number);
const KEEP: Arg = Arg::option("KEEP", "ms", Kind::Number);
const AGAIN: Arg = Arg::option("AGAIN", "fence", Kind::Number);
const EPHEMERAL: Arg = Arg::flag("EPHEMERAL", "ephemeral");
const META: Arg = Arg::option("META", "text", Kind::Text);

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// The client's name for this acquisition.
    pub token: &'a [u8],
    /// The lease.
    pub ttl: Millis,
    /// The mode asked for.
    pub mode: Mode,
    /// Time-out of the wait if the lock is not free; zero: no limit.
    pub wait: Option<Millis>,
    /// Time for which the place in the queue is kept after a request that ended without the lock. The lease is
    /// no longer, so a dead waiter costs other waiters at most this time.
    pub keep: Option<Millis>,
    /// True if the request is also answered once only the present holders stand before it.
    pub turn: bool,
    /// The least fence of the grant.
    pub fence: Option<Fence>,
    /// The lock is granted over a completion record with at most this fence.
    pub again: Option<Fence>,
    /// True if the grant ends with the connection.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: &'a [u8],
}

/// A parsed request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtAgent<'a> {
    /// The part that a node takes, too.
    pub asked: Acquire<'a>,
    /// True if the agent renews the lease as long as the connection lives.
    pub renew: bool,
    /// True if the agent closes the connection when the lock is lost.
    pub close: bool,
}

/// Reads the arguments after the key.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Acquire<'a>, Refusal<'a>> {
    parse_by(&DOC, args).map(|at_agent| at_agent.asked)
}

/// Reads the arguments after the key, of a request to an agent.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse_at_agent<'a>(args: &[&'a [u8]]) -> Result<AtAgent<'a>, Refusal<'a>> {
    let parsed = parse_by(&AT_AGENT, args)?;
    let needs_connection = parsed.renew || parsed.close;
    if needs_connection && !parsed.asked.ephemeral {
        return Err(Refusal::NotEphemeral);
    }
    Ok(parsed)
}

fn parse_by<'a>(doc: &'static Doc, args: &[&'a [u8]]) -> Result<AtAgent<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let ttl = read::ttl(args.need()?)?;
    let mut asked = Acquire {
        token,
        ttl,
        mode: Mode::Exclusive,
        wait: None,
        keep: None,
        turn: false,
        fence: None,
        again: None,
        ephemeral: false,
        meta: b"",
    };
    let (mut renew, mut close) = (false, false);
    for option in Options::of(doc, args) {
        let option = option?;
        match option.word {
            "SHARED" => asked.mode = other_mode(asked.mode, Mode::Shared)?,
            "LIMIT" => {
                let n = u16::try_from(option.number(1, MAX_LIMIT)?).unwrap_or(u16::MAX);
                asked.mode = other_mode(asked.mode, Mode::Limit(n))?;
            }
            "WAIT" => asked.wait = Some(Millis(option.number(0, MAX_WAIT)?)),
            "KEEP" => asked.keep = Some(Millis(option.number(1, MAX_KEEP)?)),
            "TURN" => asked.turn = true,
            "FENCE" => asked.fence = Some(Fence(option.number(1, MAX_FENCE)?)),
            "AGAIN" => asked.again = Some(Fence(option.number(1, MAX_FENCE)?)),
            "EPHEMERAL" => asked.ephemeral = true,
            "META" => asked.meta = read::meta(option.value)?,
            "RENEW" => renew = true,
            "CLOSE" => close = true,
            _ => return Err(option.unread(doc)),
        }
    }
    let Acquire { ttl, keep, turn, .. } = asked;
    match keep {
        None if turn => Err(Refusal::TurnAlone),
        Some(keep) if ttl > keep => Err(Refusal::LongerThanKeep { ttl, keep }),
        _ => Ok(AtAgent { asked, renew, close }),
    }
}

/// The mode that an option asks for, unless another option has asked for one.
fn other_mode<'a>(before: Mode, asked: Mode) -> Result<Mode, Refusal<'a>> {
    if before == Mode::Exclusive { Ok(asked) } else { Err(Refusal::TwoModes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn parsed(words: &'static str) -> Result<Acquire<'static>, Refusal<'static>> {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        parse(&args)
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let one = parsed("t 10 LIMIT 3 WAIT 0 KEEP 90 FENCE 7 EPHEMERAL META x");
        assert_eq!(one, parsed("t 10 meta x ephemeral fence 7 keep 90 wait 0 limit 3"));
        let one = one.unwrap();
        assert_eq!(
            (one.mode, one.wait, one.keep, one.fence),
            (Mode::Limit(3), Some(Millis(0)), Some(Millis(90)), Some(Fence(7)))
        );
        assert!(one.ephemeral);
        assert_eq!(one.meta, b"x");
    }

    #[test]
    fn an_agent_has_options_of_its_own_and_lacks_those_for_nodes() {
        let parsed = |words: &'static str| {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            parse_at_agent(&args)
        };
        let one =
            parsed("t 10 SHARED WAIT 5 KEEP 10 AGAIN 7 EPHEMERAL RENEW CLOSE META x").unwrap();
        assert!(one.renew && one.close && one.asked.ephemeral);
        assert_eq!((one.asked.mode, one.asked.meta), (Mode::Shared, &b"x"[..]));
        assert_eq!(one.asked.again, Some(Fence(7)));
        assert!(!parsed("t 10 EPHEMERAL").unwrap().renew);
        for alone in ["t 10 RENEW", "t 10 CLOSE"] {
            assert_eq!(parsed(alone), Err(Refusal::NotEphemeral));
        }
        for other in ["t 10 TURN", "t 10 LIMIT 2", "t 10 FENCE 7"] {
            assert!(matches!(parsed(other), Err(Refusal::Unknown { .. })), "{other}");
        }
    }

    #[test]
    fn a_word_can_be_a_value() {
        assert_eq!(parsed("WAIT 10 META WAIT").unwrap().meta, b"WAIT");
    }

    #[test]
    fn contradictions_and_repetitions_are_refused() {
        assert_eq!(parsed("t 10 SHARED LIMIT 2"), Err(Refusal::TwoModes));
        assert_eq!(parsed("t 10 SHARED SHARED"), Err(Refusal::Repeated("SHARED")));
        assert_eq!(parsed("t 10 WAIT 1 wait 1"), Err(Refusal::Repeated("WAIT")));
        assert_eq!(parsed("t 10 WAIT 0 TURN"), Err(Refusal::TurnAlone));
        assert!(parsed("t 10 KEEP 10 TURN").unwrap().turn);
        assert!(parsed("t 10 WAIT 0 KEEP 10 TURN").unwrap().turn);
        assert_eq!(parsed("t 10 WAIT"), Err(Refusal::Unfinished("WAIT")));
        assert!(matches!(parsed("t 10 NX"), Err(Refusal::Unknown { given: b"NX", .. })));
        assert_eq!(parsed("t"), Err(Refusal::Arity));
    }

    #[test]
    fn with_keep_a_lease_is_no_longer_than_that() {
        assert!(parsed("t 50 WAIT 0 KEEP 50").is_ok());
        let refused = parsed("t 51 WAIT 0 KEEP 50").unwrap_err();
        assert_eq!(refused, Refusal::LongerThanKeep { ttl: Millis(51), keep: Millis(50) });
        let text = alloc::string::ToString::to_string(&refused);
        assert!(text.contains("ttl-ms 51") && text.contains("KEEP 50"), "{text}");
    }

    #[test]
    fn numbers_have_bounds() {
        for within in [
            "t 1 LIMIT 1 WAIT 0 KEEP 1 FENCE 1 AGAIN 1",
            "t 4294967295 WAIT 0",
            "t 60000 LIMIT 65535 KEEP 60000 FENCE 9007199254740991 AGAIN 9007199254740991",
        ] {
            assert!(parsed(within).is_ok(), "{within}");
        }
        for (beyond, of) in [
            ("t 0", "ttl-ms"),
            ("t 4294967296", "ttl-ms"),
            ("t 1 LIMIT 0", "LIMIT"),
            ("t 1 LIMIT 65536", "LIMIT"),
            ("t 1 KEEP 0", "KEEP"),
            ("t 1 KEEP 60001", "KEEP"),
            ("t 1 FENCE 0", "FENCE"),
            ("t 1 FENCE 9007199254740992", "FENCE"),
            ("t 1 AGAIN 0", "AGAIN"),
            ("t 1 AGAIN 9007199254740992", "AGAIN"),
        ] {
            let refused = parsed(beyond);
            assert!(
                matches!(refused, Err(Refusal::Number { what, .. }) if what == of),
                "{beyond}: {refused:?}"
            );
        }
    }
}
