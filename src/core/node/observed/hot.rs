//! The most contended keys, out of any number, in bounded memory.
//!
//! A space-saving summary with a filter (Homem and Carvalho, 2010). Each of a few keys has a weight: about how
//! long clients waited for it. A key that is not listed adds to its cell, which it shares with other keys. It
//! takes the lightest key's place once the cell is heavier than that key. So many short-lived keys cannot push
//! out a contended one: a listed key goes only when the keys of one cell outweigh it.
//!
//! Every minute all weights halve: the figures cover about the last two minutes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::{HOT_KEYS, HOT_NAME};
use crate::words::{Instant, Key};

/// The summary.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    /// The hash, weight and figures of each key, at the same index of three lists: the first two are searched.
    hashes: Vec<u64>,
    weights: Vec<u64>,
    figures: Vec<Figures>,
    /// The weights of keys that are not listed, added up by cell. Empty before the first key.
    cells: Vec<u64>,
    /// The number of listed keys in each cell.
    listed: Vec<u8>,
    /// A lower bound of the weights of listed keys.
    least: u64,
    /// Time of the last halving.
    halved: Instant,
}

/// The figures of a key, since it was listed. Everything but `longest` halves with the weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The hash of the whole name.
    hash: u64,
    /// The database.
    pub db: u32,
    /// The name, or the beginning of a long one.
    pub name: Box<[u8]>,
    /// The length of the name.
    pub length: usize,
    /// The microseconds that all clients together have waited for it.
    pub waited: u64,
    /// The number of grants.
    pub grants: u64,
    /// The number of grants to requests that had waited.
    pub hand_overs: u64,
    /// The number of refusals to requests that did not wait.
    pub denials: u64,
    /// The longest waits that ended with a grant since the last halving, and before.
    longest: [u64; 2],
}

impl Figures {
    fn of(key: Key<'_>) -> Figures {
        let (hash, name) = (hash(key), beginning(key.name).into());
        Figures { hash, db: key.db, name, length: key.name.len(), ..Figures::default() }
    }

    /// True if these are the figures of this key.
    #[must_use]
    pub fn are_of(&self, key: Key<'_>) -> bool {
        let whole = (self.hash, self.db, self.length) == (hash(key), key.db, key.name.len());
        whole && *self.name == *beginning(key.name)
    }

    /// The longest wait of the last one or two minutes that ended with a grant, in microseconds.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest[0].max(self.longest[1])
    }

    /// The certain part of its weight: the rest may belong to keys that once shared its cell.
    fn certain(&self) -> u64 {
        self.waited.saturating_add(self.denials.saturating_mul(DENIAL))
    }

    fn halve(&mut self, times: u32) {
        let Figures { waited, grants, hand_overs, denials, .. } = self;
        for figure in [waited, grants, hand_overs, denials] {
            *figure = halved(*figure, times);
        }
        self.longest = if times == 1 { [0, self.longest[0]] } else { [0, 0] };
    }
}

impl Hot {
    /// Notes that all waiters together have waited this many microseconds for the key.
    pub fn waited(&mut self, key: Key<'_>, micros: u64, now: Instant) {
        if let Some(figures) = self.weigh(key, micros, now) {
            figures.waited = figures.waited.saturating_add(micros);
        }
    }

    /// Notes a refusal to a request that did not wait.
    pub fn denied(&mut self, key: Key<'_>, now: Instant) {
        if let Some(figures) = self.weigh(key, DENIAL, now) {
            figures.denials += 1;
        }
    }

    /// Notes a grant, if the key is listed: an uncontended key costs nothing.
    pub fn granted(&mut self, key: Key<'_>, waited: Option<u64>) {
        if self.hashes.is_empty() {
            return;
        }
        let Some(figures) = self.find(hash(key), key).and_then(|at| self.figures.get_mut(at))
        else {
            return;
        };
        figures.grants += 1;
        if let Some(waited) = waited {
            figures.hand_overs += 1;
            figures.longest[0] = figures.longest[0].max(waited);
        }
    }

    /// All listed keys.
    pub fn listed(&self) -> impl Iterator<Item = &Figures> {
        self.figures.iter()
    }

    /// The most contended keys, the worst first.
    pub fn worst(&mut self, most: usize, now: Instant) -> impl Iterator<Item = &Figures> {
        self.halve(now);
        let mut worst: Vec<&Figures> = self.figures.iter().collect();
        worst.sort_by_key(|figures| core::cmp::Reverse(figures.certain()));
        worst.into_iter().take(most)
    }

    /// An estimate of its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let names: usize = self.figures.iter().map(|figures| figures.name.len()).sum();
        let numbers = self.hashes.capacity() + self.weights.capacity() + self.cells.capacity();
        let figures = self.figures.capacity() * size_of::<Figures>();
        names + numbers * size_of::<u64>() + figures + self.listed.capacity()
    }

    /// Adds to a key's weight. `None`: the key is not listed.
    fn weigh(&mut self, key: Key<'_>, weight: u64, now: Instant) -> Option<&mut Figures> {
        if weight == 0 {
            return None;
        }
        self.halve(now);
        if self.cells.is_empty() {
            (self.cells, self.listed) = (vec![0; CELLS], vec![0; CELLS]);
        }
        let hash = hash(key);
        if let Some(at) = self.find(hash, key) {
            let weighed = self.weights.get_mut(at)?;
            *weighed = weighed.saturating_add(weight);
            return self.figures.get_mut(at);
        }
        let cell = self.cells.get_mut(cell(hash))?;
        let weighed = cell.saturating_add(weight);
        if self.hashes.len() < HOT_KEYS {
            return self.list(hash, key, weighed);
        }
        if weighed > self.least {
            let lightest = self.weights.iter().enumerate().min_by_key(|(_, weight)| **weight);
            let (at, least) = lightest.map(|(at, weight)| (at, *weight))?;
            self.least = least;
            if weighed > least {
                self.strike(at);
                return self.list(hash, key, weighed);
            }
        }
        *cell = weighed;
        None
    }

    /// The index of the key.
    fn find(&self, hash: u64, key: Key<'_>) -> Option<usize> {
        if self.listed.get(cell(hash)).is_none_or(|listed| *listed == 0) {
            return None;
        }
        let at = self.hashes.iter().position(|listed| *listed == hash)?;
        self.figures.get(at).filter(|figures| figures.are_of(key)).map(|_| at)
    }

    fn list(&mut self, hash: u64, key: Key<'_>, weight: u64) -> Option<&mut Figures> {
        if let Some(listed) = self.listed.get_mut(cell(hash)) {
            *listed += 1;
        }
        self.hashes.push(hash);
        self.weights.push(weight);
        self.least = self.least.min(weight);
        self.figures.push(Figures::of(key));
        self.figures.last_mut()
    }

    /// Removes a key. Its weight stays in its cell: if the key returns, it does not start from zero.
    fn strike(&mut self, at: usize) {
        let cell = cell(self.hashes.swap_remove(at));
        let weight = self.weights.swap_remove(at);
        self.figures.swap_remove(at);
        if let Some((shared, listed)) = self.cells.get_mut(cell).zip(self.listed.get_mut(cell)) {
            *shared = (*shared).max(weight);
            *listed -= 1;
        }
    }

    /// Halves everything for each minute that has passed, and removes light keys.
    fn halve(&mut self, now: Instant) {
        if self.cells.is_empty() {
            // The first minute begins with the first key.
            self.halved = now;
            return;
        }
        let times = now.since(self.halved) / HALF_LIFE;
        if times == 0 {
            return;
        }
        self.halved = Instant(self.halved.0.saturating_add(times * HALF_LIFE));
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.least = 0;
        for weight in self.weights.iter_mut().chain(&mut self.cells) {
            *weight = halved(*weight, times);
        }
        self.figures.iter_mut().for_each(|figures| figures.halve(times));
        let mut at = 0;
        while let Some(weight) = self.weights.get(at) {
            if *weight < DENIAL { self.strike(at) } else { at += 1 }
        }
    }
}

/// The number of cells for keys that are not listed.
const CELLS: usize = 1024;
/// Weights halve after this many microseconds.
const HALF_LIFE: u64 = 60 * 1_000_000;
/// A refusal weighs as much as a millisecond of waiting: the waits of clients that poll cannot be seen.
const DENIAL: u64 = 1_000;

fn hash(key: Key<'_>) -> u64 {
    xxh3_64_with_seed(key.name, u64::from(key.db))
}

fn cell(hash: u64) -> usize {
    hash as usize % CELLS
}

fn beginning(name: &[u8]) -> &[u8] {
    name.get(..HOT_NAME).unwrap_or(name)
}

fn halved(number: u64, times: u32) -> u64 {
    number.checked_shr(times).unwrap_or(0)
}

#[cfg(test)]
mod tests;
