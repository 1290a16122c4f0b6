//! The picture of the part `contended`: how long one waits, and who got how much.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::contended::Contended;
use super::picture_file::PictureFile;
use super::session::Draw;
use crate::say::duration::measured as time;
use crate::say::failure::Failure;

/// Makes sure that the picture can be written into this file. What comes of it draws it.
pub fn prepare(path: &Path) -> Result<Draw, Failure> {
    let file = PictureFile::prepare(path)?;
    Ok(Box::new(|found| {
        let drawn = picture(found).map_err(|error| Failure::internal(&error))?;
        file.write(&drawn)
    }))
}

/// An SVG, as text.
fn picture(found: &Contended) -> Result<String, String> {
    let mut text = String::new();
    draw(found, &mut text).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Outcome = Result<(), Box<dyn Error>>;

fn draw(found: &Contended, text: &mut String) -> Outcome {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let title = ("sans-serif", 20).into_font().color(&INK);
    area.draw(&Text::new(heading(found), (20, 16), title))?;
    let (_, charts) = area.split_vertically(44);
    let (left, right) = charts.split_horizontally(SIZE.0 * 3 / 5);
    waits(found, &left)?;
    grants(found, &right)?;
    area.present()?;
    Ok(())
}

fn heading(found: &Contended) -> String {
    let counted = |number, what| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    format!(
        "dlock bench: {}, {}, hold {}, {}",
        counted(found.nodes, "node"),
        counted(found.clients(), "client"),
        time(found.hold),
        time(found.took)
    )
}

/// Each further nine takes the same room, so that the tail can be seen.
fn waits(found: &Contended, area: &Area<'_>) -> Outcome {
    let curve = known(found);
    let is_whole = curve.last().is_some_and(|(nines, _)| *nines == LAST_NINE);
    let longest = curve.last().map_or(0.0, |(_, wait)| *wait);
    // One client waits for nobody.
    let round = if found.clients() == 1 { 0.0 } else { millis(found.one_round()) };
    let top = longest.max(round) * 1.08;
    let mut chart = ChartBuilder::on(area)
        .caption("wait for the lock, ms, by percentile", ("sans-serif", 15, &INK))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..LAST_NINE, 0.0..top.max(0.001))?;
    mesh(&mut chart.configure_mesh())
        .x_labels(5)
        .x_desc(if is_whole { "percentile" } else { UNKNOWN })
        .x_label_formatter(&|nines| percentile(*nines))
        .y_label_formatter(&|millis| number(*millis, top))
        .draw()?;
    if round > 0.0 {
        let line = [(0.0, round), (LAST_NINE, round)];
        chart.draw_series(DashedLineSeries::new(line, 6, 4, ROUND.stroke_width(2)))?;
        let (clients, hold, length) = (found.clients(), time(found.hold), time(found.one_round()));
        let label = format!("one round: {clients} x {hold} = {length}");
        let style = ("sans-serif", 13).into_font().color(&ROUND);
        // On the other side of the line than the curve, if there is room.
        let p99 = curve.iter().rfind(|(nines, _)| *nines <= 2.0).map_or(0.0, |(_, wait)| *wait);
        let above = (p99 < round && round < top * 0.9) || round < top / 8.0;
        let place = if above { round + top * 0.05 } else { round - top * 0.015 };
        chart.draw_series([Text::new(label, (LAST_NINE * 0.5, place), style)])?;
    }
    chart.draw_series(LineSeries::new(curve, WAITS.stroke_width(2)))?;
    Ok(())
}

/// The curve, as far as it is known.
fn known(found: &Contended) -> Vec<(f64, f64)> {
    let steps = (LAST_NINE / STEP) as u32;
    let shares = (0..steps)
        .map(|step| f64::from(step) * STEP)
        .map(|nines| (nines, 1.0 - 10_f64.powf(-nines)))
        .chain([(LAST_NINE, 1.0)]);
    shares
        .map_while(|(nines, share)| {
            let wait = found.counts.waits.at(share)?.exactly()?;
            Some((nines, millis(wait)))
        })
        .collect()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn grants(found: &Contended, area: &Area<'_>) -> Outcome {
    let most = found.counts.most().max(1);
    let clients = found.clients() as f64;
    let index = found.jain().map(|jain| format!(" (Jain's index {jain:.4})"));
    let caption = format!("grants of each client{}", index.unwrap_or_default());
    let client = match found.counts.grants.iter().filter(|grants| **grants == 0).count() {
        0 => "client".to_owned(),
        never => format!("client ({never} of {clients} were never served)"),
    };
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 15, &INK))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.5..clients + 0.5, 0.0..most as f64 * 1.08)?;
    mesh(&mut chart.configure_mesh())
        .disable_x_mesh()
        .x_labels(8)
        .x_desc(client)
        .x_label_formatter(&|client| whole(*client))
        // There is no half a grant.
        .y_labels(usize::try_from(most + 1).unwrap_or(MOST_LABELS).min(MOST_LABELS))
        .y_label_formatter(&|grants| whole(*grants))
        .draw()?;
    // Where there is no room for gaps there are none.
    let half = if found.clients() > 60 { 0.5 } else { 0.4 };
    let bars = found.counts.grants.iter().zip(1_u32..).map(|(grants, client)| {
        let client = f64::from(client);
        Rectangle::new([(client - half, 0.0), (client + half, *grants as f64)], WAITS.filled())
    });
    chart.draw_series(bars)?;
    Ok(())
}

type Mesh<'a, 'b, 'c> =
    plotters::chart::MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'c>>;

fn mesh<'m, 'a, 'b, 'c>(mesh: &'m mut Mesh<'a, 'b, 'c>) -> &'m mut Mesh<'a, 'b, 'c> {
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", 12, &INK))
        .axis_desc_style(("sans-serif", 13, &INK))
}

/// 0, 90, 99 and so on; the last is all of them.
fn percentile(nines: f64) -> String {
    let text = match nines {
        nines if nines < 0.5 => "0",
        nines if nines < 1.5 => "90",
        nines if nines < 2.5 => "99",
        nines if nines < 3.5 => "99.9",
        _ => "100",
    };
    text.to_owned()
}

/// There is no half a client.
fn whole(value: f64) -> String {
    if (value - value.round()).abs() < 1e-6 { format!("{value:.0}") } else { String::new() }
}

/// With as many decimals as neighbours on a scale need to differ.
fn number(value: f64, top: f64) -> String {
    let decimals = match top {
        0.0..0.05 => 4,
        0.05..0.5 => 3,
        0.5..5.0 => 2,
        5.0..20.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

const SIZE: (u32, u32) = (1000, 440);
/// Where 100 % is: the fifth label.
const LAST_NINE: f64 = 4.0;
const STEP: f64 = 0.02;
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(220, 220, 220);
const WAITS: RGBColor = RGBColor(31, 119, 180);
const ROUND: RGBColor = RGBColor(200, 80, 20);
const MOST_LABELS: usize = 11;
const UNKNOWN: &str = "percentile (beyond the curve not known: waits were cut off at the end)";

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::bench::tally::Counts;

    fn found(grants: Vec<u64>, hold: Duration) -> Contended {
        let mut counts = Counts::new(grants.len(), Instant::now());
        (1..=2000).for_each(|wait| counts.waits.add(Duration::from_micros(wait * 50)));
        counts.grants = grants;
        Contended { nodes: 3, hold, took: Duration::from_secs(5), counts }
    }

    #[test]
    fn the_picture_says_what_was_measured_and_has_a_bar_for_each_client() {
        let text = picture(&found(vec![40, 41, 42], Duration::from_millis(5))).unwrap();
        for word in ["<svg", "3 nodes, 3 clients, hold 5 ms", "99.9", "one round: 3 x 5 ms = 15 ms"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        // The background is one, too.
        assert_eq!(text.matches("<rect").count(), 1 + 3);
    }

    #[test]
    fn there_is_no_round_where_nobody_holds_or_waits() {
        for (clients, hold) in [(1000, Duration::ZERO), (1, Duration::from_millis(5))] {
            let text = picture(&found(vec![1; clients], hold)).unwrap();
            assert!(!text.contains("one round"), "{text}");
        }
    }

    #[test]
    fn it_is_said_who_got_nothing_and_what_is_not_known() {
        let mut found = found(vec![1, 0, 1, 0], Duration::from_millis(5));
        assert!(known(&found).last().is_some_and(|(nines, _)| *nines == LAST_NINE));
        found.counts.waits.cut_off(Duration::from_millis(60));
        let curve = known(&found);
        // Of 100 ms, 60 are the share at which it ends.
        assert!(curve.iter().all(|(_, wait)| *wait < 60.0) && curve.len() > 10, "{curve:?}");
        let text = picture(&found).unwrap();
        assert!(text.contains("2 of 4 were never served") && text.contains(UNKNOWN), "{text}");
        let labels = text.lines().filter(|line| ["0", "1"].contains(&line.trim())).count();
        assert!(labels >= 2, "{text}");
    }

    #[test]
    fn labels_are_short_and_differ() {
        let nines = [0.0, 1.0, 2.0, 3.0, 4.0].map(percentile);
        assert_eq!(nines, ["0", "90", "99", "99.9", "100"]);
        assert_eq!([1.0, 1.5].map(whole), ["1", ""]);
        assert_eq!(
            (number(0.02, 0.1), number(12.5, 15.0), number(250.0, 500.0)),
            ("0.020".to_owned(), "12.5".to_owned(), "250".to_owned())
        );
    }
}
