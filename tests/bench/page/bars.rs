//! Panels of horizontal bars.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::paint::{Area, Drawn, FAINT, GRID, INK, Scale, WIDTH, dashes, line, picture, write};

/// Bars that can be compared with each other.
pub struct Panel {
    /// The figure that the bars compare.
    pub title: String,
    /// The bars, from the top down.
    pub bars: Vec<Bar>,
    /// A line across all bars, and what it says.
    pub ideal: Option<(f64, String)>,
}

/// One of them.
pub struct Bar {
    /// The text before the bar; empty for one that belongs to the bar above.
    pub label: String,
    /// The length of the bar.
    pub figure: f64,
    /// The text behind the bar.
    pub text: String,
    /// Its colour.
    pub color: RGBColor,
}

/// Draws them all on the same scale. `mark` says what stands at its round figures.
pub fn bars(
    heading: [&str; 2],
    panels: &[Panel],
    logarithmic: bool,
    mark: impl Fn(f64) -> String,
) -> Result<String, String> {
    let all = || panels.iter().flat_map(|panel| panel.bars.iter().map(|bar| bar.figure));
    let ideals = panels.iter().filter_map(|panel| panel.ideal.as_ref().map(|ideal| ideal.0));
    let least = all().chain(ideals).fold(f64::INFINITY, f64::min);
    let most = all().fold(0.0, f64::max);
    let low = if logarithmic { 10_f64.powf((least / 1.5).log10().floor()) } else { 0.0 };
    let labels =
        panels.iter().flat_map(|panel| panel.bars.iter().map(|bar| bar.label.chars().count()));
    // A letter of this size is about so wide; a text behind a bar is hardly longer than ten.
    let left = 30 + labels.max().unwrap_or(0) as i32 * 13 / 2;
    let places = (left, WIDTH as i32 / 2 - 78);
    let scale = Scale { figures: (low, most), places, logarithmic };
    let tallest = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let height = TOP + tallest as i32 * STEP + 40;
    let draw = |number: usize, area: &Area<'_>| panel(&panels[number], scale, &mark, area);
    picture(heading, panels.len(), height as u32, 0, draw, |_| Ok(()))
}

const TOP: i32 = 52;
const STEP: i32 = 24;

fn panel(panel: &Panel, scale: Scale, mark: &dyn Fn(f64) -> String, area: &Area<'_>) -> Drawn {
    let bottom = TOP + panel.bars.len() as i32 * STEP;
    write(area, &panel.title, (20, 18), 15, INK, HPos::Left)?;
    for figure in scale.marks() {
        let place = scale.place(figure);
        line(area, (place, TOP - 4), (place, bottom + 4), GRID)?;
        write(area, &mark(figure), (place, bottom + 14), 11, FAINT, HPos::Center)?;
    }
    let start = scale.places.0;
    for (bar, number) in panel.bars.iter().zip(0..) {
        let top = TOP + number * STEP;
        let (middle, end) = (top + STEP / 2, scale.place(bar.figure).max(start + 1));
        write(area, &bar.label, (start - 8, middle), 12, INK, HPos::Right)?;
        area.draw(&Rectangle::new([(start, top + 3), (end, top + STEP - 3)], bar.color.filled()))?;
        write(area, &bar.text, (end + 6, middle), 12, INK, HPos::Left)?;
    }
    if let Some((figure, text)) = &panel.ideal {
        let place = scale.place(*figure);
        dashes(area, (place, TOP - 8), (place, bottom + 4))?;
        write(area, text, (place, TOP - 15), 11, INK, HPos::Center)?;
    }
    Ok(())
}
