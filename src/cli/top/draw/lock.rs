//! The page of one lock: its holders and its queue.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row};

use super::{bold, draw_table};
use crate::locks::inspect::{self, HEADINGS, Inspections, Verdict};
use crate::say::bytes;

/// Draws the page, with the selected line in sight.
pub fn draw(frame: &mut Frame<'_>, area: Rect, key: &[u8], answers: &Inspections, selected: usize) {
    let [above, below] = Layout::vertical([Constraint::Length(3), Constraint::Fill(1)]).areas(area);
    let mut title = vec![Line::styled(bytes::shown(key), bold())];
    // There is none before the first look.
    if !answers.is_empty() {
        let verdict = Verdict::of(answers, answers.len() / 2 + 1);
        title.push(Line::from(verdict.sentence(answers.len())));
    }
    frame.render_widget(Paragraph::new(title), above);
    // The only node needs no name.
    let columns = &COLUMNS[usize::from(answers.len() == 1)..];
    let rows = inspect::rows(answers).into_iter().map(|row| {
        let cells = columns.iter().filter_map(|(column, _)| row.get(*column).cloned());
        Row::new(cells.map(Cell::from).collect::<Vec<_>>())
    });
    let heading = columns.iter().map(|(column, _)| Cell::from(HEADINGS[*column]));
    let widths: Vec<Constraint> = columns.iter().map(|(_, width)| *width).collect();
    draw_table(frame, below, rows, &widths, heading, selected);
}

/// Columns of `dlock inspect`, as many as there is room for, and their widths.
const COLUMNS: [(usize, Constraint); 6] = [
    (0, Constraint::Length(21)),
    (1, Constraint::Length(16)),
    (2, Constraint::Length(9)),
    (4, Constraint::Length(7)),
    (5, Constraint::Length(7)),
    (8, Constraint::Fill(1)),
];
