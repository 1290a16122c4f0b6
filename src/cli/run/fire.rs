//! The scheduled time of a job's start.

use std::fmt;

use time::OffsetDateTime;
use time::UtcOffset;
use time::format_description::well_known::Rfc3339;

/// The scheduled time of a job's start: hosts agree on it even if their clocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FireTime(OffsetDateTime);

impl FireTime {
    /// Reads RFC 3339, or seconds since 1970.
    pub fn parse(text: &str) -> Result<FireTime, String> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let time = if is_number {
            text.parse().ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        } else {
            OffsetDateTime::parse(text, &Rfc3339).ok()
        };
        // Also refuses years that RFC 3339 cannot write.
        let time = time.and_then(|time| time.checked_to_offset(UtcOffset::UTC)).ok_or(EXPECTED)?;
        match time.nanosecond() {
            0 if time.year() >= 1970 => Ok(FireTime(time)),
            0 => Err(EXPECTED.to_owned()),
            _ => Err(FRACTION.to_owned()),
        }
    }
}

/// RFC 3339 in UTC: one text for one time.
impl fmt::Display for FireTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

const EXPECTED: &str =
    "expected RFC 3339, as 2026-11-25T02:00:00Z, or whole seconds since 1970, as 1795572000";
const FRACTION: &str = "a fire time has no fractions of a second: is this when the job was started, \
                        and not the time for which?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_has_one_form() {
        for text in [
            "2026-11-25T02:00:00Z",
            "2026-11-25t02:00:00.000z",
            "2026-11-25T03:00:00+01:00",
            "2026-11-24T20:30:00-05:30",
            "1795572000",
        ] {
            let fire = FireTime::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fire.to_string(), "2026-11-25T02:00:00Z", "{text}");
        }
        assert_eq!(
            FireTime::parse("0").map(|fire| fire.to_string()),
            Ok("1970-01-01T00:00:00Z".to_owned())
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "now",
            "-1",
            "+5",
            "2026-11-25",
            "2026-11-25T02:00:00",
            "2026-13-01T00:00:00Z",
            "2026-11-25T02:00:00.5Z",
            // Milliseconds since 1970.
            "1795572000000",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(FireTime::parse(text).is_err(), "{text}");
        }
    }
}
