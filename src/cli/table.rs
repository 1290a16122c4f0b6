//! Tables for people: aligned columns, no wider than the terminal.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::Command;

/// A table. Its last column may be cut to fit.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|heading| heading.to_string()).collect()] }
    }

    /// Adds a row. One that is shorter than the headings may run on over the columns.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it to stdout, cut at the width if that is a terminal.
    pub fn print(&self) -> io::Result<()> {
        self.print_to(io::stdout())
    }

    /// The same to stdout or stderr.
    pub fn print_to(&self, mut out: impl Write + IsTerminal + AsFd) -> io::Result<()> {
        let width = if out.is_terminal() { width(&out) } else { None };
        out.write_all(self.text(width).as_bytes())?;
        out.flush()
    }

    fn text(&self, width: Option<usize>) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if index + 1 < row.len() {
                    let padding = widths[index].saturating_sub(cell.chars().count());
                    line.extend(std::iter::repeat_n(' ', padding + 2));
                }
            }
            text.push_str(&cut(line.trim_end(), width));
            text.push('\n');
        }
        text
    }

    /// The last cell of a row that ends early does not count: it has room to its right.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows[0].len();
        let mut widths = vec![0; columns];
        for row in &self.rows {
            let counted = if row.len() < columns { row.len().saturating_sub(1) } else { columns };
            for (width, cell) in widths.iter_mut().zip(row).take(counted) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

/// How wide a terminal is. `stty` asks it; that is there wherever a shell is.
pub fn width(terminal: impl AsFd) -> Option<usize> {
    let terminal = terminal.as_fd().try_clone_to_owned().ok()?;
    let stty = Command::new("stty").arg("size").stdin(terminal).output().ok()?;
    let (_, columns) = str::from_utf8(&stty.stdout).ok()?.trim().split_once(' ')?;
    columns.parse().ok().filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["KEY", "MODE", "META"]);
        table.row(vec!["job".into(), "exclusive".into(), "host=a".into()]);
        table.row(vec!["süß".into(), "free, and that is all".into()]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "KEY  MODE       META\njob  exclusive  host=a\nsüß  free, and that is all\n";
        assert_eq!(table().text(None), expected);
    }

    #[test]
    fn lines_are_cut_at_the_width() {
        assert_eq!(table().text(Some(10)), "KEY  MODE…\njob  excl…\nsüß  free…\n");
    }
}
