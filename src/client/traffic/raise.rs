//! Raises a node's fence to the claim's.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::Fence;
use dlock_core::quorum::Ask;
use redis::Cmd;
use tokio::time::{Instant, sleep};

use crate::reach::node::Node;
use crate::report::{NodeError, code};
use crate::traffic::attempt::{Attempt, Sent};

/// Asks the node, and repeats this for a short time while the fence is too far ahead of the node's
/// clock.
///
/// Another client may propose the largest accepted fences, for a key that shares its counter with this one. A
/// grant of one node is then too far ahead for another node, with a clock that is a little behind. This
/// attempt holds its leases meanwhile, so no client can raise this fence further.
pub(crate) async fn raise(
    attempt: &Attempt,
    to: (&Arc<Node>, usize),
    command: &Cmd,
    fence: Fence,
    within: Duration,
) -> Sent {
    let end = Instant::now() + within;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let reply = attempt.ask(to, Ask::Extend { fence }, command, left).await;
        let Some(pause) = reply.0.as_ref().err().and_then(|error| too_early(error, fence)) else {
            return reply;
        };
        if Instant::now() + pause >= end {
            return reply;
        }
        sleep(pause).await;
    }
}

/// Time until the node's clock allows the fence, if the node refused for this reason.
fn too_early(error: &NodeError, fence: Fence) -> Option<Duration> {
    let NodeError::Refused(text) = error else { return None };
    let most = code::most(text)?;
    // Fences are microseconds.
    Some(Duration::from_micros(fence.0.saturating_sub(most).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_says_how_far_its_clock_is_behind() {
        let early = |text: &str| too_early(&NodeError::Refused(text.to_owned()), Fence(900));
        let far = "TOOFAR 500 is the largest fence that this node accepts now; FENCE 900 is";
        assert_eq!(early(far), Some(Duration::from_micros(400)));
        assert_eq!(early("TOOFAR 900 is"), Some(Duration::from_micros(1)));
        assert_eq!(
            (early("TOOFAR FENCE 900 is"), early("QUARANTINE 500 ms until grants resume: x")),
            (None, None)
        );
        assert_eq!(too_early(&NodeError::TimedOut(Duration::ZERO), Fence(900)), None);
    }
}
