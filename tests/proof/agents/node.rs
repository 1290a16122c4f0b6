//! A node, as small as it can be: one lock whose lease ends, the text that its holder gave, the mark of a holder that
//! left it done, and the tokens that are used up.

use dlock_core::quorum::attempts::Shown;
use dlock_core::quorum::{Answer, Mark, Obstacle};
use dlock_core::{Fence, Millis};

/// A lease ends this many ticks after the request was carried out.
pub const LEASE: u8 = 2;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The holder.
    pub holder: Option<Holder>,
    /// The largest fence that it has given or heard of.
    pub counter: u64,
    /// The suffixes that are used up, one bit each.
    pub finals: u8,
    /// The attempt that left the lock done. The mark lasts until another caller takes the lock again.
    pub mark: Option<u8>,
}

/// A holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The attempt's suffix; `None`: another caller.
    pub suffix: Option<u8>,
    /// The fence of the grant.
    pub fence: u64,
    /// META: the fence of the claim, if that has stood.
    stood: Option<u64>,
    /// The tick at which the lease ends. Another caller leaves as soon as it likes.
    end: u8,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// ACQUIRE.
    Acquire {
        /// FENCE.
        fence: Option<u64>,
        /// META says that the claim has stood, with this fence.
        stood: Option<u64>,
    },
    /// EXTEND … GT, with FENCE if it is set.
    Extend(Option<u64>),
    /// RELEASE; true: FINAL.
    Release(bool),
    /// RELEASE … DONE.
    Done,
    /// CHECK: yes if the token holds with this fence.
    Check(u64),
    /// INSPECT.
    Inspect,
}

impl What {
    /// True if it tells that a claim has stood.
    pub fn is_stood(self) -> bool {
        matches!(self, What::Acquire { stood: Some(_), .. })
    }
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Say {
    /// The answer to ACQUIRE or EXTEND.
    Votes(Answer),
    /// The answer to RELEASE, with DONE or without, or to CHECK.
    Is(bool),
    /// The caller's attempt that holds here, and the fence of its grant.
    Shows(Option<(Shown<u8>, u64)>),
}

impl Place {
    /// True if the attempt holds here.
    pub fn is_held_by(&self, suffix: u8) -> bool {
        self.holder.is_some_and(|holder| holder.suffix == Some(suffix))
    }

    /// True if another caller holds.
    pub fn is_others(&self) -> bool {
        self.holder.is_some_and(|holder| holder.suffix.is_none())
    }

    /// True if the attempt left the lock done here.
    pub fn is_marked_by(&self, suffix: u8) -> bool {
        self.mark == Some(suffix)
    }

    /// Another caller takes the lock, if nobody holds it. Returns the fence.
    pub fn grab(&mut self) -> Option<u64> {
        if self.holder.is_some() {
            return None;
        }
        self.counter += 1;
        let fence = self.counter;
        self.mark = None;
        self.holder = Some(Holder { suffix: None, fence, stood: None, end: u8::MAX });
        Some(fence)
    }

    /// The other caller raises its grant.
    pub fn raise(&mut self, fence: u64) {
        self.counter = self.counter.max(fence);
    }

    /// Ends the lease, if its time is over.
    pub fn expire(&mut self, now: u8) {
        self.holder = self.holder.filter(|holder| holder.end > now);
    }

    /// Carries a request out.
    pub fn carry_out(&mut self, suffix: u8, what: What, now: u8) -> Say {
        let holds = self.is_held_by(suffix);
        let is_held = self.holder.is_some();
        let mine = self.holder.as_mut().filter(|_| holds);
        match (what, mine) {
            (What::Acquire { .. }, _) if self.finals & 1 << suffix != 0 => {
                Say::Votes(Answer::Refused(Obstacle::Never))
            }
            (What::Acquire { stood, .. }, Some(mine)) => {
                (mine.end, mine.stood) = (mine.end.max(now + LEASE), stood);
                Say::Votes(Answer::Granted(Fence(mine.fence)))
            }
            (What::Acquire { .. }, None) if is_held => Say::Votes(Answer::Denied),
            (What::Acquire { .. }, None) if self.mark.is_some() => Say::Votes(DONE),
            (What::Acquire { fence, stood }, None) => {
                self.counter = fence.unwrap_or(0).max(self.counter + 1);
                let (fence, end) = (self.counter, now + LEASE);
                self.holder = Some(Holder { suffix: Some(suffix), fence, stood, end });
                Say::Votes(Answer::Granted(Fence(fence)))
            }
            (What::Extend(to), Some(mine)) if to.is_none_or(|to| to >= mine.fence) => {
                (mine.end, mine.fence) = (mine.end.max(now + LEASE), to.unwrap_or(mine.fence));
                self.counter = self.counter.max(mine.fence);
                Say::Votes(Answer::Extended)
            }
            (What::Extend(_), _) => Say::Votes(Answer::Gone),
            (What::Release(is_final), _) => {
                self.finals |= u8::from(is_final) << suffix;
                self.holder = self.holder.filter(|_| !holds);
                Say::Is(holds)
            }
            (What::Done, Some(_)) => {
                (self.holder, self.mark) = (None, Some(suffix));
                Say::Is(true)
            }
            (What::Done, None) => Say::Is(self.is_marked_by(suffix)),
            (What::Check(fence), mine) => Say::Is(mine.is_some_and(|mine| mine.fence == fence)),
            (What::Inspect, _) => Say::Shows(self.holder.and_then(|holder| {
                let stood = holder.stood.map(Fence);
                Some((Shown { suffix: holder.suffix?, stood }, holder.fence))
            })),
        }
    }
}

/// Nobody asks whose mark it is.
const DONE: Answer = Answer::Done(Mark { fence: Fence(1), left: Millis(u64::MAX) });
