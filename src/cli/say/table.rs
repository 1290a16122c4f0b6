//! Tables for people: aligned columns, no wider than the terminal.
//!
//! Crates for tables break a long cell into several lines, so their output cannot be searched by line. Here the
//! last column is cut, and a table that would still be too wide is printed as a list.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use unicode_truncate::UnicodeTruncateStr;
use unicode_width::UnicodeWidthStr;

use super::failure::Failure;
use super::stdout;

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|heading| heading.to_string()).collect()] }
    }

    /// Adds a row. The last cell of a short row may run on over the columns.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints the table to stdout.
    pub fn print(&self) -> Result<(), Failure> {
        stdout::print(self.text(width(io::stdout())))
    }

    /// Prints the table to stderr, beside a question.
    pub fn print_to_stderr(&self) {
        let _ = io::stderr().write_all(self.text(width(io::stderr())).as_bytes());
    }

    /// The text of the table, no wider than this, if it is for a terminal.
    fn text(&self, width: Option<usize>) -> String {
        let widths = self.widths();
        if width.is_some_and(|width| !fits(&widths, width)) {
            return self.list();
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let space = (width + GAP).saturating_sub(cell.width());
                line.extend(std::iter::repeat_n(' ', space));
            }
            let line = line.trim_end();
            text.push_str(&width.map_or_else(|| line.to_owned(), |width| cut(line, width)));
            text.push('\n');
        }
        text
    }

    /// The form for a narrow terminal: a line for each cell, which the terminal may break, and an empty one
    /// between rows.
    fn list(&self) -> String {
        let (headings, rows) =
            self.rows.split_first().map_or((&[][..], &[][..]), |(first, rest)| (&first[..], rest));
        let widest = headings.iter().map(|heading| heading.width()).max().unwrap_or(0);
        let mut blocks = Vec::new();
        for row in rows {
            let cells = headings.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
            let lines = cells.map(|(heading, cell)| {
                let space = " ".repeat(widest - heading.width() + GAP);
                format!("{heading}{space}{cell}\n")
            });
            blocks.push(lines.collect::<String>());
        }
        blocks.join("\n")
    }

    /// Widths of the columns. The last cell of a short row does not count: it has room to its right.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows[0].len();
        let mut widths = vec![0; columns];
        for row in &self.rows {
            let counted = if row.len() < columns { row.len().saturating_sub(1) } else { columns };
            for (width, cell) in widths.iter_mut().zip(row).take(counted) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }
}

/// True if all columns fit. The last one has room for a word at least: it is cut, and others never are.
fn fits(widths: &[usize], width: usize) -> bool {
    let (last, others) = widths.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
    others.iter().map(|other| other + GAP).sum::<usize>() + last.min(WORD) <= width
}

/// Cuts a text to this width, and marks the cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (fits, _) = text.unicode_truncate(width.saturating_sub(1));
    format!("{fits}…")
}

/// Width of a terminal; `None` if the output is not one.
pub fn width(out: impl AsFd + IsTerminal) -> Option<usize> {
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

/// Space between columns.
const GAP: usize = 2;

/// The least width of a last column that is cut.
const WORD: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: &str) -> Table {
        let mut table = Table::new(&["KEY", "MODE", "META"]);
        table.row(vec!["job".into(), "exclusive".into(), "host=a".into()]);
        table.row(vec![key.into(), "free, and that is all".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen_of_their_letters() {
        let expected = "KEY  MODE       META\njob  exclusive  host=a\nsüß  free, and that is all\n";
        assert_eq!(table("süß").text(None), expected);
        let expected =
            "KEY   MODE       META\njob   exclusive  host=a\n鍵鍵  free, and that is all\n";
        assert_eq!(table("鍵鍵").text(None), expected);
    }

    #[test]
    fn the_last_column_is_cut_and_no_other() {
        let mut table = table("key");
        table.row(vec!["long".into(), "shared".into(), "☀\u{fe0f}鍵".repeat(40)]);
        let text = table.text(Some(40));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("\nlong  shared     ☀\u{fe0f}鍵") && text.contains('…'), "{text}");
        table.row(vec!["k".repeat(40), "shared".into(), String::new()]);
        assert!(table.text(Some(40)).starts_with("KEY   job\n"));
        // Half of a wide letter cannot be shown. The sun with U+FE0F is wider than its two letters by themselves.
        assert_eq!(cut("鍵鍵鍵", 4), "鍵…");
        for width in 1..8 {
            assert!(cut(&"☀\u{fe0f}".repeat(9), width).width() <= width, "{width}");
        }
    }

    #[test]
    fn a_narrow_terminal_gets_a_list() {
        let expected = "KEY   job\nMODE  exclusive\nMETA  host=a\n\nKEY   süß\n\
                        MODE  free, and that is all\n";
        assert_eq!(table("süß").text(Some(12)), expected);
    }
}
