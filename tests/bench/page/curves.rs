//! Panels of curves: how long one waits, by percentile, both on logarithmic scales.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::paint::{
    Area, Drawn, FAINT, GRID, INK, Scale, WIDTH, color, dashes, line, picture, time, write,
};
use crate::contention::Contest;
use crate::peers::DLOCK;

/// Draws a panel for each setting.
pub fn curves(heading: [&str; 2], settings: &[Vec<&Contest>]) -> Result<String, String> {
    let draw = |number: usize, area: &Area<'_>| panel(&settings[number], area);
    let names: Vec<&str> =
        settings.first().map_or(vec![], |libraries| libraries.iter().map(|one| one.name).collect());
    picture(heading, settings.len(), HEIGHT as u32, 64, draw, |foot| legend(&names, &SIGNS, foot))
}

const HEIGHT: i32 = 300;
/// The range of a panel: a shorter or longer wait is at the edge.
const WAITS: (f64, f64) = (0.01, 20_000.0);
/// Three nines.
const LAST: f64 = 3.0;
const PERCENTILES: [(f64, &str); 5] =
    [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9 %")];

fn panel(libraries: &[&Contest], area: &Area<'_>) -> Drawn {
    let width = WIDTH as i32 / 2;
    let places = (70, width - 30);
    let across = Scale { figures: (0.0, LAST), places, logarithmic: false };
    let up = Scale { figures: WAITS, places: (HEIGHT - 34, 42), logarithmic: true };
    let Some(first) = libraries.first() else { return Ok(()) };
    write(area, &first.setting.heading(), (20, 18), 15, INK, HPos::Left)?;
    for wait in up.marks() {
        let place = up.place(wait);
        line(area, (across.places.0, place), (across.places.1, place), GRID)?;
        write(area, &time(wait), (across.places.0 - 8, place), 11, FAINT, HPos::Right)?;
    }
    for (share, text) in PERCENTILES {
        let place = across.place(nines(share));
        line(area, (place, up.places.0), (place, up.places.1), GRID)?;
        write(area, text, (place, up.places.0 + 14), 11, FAINT, HPos::Center)?;
    }
    let ideal = up.place(first.setting.ideal());
    dashes(area, (across.places.0, ideal), (across.places.1, ideal))?;
    // Ours last, on top of the others.
    for one in libraries.iter().rev() {
        let steps = (0..=300).map(|step| f64::from(step) / 100.0);
        let waits = steps.map(|nines| {
            let wait = one.waits.percentile(1.0 - 10_f64.powf(-nines));
            ((across.place(nines), up.place(wait.ms)), wait.at_least)
        });
        let mut points: Vec<(i32, i32)> = Vec::new();
        let mut known = true;
        for (place, at_least) in waits {
            if at_least {
                known = false;
                break;
            }
            points.push(place);
        }
        let end = points.last().copied();
        let width = if one.name == DLOCK.name { 3 } else { 2 };
        area.draw(&PathElement::new(points, color(one.name).stroke_width(width)))?;
        if let (false, Some(place)) = (known, end) {
            open_end(area, place, color(one.name))?;
        }
    }
    Ok(())
}

/// Beyond this nobody knows: too many still wait.
fn open_end(area: &Area<'_>, place: (i32, i32), color: RGBColor) -> Drawn {
    area.draw(&Circle::new(place, 4, WHITE.filled()))?;
    area.draw(&Circle::new(place, 4, color.stroke_width(2)))?;
    Ok(())
}

/// 1 for 90 %, 2 for 99 %, 3 for 99.9 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Draws the colours of the libraries, and the signs of the picture.
pub fn legend(names: &[&str], signs: &[Sign], area: &Area<'_>) -> Drawn {
    let (mut left, mut top) = (40, 16);
    // Where the next one begins, a line below if it is too long for this one.
    let mut place = |name: &str| {
        let length = 46 + name.chars().count() as i32 * 6;
        if left + length > WIDTH as i32 {
            (left, top) = (40, top + 24);
        }
        left += length;
        (left - length, top)
    };
    let beside = |name: &str, (left, top): (i32, i32)| {
        write(area, name, (left + 24, top), 12, INK, HPos::Left)
    };
    for name in names {
        let (left, top) = place(name);
        area.draw(&Rectangle::new([(left, top - 2), (left + 18, top + 2)], color(name).filled()))?;
        beside(name, (left, top))?;
    }
    for (text, draw) in signs {
        let (left, top) = place(text);
        draw(area, (left, top))?;
        beside(text, (left, top))?;
    }
    Ok(())
}

/// The meaning of a sign, and the function that draws it from this point on.
type Sign = (&'static str, fn(&Area<'_>, (i32, i32)) -> Drawn);

const SIGNS: [Sign; 2] = [
    ("one round, clients × hold", |area, (left, top)| dashes(area, (left, top), (left + 18, top))),
    ("not known beyond", |area, (left, top)| open_end(area, (left + 9, top), FAINT)),
];
