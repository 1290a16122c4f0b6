//! The page of one lock: its holders and its queue.

use std::time::Duration;

use dlock_client::{DoneInfo, HolderInfo, Inspection, WaiterInfo};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row};

use super::{bold, draw_table, right};
use crate::locks::inspect::{Inspections, Verdict};
use crate::say::{bytes, duration};

/// Draws the page, with the selected line in sight.
pub fn draw(frame: &mut Frame<'_>, area: Rect, key: &[u8], answers: &Inspections, selected: usize) {
    let of_several = answers.len() > 1;
    let [above, below] = Layout::vertical([Constraint::Length(3), Constraint::Fill(1)]).areas(area);
    let verdict = Verdict::of(answers, answers.len() / 2 + 1);
    let words = if of_several { verdict.sentence(answers.len()) } else { only(answers) };
    let title = vec![Line::styled(bytes::shown(key), bold()), Line::from(words)];
    frame.render_widget(Paragraph::new(title), above);
    let rows = answers.iter().flat_map(|(name, answer)| {
        let found = answer.as_ref().ok().and_then(Option::as_ref);
        let rows = found.map_or(Vec::new(), rows);
        let name = if of_several { name.clone() } else { String::new() };
        rows.into_iter().map(move |row| [vec![Cell::from(name.clone())], row].concat())
    });
    let widths = [
        Constraint::Length(if of_several { 21 } else { 0 }),
        Constraint::Length(16),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let heading = [
        Cell::from(if of_several { "NODE" } else { "" }),
        Cell::from("WHAT"),
        Cell::from("MODE"),
        right("FOR"),
        right("LEFT"),
        Cell::from("META"),
    ];
    draw_table(frame, below, rows.map(Row::new), &widths, heading, selected);
}

/// Number of the page's lines that can be selected.
pub fn lines(answers: &Inspections) -> usize {
    let found = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()?.as_ref());
    found.map(|found| rows(found).len()).sum()
}

/// One node's report, in a line.
fn only(answers: &Inspections) -> String {
    match answers.first() {
        None => String::new(),
        Some((_, Err(trouble))) => trouble.to_string(),
        Some((_, Ok(None))) => "free".to_owned(),
        Some((_, Ok(Some(found)))) if found.is_foreign() => "a plain string holds it".to_owned(),
        Some((_, Ok(Some(found)))) if found.done.is_some() => "done".to_owned(),
        Some((_, Ok(Some(found)))) => {
            format!("{} holding, {} waiting", found.holding, found.waiting)
        }
    }
}

fn rows(found: &Inspection) -> Vec<Vec<Cell<'static>>> {
    let mode = match found.limit {
        0 => found.mode.clone(),
        limit => format!("{} {limit}", found.mode),
    };
    let more = |all: u64, listed: usize, what: &str| {
        let unlisted = all.saturating_sub(listed as u64);
        (unlisted > 0).then(|| vec![Cell::from(format!("{unlisted} more {what}"))])
    };
    let mut rows: Vec<Vec<Cell<'_>>> =
        found.holders.iter().map(|holder| holds(holder, &mode)).collect();
    rows.extend(found.done.iter().map(|done| is_done(done, found.expires)));
    rows.extend(more(found.holding, found.holders.len(), "hold"));
    rows.extend(found.waiters.iter().map(waits));
    rows.extend(more(found.waiting, found.waiters.len(), "wait"));
    rows
}

fn holds(holder: &HolderInfo, mode: &str) -> Vec<Cell<'static>> {
    let what = match (holder.ephemeral, holder.away) {
        (true, _) => "holds, ephemeral",
        (_, true) => "its turn, away",
        _ => "holds",
    };
    vec![
        Cell::from(what),
        Cell::from(mode.to_owned()),
        right(duration::shown(holder.held)),
        right(duration::shown(holder.ttl)),
        Cell::from(named(&holder.meta, &holder.id)),
    ]
}

fn is_done(done: &DoneInfo, left: Option<Duration>) -> Vec<Cell<'static>> {
    vec![
        Cell::from("has left it"),
        Cell::from("done"),
        right(duration::shown(done.since)),
        right(left.map_or("no end".to_owned(), duration::shown)),
        Cell::from(named(&done.outcome, &done.id)),
    ]
}

fn waits(waiter: &WaiterInfo) -> Vec<Cell<'static>> {
    vec![
        Cell::from(if waiter.away { "waits, away" } else { "waits" }),
        Cell::from(waiter.mode.clone()),
        right(duration::shown(waiter.waited)),
        right(waiter.left.map_or("no end".to_owned(), duration::shown)),
        Cell::from(named(&waiter.meta, &waiter.id)),
    ]
}

fn named(meta: &[u8], id: &str) -> String {
    if meta.is_empty() { format!("token {id}") } else { bytes::shown(meta) }
}
