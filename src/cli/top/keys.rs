//! The effect of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::view::{Page, View};

/// A request of the user that the view cannot carry out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    /// Look at the lock of the page.
    Look,
}

/// Handles a key.
pub fn pressed(view: &mut View, key: KeyEvent) -> Option<Wish> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Wish::Quit),
            _ => None,
        };
    }
    view.said = "";
    match key.code {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Char('?') => view.page = Page::Help,
        KeyCode::Up | KeyCode::Char('k') => view.select(view.selected.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => view.select(view.selected + 1),
        KeyCode::PageUp => view.select(view.selected.saturating_sub(PAGE)),
        KeyCode::PageDown => view.select(view.selected + PAGE),
        KeyCode::Home | KeyCode::Char('g') => view.select(0),
        KeyCode::End | KeyCode::Char('G') => view.select(usize::MAX),
        KeyCode::Enter => match view.selected_key()? {
            Ok(key) => {
                (view.page, view.selected) = (Page::Lock { key, answers: Vec::new() }, 0);
                return Some(Wish::Look);
            }
            Err(why) => view.said = why,
        },
        KeyCode::Esc => (view.page, view.selected) = (Page::Hot, 0),
        _ => {}
    }
    None
}

/// Lines of a page step.
const PAGE: usize = 10;
