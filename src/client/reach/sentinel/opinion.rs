//! What the Sentinels say of a primary, and what follows.

use super::Watched;
use crate::reach::address::host::{self, Host};
use crate::report::NodeError;

/// What all Sentinels said last.
pub(super) struct Board {
    /// Where they are, for errors.
    sentinels: Vec<Host>,
    primary: String,
    opinions: Vec<(u64, Opinion)>,
}

/// What one Sentinel said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opinion {
    /// It was not asked.
    None,
    /// The primary is there, by a configuration of this epoch.
    There { at: Host, epoch: u64 },
    /// It knows no such primary, but these.
    Unknown(Vec<String>),
    /// It refuses, or is no Sentinel.
    Unfit(String),
    /// It does not answer.
    Silent(String),
}

impl Board {
    pub(super) fn new(watched: &Watched) -> Board {
        let (sentinels, primary) = (watched.sentinels.clone(), watched.primary.clone());
        let opinions = vec![(0, Opinion::None); sentinels.len()];
        Board { sentinels, primary, opinions }
    }

    /// A Sentinel has said so, when it was asked in this round.
    pub(super) fn note(&mut self, sentinel: usize, round: u64, opinion: Opinion) {
        if let Some(entry) = self.opinions.get_mut(sentinel) {
            *entry = (round, opinion);
        }
    }

    /// How many know where the primary is.
    pub(super) fn answers(&self, round: u64) -> usize {
        self.in_round(round).filter(|opinion| matches!(opinion, Opinion::There { .. })).count()
    }

    /// Whether all have answered, and none knows where the primary is: to wait longer would change nothing.
    pub(super) fn is_unknown(&self, round: u64) -> bool {
        let no = |opinion: &&Opinion| matches!(opinion, Opinion::Unknown(_) | Opinion::Unfit(_));
        self.in_round(round).filter(no).count() == self.opinions.len()
    }

    /// Whether a majority has said where it is, or nobody is left to say.
    pub(super) fn is_settled(&self, round: u64) -> bool {
        let all = self.opinions.len();
        self.answers(round) > all / 2 || self.in_round(round).count() == all
    }

    /// Where the primary is, by all that was said, old or new.
    pub(super) fn best(&self) -> Option<&Host> {
        self.decide(self.opinions.iter().map(|(_, opinion)| opinion))
    }

    /// Where the primary is, by the answers of this round.
    pub(super) fn primary(&self, round: u64) -> Result<Host, NodeError> {
        if let Some(at) = self.decide(self.in_round(round)) {
            return Ok(at.clone());
        }
        let unknown = self.in_round(round).find_map(|opinion| match opinion {
            Opinion::Unknown(others) => Some(others),
            _ => None,
        });
        let name = &self.primary;
        if let Some(others) = unknown {
            let others = match others.is_empty() {
                true => "none".to_owned(),
                false => others.join(", "),
            };
            let words = format!("the Sentinels watch no primary '{name}'; they watch: {others}");
            return Err(NodeError::Unfit(words));
        }
        let mut silent = Vec::new();
        for (at, (said, opinion)) in self.sentinels.iter().zip(&self.opinions) {
            match opinion {
                Opinion::Unfit(why) => return Err(NodeError::Unfit(format!("{at}: {why}"))),
                Opinion::Silent(why) if *said >= round => silent.push(format!("{at}: {why}")),
                _ => silent.push(format!("{at}: no answer in time")),
            }
        }
        let words = format!("no Sentinel says where '{name}' is ({})", silent.join("; "));
        Err(NodeError::Unreachable(words))
    }

    /// The highest epoch decides; among equals, most votes; and then the first in the list.
    fn decide<'a>(
        &'a self,
        opinions: impl Iterator<Item = &'a Opinion> + Clone,
    ) -> Option<&'a Host> {
        let places = opinions.filter_map(|opinion| match opinion {
            Opinion::There { at, epoch } => Some((at, *epoch)),
            _ => None,
        });
        let votes = |at: &Host| places.clone().filter(|(other, _)| *other == at).count();
        let ranked = places.clone().enumerate();
        let best = ranked
            .max_by_key(|(place, (at, epoch))| (*epoch, votes(at), std::cmp::Reverse(*place)));
        best.map(|(_, (at, _))| at)
    }

    fn in_round(&self, round: u64) -> impl Iterator<Item = &Opinion> + Clone {
        self.opinions.iter().filter(move |(said, _)| *said >= round).map(|(_, opinion)| opinion)
    }

    /// The Sentinels, for errors.
    pub(super) fn who(&self) -> String {
        host::joined(&self.sentinels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::address::{Place, read};

    fn board(said: &[Opinion]) -> Board {
        let hosts: Vec<String> = (1..=said.len()).map(|place| format!("s{place}")).collect();
        let url = format!("redis+sentinel://{}/main", hosts.join(","));
        let Place::Sentinel(watched) = read(&url).unwrap().place else { panic!("{url}") };
        let mut board = Board::new(&watched);
        for (sentinel, opinion) in said.iter().enumerate() {
            board.note(sentinel, 1, opinion.clone());
        }
        board
    }

    fn there(name: &str, epoch: u64) -> Opinion {
        Opinion::There { at: Host::new(name, 6379), epoch }
    }

    fn silent() -> Opinion {
        Opinion::Silent("no answer".to_owned())
    }

    fn primary(said: &[Opinion]) -> Result<String, String> {
        let found = board(said).primary(1);
        found.map(|host| host.name).map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_configuration_counts_and_not_the_number_of_those_who_are_late() {
        let said = [there("old", 3), there("old", 3), there("new", 4)];
        assert_eq!(primary(&said), Ok("new".to_owned()));
        assert_eq!(board(&said).best(), Some(&Host::new("new", 6379)));
        let said = [there("a", 3), there("b", 3), there("b", 3)];
        assert_eq!(primary(&said), Ok("b".to_owned()));
        assert_eq!(primary(&[there("a", 3), there("b", 3)]), Ok("a".to_owned()));
    }

    #[test]
    fn a_majority_settles_it_without_those_who_are_silent() {
        assert!(board(&[there("a", 1), there("a", 1), Opinion::None]).is_settled(1));
        assert!(!board(&[there("a", 1), silent(), Opinion::None]).is_settled(2));
        assert!(board(&[there("a", 1), silent(), silent()]).is_settled(1));
        assert_eq!(primary(&[silent(), silent(), there("a", 1)]), Ok("a".to_owned()));
    }

    #[test]
    fn when_all_say_no_there_is_nobody_to_wait_for() {
        let unknown = || Opinion::Unknown(Vec::new());
        let unfit = || Opinion::Unfit("it is no Sentinel".to_owned());
        assert!(board(&[unknown(), unfit()]).is_unknown(1));
        assert!(!board(&[unknown(), unfit()]).is_unknown(2));
        for other in [silent(), Opinion::None, there("a", 1)] {
            assert!(!board(&[unknown(), other]).is_unknown(1));
        }
    }

    #[test]
    fn what_was_said_before_it_was_asked_anew_is_no_answer() {
        let mut board = board(&[there("a", 1)]);
        assert!(board.primary(2).is_err());
        board.note(0, 2, there("b", 2));
        assert_eq!(board.primary(2).map(|host| host.name), Ok("b".to_owned()));
    }

    #[test]
    fn errors_say_what_to_do() {
        let unknown = Opinion::Unknown(vec!["cache".to_owned(), "jobs".to_owned()]);
        let said = primary(&[silent(), unknown]).unwrap_err();
        assert_eq!(said, "the Sentinels watch no primary 'main'; they watch: cache, jobs");
        let said = primary(&[silent(), Opinion::Unfit("it is no Sentinel".to_owned())]);
        assert_eq!(said.unwrap_err(), "s2:26379: it is no Sentinel");
        let said = primary(&[silent(), Opinion::None]).unwrap_err();
        assert!(said.contains("s1:26379: no answer; s2:26379: no answer in time"), "{said}");
    }
}
