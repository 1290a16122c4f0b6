//! A few futures at once: as many as there are nodes, or not many more.

use std::future::poll_fn;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};

/// Futures under way.
///
/// Each wake-up polls all of them in their order of arrival, which is cheap for a handful. `FuturesUnordered`
/// polls only the woken ones, but wakes its task once more after each round, and with it a second thread:
/// that costs more than a request.
pub(crate) struct UnderWay<T>(Vec<BoxFuture<'static, T>>);

impl<T> UnderWay<T> {
    pub(crate) fn new() -> UnderWay<T> {
        UnderWay(Vec::new())
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(future));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the first outcome that is ready. Pending if none is, or there is no future.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        for place in 0..self.0.len() {
            if let Poll::Ready(outcome) = self.0[place].poll_unpin(cx) {
                drop(self.0.remove(place));
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    }

    /// Waits for the first outcome; `None` if there is no future.
    pub(crate) async fn next(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        Some(poll_fn(|cx| self.poll(cx)).await)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn the_oldest_future_is_polled_first_and_none_is_lost() {
        let mut numbers = UnderWay::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(numbers.poll(&mut cx), Poll::<u32>::Pending);
        numbers.push(pending());
        for number in 1..4 {
            numbers.push(ready(number));
        }
        for number in 1..4 {
            assert_eq!(numbers.poll(&mut cx), Poll::Ready(number));
        }
        assert_eq!(numbers.poll(&mut cx), Poll::Pending);
        assert!(!numbers.is_empty());
    }
}
