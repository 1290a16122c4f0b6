//! The figures of locks for an operator: lengths of waits and holds, and the keys with the longest waits.
//!
//! - [`lengths`]: lengths of time in buckets, which can be added up over nodes.
//! - [`hot`]: the keys with the longest waits.
//!
//! No rule depends on these figures. All of it is bounded, and an acquisition without waiting reads one byte at
//! most.

pub mod hot;
pub mod lengths;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included, Unbounded};

use hot::Figures;

pub use hot::Hot;
pub use lengths::Lengths;

use super::Node;
use super::waiting::Queues;
use crate::lock::queue::Queue;
use crate::words::{Instant, Key, KeyBuf};

/// The figures.
#[derive(Debug, Default)]
pub struct Observed {
    /// The keys with the longest waits.
    pub(super) hot: Hot,
    /// The queue that was charged last.
    charged: Option<Arc<KeyBuf>>,
}

impl Node {
    /// The keys with the longest waits, the worst first, and the queue of each.
    pub fn hot(&mut self, most: usize, now: Instant) -> Vec<(&Figures, Option<&Queue>)> {
        let listed = self.observed.hot.listed();
        let queues = listed.filter_map(|figures| queue_of(&self.waiting.queues, figures));
        let keys: Vec<Arc<KeyBuf>> = queues.map(Queue::key).collect();
        keys.iter().for_each(|key| self.charge(key.as_key(), now));
        let (worst, queues) = (self.observed.hot.worst(most, now), &self.waiting.queues);
        worst.map(|figures| (figures, queue_of(queues, figures))).collect()
    }

    /// Charges a few queues without changes. The caller calls this often.
    pub fn look_at_queues(&mut self, now: Instant) {
        for _ in 0..A_FEW.min(self.waiting.stands.len()) {
            let last = self.observed.charged.take();
            self.observed.charged = next_queue(&self.waiting.queues, last).map(Queue::key);
            if let Some(key) = self.observed.charged.clone() {
                self.charge(key.as_key(), now);
            }
        }
    }

    /// Charges the key with the time that its queue has waited since the last charge.
    pub(super) fn charge(&mut self, key: Key<'_>, now: Instant) {
        if let Some(waited) = self.waiting.change_queue(key, |queue| queue.charge(now)) {
            self.observed.hot.waited(key, waited, now);
        }
    }
}

/// The number of queues charged at a time.
const A_FEW: usize = 16;

/// The queue of a listed key. Of a long name only the beginning is stored: then a few queues are compared.
fn queue_of<'q>(queues: &'q BTreeMap<u32, Queues>, figures: &Figures) -> Option<&'q Queue> {
    let (db, begin) = (figures.db, &*figures.name);
    let from = queues.get(&db)?.range::<[u8], _>((Included(begin), Unbounded)).take(A_FEW);
    let mut alike = from.take_while(|(name, _)| name.starts_with(begin));
    alike.find(|(name, _)| figures.are_of(Key { db, name })).map(|(_, queue)| queue)
}

/// The queue after this one, or the first.
fn next_queue(queues: &BTreeMap<u32, Queues>, last: Option<Arc<KeyBuf>>) -> Option<&Queue> {
    let first = || queues.values().next().and_then(|names| names.values().next());
    let Some(last) = last else { return first() };
    let here = queues.get(&last.db);
    let after = (Excluded(&*last.name), Unbounded);
    let next = here.and_then(|names| names.range::<[u8], _>(after).next()).map(|(_, queue)| queue);
    let later = || queues.range((Excluded(last.db), Unbounded)).next();
    next.or_else(|| later().and_then(|(_, names)| names.values().next())).or_else(first)
}
