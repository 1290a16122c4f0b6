//! The content of the screen, and the selection in it.

use crate::locks::inspect::{self, Inspections};
use crate::watch::Look;
use crate::watch::look::HotKey;

/// The state of the screen.
#[derive(Default)]
pub struct View {
    pub look: Option<Look>,
    pub page: Page,
    /// The reason why the selected lock has no page.
    pub said: &'static str,
    /// Index of the selected line.
    pub selected: usize,
}

/// The page on the screen.
#[derive(Default)]
pub enum Page {
    /// The most contended locks.
    #[default]
    Hot,
    /// One lock.
    Lock { key: Vec<u8>, answers: Inspections },
    /// The keys and their effects.
    Help,
}

impl View {
    /// Takes a new look at the nodes.
    pub fn see(&mut self, look: Look) {
        self.look = Some(look);
        self.select(self.selected);
    }

    /// Takes a new look at the lock of the page.
    pub fn show(&mut self, inspected: Option<Inspections>) {
        if let (Page::Lock { answers, .. }, Some(inspected)) = (&mut self.page, inspected) {
            *answers = inspected;
            self.select(self.selected);
        }
    }

    /// The hot locks that are shown.
    pub fn hot(&self) -> Vec<&HotKey> {
        self.look.as_ref().map_or(Vec::new(), Look::hot)
    }

    /// Number of lines that can be selected.
    pub fn lines(&self) -> usize {
        match &self.page {
            Page::Hot => self.hot().len(),
            Page::Lock { answers, .. } => inspect::rows(answers).len(),
            Page::Help => 0,
        }
    }

    /// Selects a line, or the last.
    pub fn select(&mut self, line: usize) {
        self.selected = line.min(self.lines().saturating_sub(1));
    }

    /// The key of the selected line, or the reason why its lock has no page.
    pub fn selected_key(&self) -> Option<Result<Vec<u8>, &'static str>> {
        let Page::Hot = self.page else { return None };
        self.hot().get(self.selected).map(|key| match key {
            HotKey { is_whole: false, .. } => Err(CUT),
            HotKey { is_here: false, .. } => Err(ELSEWHERE),
            key => Ok(key.name.clone()),
        })
    }

    /// Number of lines of the whole page. At least half of them are for locks.
    pub fn height_of_all(&self) -> u16 {
        let nodes = self.look.as_ref().map_or(0, |look| look.nodes.len());
        u16::try_from(nodes + self.hot().len().max(nodes) + 6).unwrap_or(u16::MAX).min(400)
    }
}

/// Reasons why a lock has no page.
const CUT: &str = "the node has not kept its whole name: see dlock inspect";
const ELSEWHERE: &str = "the lock is in another database than the nodes' URLs name";
