//! The last word of a token at a node: its RELEASE. No request with the token is sent there afterwards.
//!
//! An earlier request without an answer may arrive after the RELEASE, and would take the lock or a place in the
//! queue. So the RELEASE says FINAL if, and only if, a request has no answer: then the node refuses the token
//! from then on. MOVED, ASK and refusals are answers.

use super::{Answer, Ask};

/// The requests of one token to one node. A request that is sent again, over another connection, counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// The number of requests without an answer.
    unanswered: u32,
    /// True if the token may have the lock or a place at the node.
    has: bool,
    /// The value of `has` before the newest request, if no other one was under way.
    before: Option<bool>,
    /// True if the RELEASE was sent.
    is_over: bool,
}

/// The outstanding RELEASE of a token at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastWord {
    /// RELEASE.
    Plain,
    /// RELEASE … FINAL: a request has no answer.
    Final,
}

impl Requests {
    /// The requests of a token that another process has used: one of them may have no answer.
    #[must_use]
    pub fn taken_over() -> Requests {
        Requests { unanswered: 1, has: true, ..Requests::default() }
    }

    /// Counts a request that is about to be sent. False: it must not be sent after the RELEASE.
    #[must_use]
    pub fn send(&mut self, ask: Ask) -> bool {
        if self.is_over {
            return false;
        }
        self.before = (self.unanswered == 0).then_some(self.has);
        self.unanswered += 1;
        self.has |= matches!(ask, Ask::Acquire { .. });
        true
    }

    /// Takes the server's answer to one of the requests; a time-out is not an answer.
    pub fn answered(&mut self, ask: Ask, answer: Answer) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if let Some(before) = self.before.filter(|_| self.unanswered == 0) {
            self.has = match answer {
                Answer::Denied | Answer::Done(_) | Answer::Finished => ask.keeps(),
                // The node did not carry it out.
                Answer::Refused(_) | Answer::TooFar | Answer::Unreachable => before || ask.keeps(),
                _ => self.has,
            };
        }
    }

    /// Ends the use of the token at the node. Returns the RELEASE to send, if there may be anything to release.
    pub fn end(&mut self) -> Option<LastWord> {
        let was_over = core::mem::replace(&mut self.is_over, true);
        match self.unanswered {
            _ if was_over => None,
            0 => self.has.then_some(LastWord::Plain),
            _ => Some(LastWord::Final),
        }
    }

    /// True if the RELEASE was sent, or none was due.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Obstacle, Wait};
    use super::*;
    use crate::words::{Fence, Millis};

    const ASKS: Ask = Ask::Acquire { fence: None, wait: None };
    const KEEPS: Ask = Ask::Acquire {
        fence: None,
        wait: Some(Wait { blocks: None, keep: Some(Millis(9)), turn: false }),
    };
    const EXTENDS: Ask = Ask::Extend { fence: Fence(7) };

    fn after(sent: &[(Ask, Option<Answer>)]) -> Option<LastWord> {
        let mut requests = Requests::default();
        for (ask, answer) in sent {
            assert!(requests.send(*ask));
            answer.iter().for_each(|answer| requests.answered(*ask, *answer));
        }
        requests.end()
    }

    #[test]
    fn a_release_is_final_if_and_only_if_a_request_has_no_answer() {
        let granted = (ASKS, Some(Answer::Granted(Fence(7))));
        assert_eq!(after(&[granted]), Some(LastWord::Plain));
        assert_eq!(after(&[granted, (EXTENDS, Some(Answer::Extended))]), Some(LastWord::Plain));
        assert_eq!(after(&[granted, (EXTENDS, None)]), Some(LastWord::Final));
        assert_eq!(after(&[(ASKS, None)]), Some(LastWord::Final));
        assert_eq!(after(&[(ASKS, None), granted]), Some(LastWord::Final));
        assert_eq!(after(&[(ASKS, None), (ASKS, Some(Answer::Denied))]), Some(LastWord::Final));
    }

    #[test]
    fn what_has_left_nothing_is_not_released() {
        let busy = Answer::Refused(Obstacle::Busy);
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[(ASKS, Some(Answer::Denied))]), None);
        assert_eq!(after(&[(ASKS, Some(busy))]), None);
        for answer in [Answer::Denied, busy] {
            assert_eq!(after(&[(KEEPS, Some(answer))]), Some(LastWord::Plain), "a place is kept");
        }
        let granted = (ASKS, Some(Answer::Granted(Fence(7))));
        assert_eq!(after(&[granted, (ASKS, Some(busy))]), Some(LastWord::Plain));
    }

    /// The order in which the node carries out two requests under way is unknown.
    #[test]
    fn an_answer_beside_another_request_does_not_say_that_nothing_is_left() {
        let mut requests = Requests::default();
        assert!(requests.send(ASKS) && requests.send(ASKS));
        requests.answered(ASKS, Answer::Granted(Fence(7)));
        requests.answered(ASKS, Answer::Denied);
        assert_eq!(requests.end(), Some(LastWord::Plain));
    }

    #[test]
    fn a_token_is_not_used_after_its_last_word() {
        let mut requests = Requests::default();
        assert!(requests.send(ASKS));
        assert!(!requests.is_over());
        assert_eq!(requests.end(), Some(LastWord::Final));
        assert!(requests.is_over() && !requests.send(ASKS));
        assert_eq!(requests.end(), None);
    }
}
