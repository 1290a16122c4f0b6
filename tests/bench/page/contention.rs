//! The picture of one lock that many want: narrow, with large letters, for README on a phone.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::paint::{Drawn, FAINT, INK, OURS, time, write};
use crate::contention::Contest;
use crate::peers::{COMMANDS, DLOCK, FLOOR};

/// Draws the p99 wait of each library in one setting as a bar, with its ratio to dlock's. Ours is the first.
pub fn contention(contests: &[&Contest]) -> Result<String, String> {
    let locks: Vec<&&Contest> = contests.iter().filter(|one| one.name != FLOOR.name).collect();
    let Some(ours) = locks.first() else { return Err("nothing was measured".to_owned()) };
    let longest = locks.iter().map(|one| p99(one)).fold(0.0, f64::max);
    let mut text = String::new();
    let height = TOP + locks.len() as i32 * STEP + 10;
    let mut paint = || -> Drawn {
        let area =
            SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        write(&area, "p99 wait for one lock", (LEFT, 22), LARGE, INK, HPos::Left)?;
        write(&area, &ours.setting.heading(), (LEFT, 46), LETTERS, FAINT, HPos::Left)?;
        for (one, number) in locks.iter().zip(0..) {
            let top = TOP + number * STEP;
            let length = (f64::from(LONGEST) * p99(one) / longest).round().max(1.0) as i32;
            let is_ours = [DLOCK.name, COMMANDS.name].contains(&one.name);
            let color = if is_ours { OURS } else { OTHERS };
            let corners = [(LEFT, top + 20), (LEFT + length, top + 36)];
            write(&area, one.name, (LEFT, top + 9), LETTERS, INK, HPos::Left)?;
            area.draw(&Rectangle::new(corners, color.filled()))?;
            let beside = (LEFT + length + 6, top + 28);
            write(&area, &figures(one, p99(ours)), beside, LETTERS, INK, HPos::Left)?;
        }
        area.present()?;
        Ok(())
    };
    paint().map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text)
}

fn p99(one: &Contest) -> f64 {
    one.waits.percentile(0.99).ms
}

/// The wait, and its ratio to ours.
fn figures(one: &Contest, ours: f64) -> String {
    let wait = one.waits.percentile(0.99);
    let (at_least, ratio) = (if wait.at_least { "≥ " } else { "" }, wait.ms / ours);
    let decimals = usize::from(ratio < 9.95);
    format!("{at_least}{}, {ratio:.decimals$}×", time(wait.ms))
}

/// The width of a phone: a browser there neither shrinks nor stretches the picture.
const WIDTH: i32 = 390;
const LEFT: i32 = 8;
/// The longest bar. The rest of the line has room for its figures.
const LONGEST: i32 = 240;
const TOP: i32 = 66;
const STEP: i32 = 46;
/// Sizes of letters: 14 px and more in the picture, for plotters' unit is smaller.
const LETTERS: i32 = 18;
const LARGE: i32 = 22;
const OTHERS: RGBColor = RGBColor(184, 190, 194);
