//! A screen as SVG: text with the colours of a terminal, which can be read at any size.

use std::fmt::Write;
use std::time::Duration;

/// Draws a screen of this many columns and rows, from its text with escape sequences.
pub fn picture(painted: &str, (columns, rows): (u16, u16)) -> String {
    let mut svg = sheet(size_of((columns, rows)));
    paint_screen(&mut svg, EDGE, painted);
    svg.push_str("</svg>\n");
    svg
}

/// Draws screens of this size one after the other, each from its time on, and begins anew after the last one. The
/// screens lie side by side, and the strip of them is moved in steps.
pub fn film(screens: &[(Duration, String)], end: Duration, size: (u16, u16)) -> String {
    let (width, height) = size_of(size);
    let mut svg = sheet((width, height));
    let percent = |at: &Duration| 100.0 * at.as_secs_f32() / end.as_secs_f32();
    let steps: String = screens
        .iter()
        .enumerate()
        .map(|(index, (at, _))| {
            let x = index as f32 * width;
            format!("{:.2}%{{transform:translateX(-{x}px)}}", percent(at))
        })
        .collect();
    let last = screens.len().saturating_sub(1) as f32 * width;
    let seconds = end.as_secs_f32();
    // Writing into a string does not fail.
    let _ = writeln!(
        svg,
        "<style>@keyframes play{{{steps}100%{{transform:translateX(-{last}px)}}}}\
         #strip{{animation:play {seconds:.1}s step-end infinite}}\
         @media(prefers-reduced-motion){{#strip{{animation:none;transform:translateX(-{last}px)}}}}</style>\n\
         <svg width=\"{width}\" height=\"{height}\"><g id=\"strip\">"
    );
    for (index, (_, painted)) in screens.iter().enumerate() {
        paint_screen(&mut svg, EDGE + index as f32 * width, painted);
    }
    svg.push_str("</g></svg>\n</svg>\n");
    svg
}

fn size_of((columns, rows): (u16, u16)) -> (f32, f32) {
    (f32::from(columns) * WIDTH + 2.0 * EDGE, f32::from(rows) * HEIGHT + 2.0 * EDGE)
}

fn sheet((width, height): (f32, f32)) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACK}\"/>\n"
    )
}

fn paint_screen(svg: &mut String, left: f32, painted: &str) {
    for (row, line) in painted.lines().enumerate() {
        let y = EDGE + row as f32 * HEIGHT;
        let mut column = 0;
        for (look, text) in runs(line) {
            let letters = text.chars().count();
            let x = left + column as f32 * WIDTH;
            column += letters;
            paint(svg, (x, y), letters as f32 * WIDTH, look, &text);
        }
    }
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
