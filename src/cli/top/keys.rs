//! The effect of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::view::{Page, View};

/// A request of the user that the view cannot carry out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    /// Ctrl-Z: back to the shell for a while.
    Stop,
    /// Look at the lock of the page.
    Look,
}

/// Handles a key.
pub fn pressed(view: &mut View, key: KeyEvent) -> Option<Wish> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Wish::Quit),
            KeyCode::Char('z') => Some(Wish::Stop),
            _ => None,
        };
    }
    view.said = "";
    if view.is_typing {
        typed(view, key.code);
        return None;
    }
    command(view, key.code)
}

fn command(view: &mut View, key: KeyCode) -> Option<Wish> {
    match key {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Char('?') => view.page = Page::Help,
        KeyCode::Char('/') => {
            (view.page, view.is_typing) = (Page::Hot, true);
        }
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
        KeyCode::Esc => match view.page {
            // Esc undoes the filter last.
            Page::Hot => view.filter.clear(),
            _ => (view.page, view.selected) = (Page::Hot, 0),
        },
        _ => {}
    }
    None
}

fn typed(view: &mut View, key: KeyCode) {
    match key {
        KeyCode::Char(letter) => view.filter.push(letter),
        KeyCode::Backspace => drop(view.filter.pop()),
        KeyCode::Esc => (view.is_typing, view.filter) = (false, String::new()),
        KeyCode::Enter => view.is_typing = false,
        _ => {}
    }
    view.select(view.selected);
}

/// Lines of a page step.
const PAGE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> Option<Wish> {
        pressed(view, KeyEvent::from(code))
    }

    #[test]
    fn what_is_typed_into_the_filter_is_no_command() {
        let mut view = View::default();
        press(&mut view, KeyCode::Char('/'));
        for letter in "quiet".chars() {
            assert_eq!(press(&mut view, KeyCode::Char(letter)), None);
        }
        press(&mut view, KeyCode::Backspace);
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.filter, "quie");
        assert_eq!(press(&mut view, KeyCode::Char('q')), Some(Wish::Quit));
        press(&mut view, KeyCode::Esc);
        assert_eq!(view.filter, "");
    }

    #[test]
    fn ctrl_c_quits_even_while_something_is_typed() {
        let ctrl = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let mut view = View { is_typing: true, ..View::default() };
        assert_eq!(pressed(&mut view, ctrl('c')), Some(Wish::Quit));
        assert_eq!(pressed(&mut view, ctrl('z')), Some(Wish::Stop));
    }
}
