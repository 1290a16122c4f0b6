//! The screen.
//!
//! [`lock`]: the page of one lock. [`words`]: the texts of the cells.

mod lock;
mod words;

use std::env;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use unicode_width::UnicodeWidthStr;

use super::view::{Page, View};
use crate::say::table::cut;
use crate::say::{bytes, duration};
use crate::watch::Seen;
use crate::watch::look::HotKey;
use words::{HELP, Tone, holder, state};

/// Draws the screen.
pub fn all(frame: &mut Frame<'_>, view: &View) {
    let nodes = view.look.as_ref().map_or(&[][..], |look| &look.nodes);
    // At least half of the screen is for locks.
    let most = frame.area().height.saturating_sub(2) / 2;
    let lines = u16::try_from(nodes.len() + 2).unwrap_or(u16::MAX).min(most);
    let [above, middle, below] =
        Layout::vertical([Constraint::Length(lines), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    draw_nodes(frame, above, nodes);
    match &view.page {
        Page::Hot => draw_hot(frame, middle, view),
        Page::Lock { key, answers } => lock::draw(frame, middle, key, answers, view.selected),
        Page::Help => frame.render_widget(Paragraph::new(HELP), middle),
    }
    frame.render_widget(Paragraph::new(footer(view)), below);
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, nodes: &[Seen]) {
    // As wide as the longest name, which leaves most room for the state.
    let longest = nodes.iter().map(|seen| seen.name.width()).max().unwrap_or(0);
    let longest = u16::try_from(longest).unwrap_or(u16::MAX).clamp(15, area.width.max(45) / 3);
    let widths = [
        Constraint::Length(longest),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(9),
    ];
    let room = room(area, widths);
    let rows = nodes.iter().map(|seen| {
        let (words, tone) = state(seen);
        let number = |name: &str| {
            let look = seen.look.as_ref().ok();
            look.and_then(|look| look.number(name)).map_or(String::new(), |n| n.to_string())
        };
        Row::new([
            Cell::from(seen.name.clone()),
            Cell::from(cut(&words, room[1])).style(style(tone)),
            right(number("leases")),
            right(number("waiters")),
            right(seen.pace.grants.map_or(String::new(), |grants| format!("{grants:.0}"))),
            right(seen.pace.p99_wait.map_or("-".to_owned(), duration::shown)),
        ])
    });
    let heading = ["NODE", "STATE"].map(Cell::from).into_iter();
    let heading = heading.chain(["LEASES", "WAITING", "LOCKS/S", "P99 WAIT"].map(right));
    frame.render_widget(Table::new(rows, widths).header(Row::new(heading).style(bold())), area);
}

fn draw_hot(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let hot = view.hot();
    if hot.is_empty() {
        let words = no_hot(view);
        return frame.render_widget(Paragraph::new(words), area);
    }
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Fill(3),
    ];
    let room = room(area, widths);
    let row = |key: &&HotKey| {
        Row::new([
            Cell::from(cut(&shown_key(key), room[0])),
            right(duration::shown(key.waited)),
            right(duration::shown(key.longest)),
            right(key.waiting.to_string()),
            Cell::from(cut(&holder(key), room[4])),
        ])
    };
    let heading = ["WAITED", "LONGEST", "WAITING"].map(right).into_iter();
    let heading = [Cell::from("KEY")].into_iter().chain(heading).chain([Cell::from("HELD BY")]);
    draw_table(frame, area, hot.iter().map(row), &widths, heading, view.selected);
}

/// The reason why there are no hot keys.
fn no_hot(view: &View) -> String {
    let Some(look) = &view.look else { return "looking".to_owned() };
    let mut looks = look.nodes.iter().filter_map(|seen| seen.look.as_ref().ok()).peekable();
    if looks.peek().is_none() {
        return "no node answers".to_owned();
    }
    let trouble = looks.filter_map(|look| look.hot.as_ref().err()).next();
    match trouble {
        Some(trouble) => format!("contended locks cannot be shown: {trouble}"),
        None => "no request waits for a lock, nor has one in the last minutes".to_owned(),
    }
}

fn draw_table<'t>(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: impl Iterator<Item = Row<'t>>,
    widths: &[Constraint],
    heading: impl IntoIterator<Item = Cell<'t>>,
    selected: usize,
) {
    let selected_style = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths.to_vec()).header(Row::new(heading).style(bold()));
    let mut state = TableState::new().with_selected(Some(selected));
    frame.render_stateful_widget(table.row_highlight_style(selected_style), area, &mut state);
}

/// Width of each column of a table, in characters.
fn room<const COLUMNS: usize>(area: Rect, widths: [Constraint; COLUMNS]) -> [usize; COLUMNS] {
    Layout::horizontal(widths).spacing(1).areas(area).map(|column| usize::from(column.width))
}

fn footer(view: &View) -> Line<'static> {
    if !view.said.is_empty() {
        return Line::styled(view.said, bold());
    }
    Line::from(match view.page {
        Page::Hot => "q quit  ? help  Enter this lock",
        Page::Lock { .. } => "Esc back  q quit  ? help",
        Page::Help => "Esc back  q quit",
    })
}

/// The key's name, with a note if it is cut or in another database.
fn shown_key(key: &HotKey) -> String {
    let name = bytes::shown(&key.name);
    let rest = if key.is_whole { "" } else { "…" };
    if key.db == 0 { format!("{name}{rest}") } else { format!("{name}{rest} (db {})", key.db) }
}

fn right<'t>(text: impl Into<String>) -> Cell<'t> {
    Cell::from(Line::from(text.into()).right_aligned())
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A colour, unless the user wants none.
fn style(tone: Tone) -> Style {
    if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return Style::new();
    }
    Style::new().fg(match tone {
        Tone::Good => Color::Green,
        Tone::Waits => Color::Yellow,
        Tone::Bad => Color::Red,
    })
}
