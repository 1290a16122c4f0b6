//! A screen as SVG: text with the colours of a terminal, which can be read at any size.

use std::fmt::Write;

/// Draws a screen of this many columns and rows, from its text with escape sequences.
pub fn picture(painted: &str, (columns, rows): (u16, u16)) -> String {
    let (width, height) =
        (f32::from(columns) * WIDTH + 2.0 * EDGE, f32::from(rows) * HEIGHT + 2.0 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACK}\"/>\n"
    );
    for (row, line) in painted.lines().enumerate() {
        let y = EDGE + row as f32 * HEIGHT;
        let mut column = 0;
        for (look, text) in runs(line) {
            let letters = text.chars().count();
            let x = EDGE + column as f32 * WIDTH;
            column += letters;
            paint(&mut svg, (x, y), letters as f32 * WIDTH, look, &text);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The look of a run of letters.
#[derive(Clone, Copy, Default)]
struct Look {
    bold: bool,
    reversed: bool,
    colour: Option<&'static str>,
}

fn paint(svg: &mut String, (x, y): (f32, f32), width: f32, look: Look, text: &str) {
    let colour = look.colour.unwrap_or(INK);
    let (ink, back) = if look.reversed { (BACK, Some(colour)) } else { (colour, None) };
    // Writing into a string does not fail.
    if let Some(back) = back {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{back}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{width}\" xml:space=\"preserve\" \
         fill=\"{ink}\"{weight}>{text}</text>",
        y + BASE
    );
}

/// The runs of a line, each with its look.
fn runs(line: &str) -> Vec<(Look, String)> {
    let mut look = Look::default();
    let mut runs = Vec::new();
    for (number, part) in line.split("\x1b[").enumerate() {
        let text = match part.split_once('m') {
            Some((codes, text)) if number > 0 => {
                look.hear(codes);
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            runs.push((look, text.to_owned()));
        }
    }
    runs
}

impl Look {
    fn hear(&mut self, codes: &str) {
        // A colour of the palette is one code of three numbers.
        if let Some(colour) = codes.strip_prefix("38;5;") {
            self.colour = match colour {
                "1" => Some("#ff8a80"),
                "2" => Some("#5fd39a"),
                "3" => Some("#ffc46b"),
                _ => None,
            };
            return;
        }
        for code in codes.split(';') {
            match code {
                "" | "0" => *self = Look::default(),
                "1" => self.bold = true,
                "7" => self.reversed = true,
                "27" => self.reversed = false,
                "39" => self.colour = None,
                _ => {}
            }
        }
    }
}

const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;
/// The distance from the top of a line to its letters' base.
const BASE: f32 = 13.5;
const EDGE: f32 = 10.0;
const INK: &str = "#d7dde5";
const BACK: &str = "#12161c";
