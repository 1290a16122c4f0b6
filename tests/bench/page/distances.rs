//! Panels of lines: how often a lock changes hands in a second, over how far its clients and nodes are
//! from each other.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::curves::legend;
use super::paint::{
    Area, Drawn, FAINT, GRID, INK, Scale, WIDTH, color, line, picture, time, write,
};
use crate::contention::{Contest, Setting};
use crate::peers::DLOCK;

/// Draws a panel for each crowd on each number of nodes.
pub fn distances(heading: [&str; 2], contests: &[Contest]) -> Result<String, String> {
    let mut panels: Vec<Setting> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for one in contests.iter().filter(|one| one.setting.each_way.is_some()) {
        let setting = Setting { each_way: None, ..one.setting };
        if !panels.contains(&alike(setting)) {
            panels.push(alike(setting));
        }
        if !names.contains(&one.name) {
            names.push(one.name);
        }
    }
    let draw = |number: usize, area: &Area<'_>| {
        let belongs = |one: &&Contest| alike(one.setting) == panels[number];
        let there: Vec<&Contest> = contests.iter().filter(belongs).collect();
        panel(panels[number], &there, &names, area)
    };
    picture(heading, panels.len(), HEIGHT as u32, 64, draw, |foot| legend(&names, &[], foot))
}

/// Without the distance, and however long it was measured.
fn alike(setting: Setting) -> Setting {
    let crowd = crate::peers::Crowd { seconds: 0, ..setting.crowd };
    Setting { crowd, each_way: None, ..setting }
}

const HEIGHT: i32 = 260;

fn panel(setting: Setting, contests: &[&Contest], names: &[&str], area: &Area<'_>) -> Drawn {
    let (left, right, top, bottom) = (70, WIDTH as i32 / 2 - 30, 42, HEIGHT - 34);
    write(area, &setting.heading(), (20, 18), 15, INK, HPos::Left)?;
    let up = Scale { figures: (1.0, 1000.0), places: (bottom, top), logarithmic: true };
    for mark in up.marks() {
        let place = up.place(mark);
        line(area, (left, place), (right, place), GRID)?;
        write(area, &format!("{mark}"), (left - 8, place), 11, FAINT, HPos::Right)?;
    }
    let ms = |one: &Contest| one.setting.each_way.map_or(0.0, |link| link.as_secs_f64() * 1e3);
    let mut links: Vec<f64> = contests.iter().map(|one| ms(one)).collect();
    links.sort_by(f64::total_cmp);
    links.dedup();
    // Equal steps: each link is several times as long as the one before.
    let step = (right - left) / links.len() as i32;
    let across = |link: f64| {
        let number = links.iter().position(|known| *known == link).unwrap_or(0);
        left + step / 2 + number as i32 * step
    };
    for link in &links {
        let text = if *link == 0.0 { "here".to_owned() } else { time(*link) };
        line(area, (across(*link), top), (across(*link), bottom), GRID)?;
        write(area, &text, (across(*link), bottom + 14), 11, FAINT, HPos::Center)?;
    }
    // Ours last, on top of the others.
    for name in names.iter().rev() {
        let mut of_name: Vec<&&Contest> = contests.iter().filter(|one| one.name == *name).collect();
        of_name.sort_by(|one, other| ms(one).total_cmp(&ms(other)));
        let points: Vec<(i32, i32)> =
            of_name.iter().map(|one| (across(ms(one)), up.place(one.waits.rate()))).collect();
        for point in &points {
            area.draw(&Circle::new(*point, 3, color(name).filled()))?;
        }
        let width = if *name == DLOCK.name { 3 } else { 2 };
        area.draw(&PathElement::new(points, color(name).stroke_width(width)))?;
    }
    Ok(())
}
