//! The content of the screen, and the selection in it.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use super::draw::lock;
use crate::locks::inspect::Inspections;
use crate::nodes::ask::{Answers, Trouble};
use crate::say::bytes;
use crate::watch::Look;
use crate::watch::look::HotKey;
use crate::watch::sample::Sample;

/// Everything.
#[derive(Default)]
pub struct View {
    pub look: Option<Look>,
    pub page: Page,
    pub sort: Sort,
    /// Only keys that contain this.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// The question whether to end the lock is on the screen.
    pub asks: bool,
    /// Outcome of the last wish.
    pub said: String,
    /// Which line is selected.
    pub selected: usize,
    /// Numbers of waiters for each hot key, at the last looks.
    waiting: HashMap<(u64, Vec<u8>), VecDeque<u64>>,
}

/// The page on the screen.
#[derive(Default)]
pub enum Page {
    /// The locks that hurt most.
    #[default]
    Hot,
    /// One lock.
    Lock { key: Vec<u8>, answers: Inspections },
    /// Some locks, as they were when somebody asked.
    Locks(Listing),
    /// The keys and their effects.
    Help,
}

/// Some locks, or why none are listed.
pub type Listing = Result<Sample, Trouble>;

/// By what the hot locks are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Waited,
    Longest,
    Waiting,
    HandOvers,
    Key,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Waited => Sort::Longest,
            Sort::Longest => Sort::Waiting,
            Sort::Waiting => Sort::HandOvers,
            Sort::HandOvers => Sort::Key,
            Sort::Key => Sort::Waited,
        }
    }
}

impl View {
    /// The nodes have been looked at.
    pub fn see(&mut self, look: Look) {
        let hot = look.hot();
        let id = |key: &HotKey| (key.db, key.name.clone());
        // Keys that are not busy any more are forgotten.
        let mut waiting = HashMap::new();
        for key in hot {
            let mut line = self.waiting.remove(&id(key)).unwrap_or_default();
            line.push_back(key.waiting);
            if line.len() > SPARKS {
                line.pop_front();
            }
            waiting.insert(id(key), line);
        }
        self.waiting = waiting;
        self.look = Some(look);
        self.select(self.selected);
    }

    /// Some locks have been listed.
    pub fn list(&mut self, listing: Listing) {
        self.page = Page::Locks(listing);
        self.selected = 0;
    }

    /// The hot locks that are shown.
    pub fn hot(&self) -> Vec<&HotKey> {
        let mut keys = self.look.as_ref().map_or(Vec::new(), Look::hot);
        keys.retain(|key| self.filter.is_empty() || bytes::shown(&key.name).contains(&self.filter));
        match self.sort {
            Sort::Waited => keys.sort_by_key(|key| Reverse(key.waited)),
            Sort::Longest => keys.sort_by_key(|key| Reverse(key.longest)),
            Sort::Waiting => keys.sort_by_key(|key| Reverse(key.waiting)),
            Sort::HandOvers => keys.sort_by_key(|key| Reverse(key.hand_overs)),
            Sort::Key => keys.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        keys
    }

    /// Numbers of waiters for a key, at the last looks.
    pub fn waiting(&self, key: &HotKey) -> impl Iterator<Item = u64> {
        let line = self.waiting.get(&(key.db, key.name.clone()));
        line.into_iter().flatten().copied()
    }

    /// Number of lines that can be selected.
    pub fn lines(&self) -> usize {
        match &self.page {
            Page::Hot => self.hot().len(),
            Page::Locks(Ok(some)) => some.locks.len(),
            Page::Lock { answers, .. } => lock::lines(answers),
            Page::Locks(Err(_)) | Page::Help => 0,
        }
    }

    /// Selects a line, or the last.
    pub fn select(&mut self, line: usize) {
        self.selected = line.min(self.lines().saturating_sub(1));
    }

    /// The key of the line that is selected, or the reason for which its lock has no page.
    pub fn selected_key(&self) -> Option<Result<Vec<u8>, &'static str>> {
        match &self.page {
            Page::Hot => self.hot().get(self.selected).map(|key| match key {
                HotKey { is_whole: false, .. } => Err(CUT),
                HotKey { is_here: false, .. } => Err(ELSEWHERE),
                key => Ok(key.name.clone()),
            }),
            Page::Locks(Ok(some)) => some.locks.get(self.selected).map(|(key, _)| Ok(key.clone())),
            _ => None,
        }
    }

    /// Number of lines of the whole page. Half of them are for locks, however few there are.
    pub fn height_of_all(&self) -> u16 {
        let nodes = self.look.as_ref().map_or(0, |look| look.nodes.len());
        u16::try_from(nodes + self.hot().len().max(nodes) + 6).unwrap_or(u16::MAX).min(400)
    }
}

/// The text about the end of a lock.
pub fn outcome(answers: &Answers<u64>) -> String {
    let ended = answers.iter().filter(|(_, answer)| matches!(answer, Ok(ended) if *ended > 0));
    let ended = ended.count();
    let trouble = answers.iter().find_map(|(name, answer)| Some((name, answer.as_ref().err()?)));
    match trouble {
        Some((name, trouble)) => format!("ended on {ended} nodes; {name}: {trouble}"),
        None => format!("ended on {ended} of {} nodes", answers.len()),
    }
}

/// Number of looks in a sparkline.
pub const SPARKS: usize = 12;

/// Reasons for which a lock has no page.
const CUT: &str = "the node has not kept its whole name: see dlock inspect";
const ELSEWHERE: &str = "the lock is in another database than the nodes' URLs name";
