//! The pictures' common parts: colours, letters, lines, and scales.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The whole picture, or a part of it.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Letters and axes.
pub const INK: RGBColor = RGBColor(45, 52, 54);
/// Less important parts.
pub const FAINT: RGBColor = RGBColor(120, 128, 133);
/// Lines behind the figures.
pub const GRID: RGBColor = RGBColor(226, 230, 233);
/// The bound that nothing can pass.
pub const IDEAL: RGBColor = RGBColor(20, 20, 20);
/// dlock.
pub const OURS: RGBColor = RGBColor(11, 110, 153);
/// The figures to which dlock's are set in relation.
pub const PALE: RGBColor = RGBColor(173, 196, 206);

/// The same library has the same colour everywhere.
pub fn color(library: &str) -> RGBColor {
    match library {
        "dlock (Rust)" => OURS,
        "DLOCK by redis-py (Python)" => RGBColor(104, 181, 214),
        "rslock (Rust)" => RGBColor(209, 73, 91),
        "@sesamecare-oss/redlock (Node.js)" => RGBColor(230, 159, 50),
        "redis-py (Python)" => RGBColor(92, 158, 112),
        "etcd (Rust)" => RGBColor(120, 94, 60),
        "ZooKeeper by kazoo (Python)" => RGBColor(196, 120, 170),
        "BLPOP + LPUSH by bare sockets" => RGBColor(150, 150, 150),
        _ => RGBColor(137, 103, 164),
    }
}

/// The width of all pictures.
pub const WIDTH: u32 = 960;
/// The room above the panels.
pub const HEAD: u32 = 62;

/// A picture of this many panels in two columns, each this high, and the room below them.
pub fn picture(
    heading: [&str; 2],
    panels: usize,
    height: u32,
    foot: u32,
    mut draw: impl FnMut(usize, &Area<'_>) -> Drawn,
    below: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, String> {
    let mut text = String::new();
    let whole = HEAD + panels.div_ceil(2) as u32 * height + foot;
    let paint = || -> Drawn {
        let area = SVGBackend::with_string(&mut text, (WIDTH, whole)).into_drawing_area();
        area.fill(&WHITE)?;
        write(&area, heading[0], (20, 22), 19, INK, HPos::Left)?;
        write(&area, heading[1], (20, 44), 13, FAINT, HPos::Left)?;
        let (_, rest) = area.split_vertically(HEAD);
        let (charts, foot) = rest.split_vertically(whole - HEAD - foot);
        for (number, part) in charts.split_evenly((panels.div_ceil(2), 2)).iter().enumerate() {
            if number < panels {
                draw(number, part)?;
            }
        }
        below(&foot)?;
        area.present()?;
        Ok(())
    };
    paint().map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text)
}

/// Letters, their middle at this height.
pub fn write(
    area: &Area<'_>,
    text: &str,
    place: (i32, i32),
    size: i32,
    color: RGBColor,
    side: HPos,
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&color);
    area.draw(&Text::new(text.to_owned(), place, style.pos(Pos::new(side, VPos::Center))))?;
    Ok(())
}

/// A line between two points.
pub fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Drawn {
    area.draw(&PathElement::new([from, to], color.stroke_width(1)))?;
    Ok(())
}

/// A line of dashes, straight across or straight down.
pub fn dashes(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Drawn {
    let length = (to.0 - from.0).max(to.1 - from.1);
    let at = |way: i32| {
        let on = |start: i32, end: i32| start + (end - start) * way.min(length) / length.max(1);
        (on(from.0, to.0), on(from.1, to.1))
    };
    for start in (0..length).step_by(7) {
        area.draw(&PathElement::new([at(start), at(start + 4)], IDEAL.stroke_width(1)))?;
    }
    Ok(())
}

/// The mapping of figures to places, from left to right or from the bottom up.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The figures at both ends.
    pub figures: (f64, f64),
    /// Their places.
    pub places: (i32, i32),
    /// True if ten times as much is always the same step.
    pub logarithmic: bool,
}

impl Scale {
    /// The place of a figure; at an end, if it is beyond.
    pub fn place(&self, figure: f64) -> i32 {
        let (low, high) = self.figures;
        let share = if self.logarithmic {
            (figure.max(low) / low).ln() / (high / low).ln()
        } else {
            (figure - low) / (high - low)
        };
        let (start, end) = self.places;
        start + ((end - start) as f64 * share.clamp(0.0, 1.0)).round() as i32
    }

    /// Round figures between the ends.
    pub fn marks(&self) -> Vec<f64> {
        let (low, high) = self.figures;
        if self.logarithmic {
            let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
            return (first..=last).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (high - low) / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        (0..=((high - low) / step) as i32).map(|number| low + f64::from(number) * step).collect()
    }
}

/// A time given in milliseconds, with two or three digits.
pub fn time(ms: f64) -> String {
    let (figure, unit) = match ms {
        ms if ms >= 1000.0 => (ms / 1000.0, "s"),
        ms if ms >= 1.0 => (ms, "ms"),
        ms => (ms * 1000.0, "µs"),
    };
    let decimals = match figure {
        figure if figure >= 99.95 || figure.fract() == 0.0 => 0,
        figure if figure >= 9.95 || unit == "µs" => 1,
        _ => 2,
    };
    format!("{figure:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::{Scale, time};

    #[test]
    fn times_are_short() {
        let shown = [0.0364, 0.25, 1.0, 5.08, 80.0, 107.4, 2651.7, 10_000.9].map(time);
        let wanted =
            ["36.4 µs", "250 µs", "1 ms", "5.08 ms", "80 ms", "107 ms", "2.65 s", "10.0 s"];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_logarithmic_scale_has_decades_at_equal_steps() {
        let scale = Scale { figures: (10.0, 10_000.0), places: (0, 300), logarithmic: true };
        assert_eq!(scale.marks().len(), 4);
        assert_eq!([10.0, 100.0, 1000.0, 1e9].map(|ms| scale.place(ms)), [0, 100, 200, 300]);
    }

    #[test]
    fn a_linear_scale_has_round_marks() {
        let scale = Scale { figures: (0.0, 830.0), places: (300, 0), logarithmic: false };
        assert_eq!(scale.marks(), [0.0, 500.0]);
        assert_eq!(scale.place(415.0), 150);
    }
}
