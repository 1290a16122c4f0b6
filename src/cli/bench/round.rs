//! The time that the contended lock takes for one round of all clients, and the settings that must be longer.

use std::time::Duration;

use crate::say::duration::measured;

/// The settings of the command line.
pub struct Round {
    pub clients: u16,
    pub hold: Duration,
    /// Length of the measurement.
    pub time: Duration,
}

impl Round {
    /// If to hand over cost nothing.
    pub fn length(&self) -> Duration {
        self.hold * self.clients.into()
    }

    /// The longest time for all clients to connect where they will wait.
    pub fn warm_up(&self) -> Duration {
        CONNECT + self.hand_overs() * 2
    }

    /// The longest time for all of them to have had the lock once, before the clock begins. Whoever
    /// measures for less than a round does not want to wait for a whole one.
    pub fn first(&self) -> Duration {
        LEAST + self.hand_overs() + (self.length() * 3 / 2).min(self.time)
    }

    /// The longest time for those that wait when the time is over.
    pub fn last(&self) -> Duration {
        LEAST.max(((self.length() + self.hand_overs()) * 3 / 2).min(self.time / 2))
    }

    /// The warning for a measurement that is too short to see many waits from the request to the grant.
    pub fn warning(&self) -> Option<String> {
        let enough = self.length() * 3;
        (self.time < enough).then(|| {
            let enough = match enough {
                _ if enough > LONGEST => String::new(),
                _ if enough < Duration::from_secs(1) => {
                    format!(" (enough: --time {}ms)", enough.as_millis())
                }
                _ => format!(" (enough: --time {:.0}s)", enough.as_secs_f64().ceil()),
            };
            format!(
                "--time {} is short: a lock that {} clients hold for {} each takes {} to go \
                 round, so percentiles of the waits may stay unknown{enough}",
                measured(self.time),
                self.clients,
                measured(self.hold),
                measured(self.length()),
            )
        })
    }

    /// The cost of all hand-overs, on a slow network.
    fn hand_overs(&self) -> Duration {
        HAND_OVER * self.clients.into()
    }
}

const CONNECT: Duration = Duration::from_secs(5);
const LEAST: Duration = Duration::from_secs(1);
/// Of what --time can be.
const LONGEST: Duration = Duration::from_secs(600);
const HAND_OVER: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn round(clients: u16, hold: u64, time: u64) -> Round {
        let [hold, time] = [hold, time].map(Duration::from_millis);
        Round { clients, hold, time }
    }

    #[test]
    fn who_measures_for_long_enough_is_not_warned() {
        assert_eq!(round(16, 5, 240).warning(), None);
        assert_eq!(round(1000, 0, 100).warning(), None);
        let said = round(100, 1000, 5000).warning().unwrap();
        for word in ["--time 5 s", "100 clients", "takes 100 s", "--time 300s"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(round(16, 5, 200).warning().unwrap().contains("--time 240ms"));
        // No measurement may be that long.
        assert!(!round(1000, 1000, 5000).warning().unwrap().contains("enough"));
    }

    #[test]
    fn where_the_time_is_enough_there_is_time_for_a_whole_round_before_and_after() {
        for (clients, hold) in [(16, 5), (100, 1000), (1000, 20)] {
            let round = round(clients, hold, 3 * hold * u64::from(clients));
            assert!(round.first() > round.length() && round.last() > round.length());
        }
    }

    #[test]
    fn where_the_time_is_short_the_rest_is_short_too() {
        let round = round(30, 1000, 100);
        assert!(round.first() < Duration::from_secs(2) && round.last() < Duration::from_secs(2));
    }
}
