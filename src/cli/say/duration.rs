//! Durations as people type them: `30`, `0.5`, `500ms`, `2s`, `1m`, `1h30m`, `1d`.

use std::time::Duration;

/// A number of seconds, or numbers with a unit each, the largest unit first. Zero is allowed.
pub fn parse(text: &str) -> Result<Duration, String> {
    let (mut rest, mut sum, mut last) = (text, Duration::ZERO, f64::INFINITY);
    loop {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        let seconds = match unit {
            // With several numbers each needs a unit.
            "" if rest == text && after.is_empty() => 1.0,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(EXPECTED.to_owned()),
        };
        if seconds >= last {
            return Err(EXPECTED.to_owned());
        }
        let number: f64 = number.parse().map_err(|_| EXPECTED)?;
        let more = Duration::try_from_secs_f64(number * seconds).map_err(|_| TOO_LONG)?;
        sum = sum.checked_add(more).filter(|sum| *sum <= LONGEST).ok_or(TOO_LONG)?;
        if after.is_empty() {
            return Ok(sum);
        }
        (rest, last) = (after, seconds);
    }
}

/// Splits off the leading characters of this kind.
fn split(text: &str, is_of_it: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_of_it(c)).unwrap_or(text.len()))
}

/// Like [`parse`], but at least a millisecond.
pub fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        duration if duration < Duration::from_millis(1) => Err("must be at least 1ms".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses a lease: one that ends before a program has started is useless.
pub fn parse_lease(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        duration if duration < Duration::from_millis(100) => {
            Err("must be at least 100ms".to_owned())
        }
        duration => Ok(duration),
    }
}

/// The form for people.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if (1..1000).contains(&duration.as_micros()) => format!("{} µs", duration.as_micros()),
        0 => format!("{} ms", duration.as_millis()),
        1..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// The form for JSON.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const EXPECTED: &str = "expected seconds, as 30 or 0.5, or units, as 500ms, 2s, 1m, 1h30m";
const TOO_LONG: &str = "must be at most 1000 days";

/// Limit of a duration: beyond it, sums with the time of day would have to be checked everywhere.
const LONGEST: Duration = Duration::from_secs(1000 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction_or_a_unit() {
        let expected = [
            ("30", 30_000),
            ("0.5", 500),
            (".5", 500),
            ("0", 0),
            ("500ms", 500),
            ("2s", 2_000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0.5h0.5s", 1_800_500),
            ("1m500ms", 60_500),
        ];
        for (text, millis) in expected {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "s",
            ".",
            "-1",
            "1 s",
            "1e3",
            "1.2.3",
            "5x",
            "inf",
            "nan",
            "9999999d",
            "1h30",
            "30m1h",
            "1m1m",
            "1h30x",
            "1h-5m",
            "1h 5m",
            "999d2d",
            "1000000000000000000h1s",
            "999d18446744073709549568s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0").is_err());
        assert!(parse_positive("0.1ms").is_err());
        assert!(parse_lease("99ms").is_err());
    }

    #[test]
    fn people_see_three_digits() {
        let expected = [
            (0, "0 ms"),
            (250, "250 µs"),
            (12_000, "12 ms"),
            (1_250_000, "1.2 s"),
            (12_900_000, "12 s"),
            (600_000_000, "10 min"),
        ];
        for (micros, text) in expected {
            assert_eq!(shown(Duration::from_micros(micros)), text);
        }
    }
}
