//! The Sentinels' opinions about a primary, and the decision.
//!
//! A Sentinel gives an address and the epoch of its configuration, and each fail-over has an epoch of its own. A
//! primary is accepted when a majority of the Sentinels in the list agrees on both: two majorities share a
//! Sentinel, and its epoch only rises. The newest accepted primary is stored, because Sentinels that are set up
//! again, or restored from a backup, begin with an older epoch.

use dlock_core::quorum::Obstacle;

use super::Watched;
use crate::reach::address::host::{self, Host};
use crate::report::NodeError;
use crate::report::code::why;

/// The last opinions of all Sentinels.
pub(super) struct Opinions {
    /// Addresses of the Sentinels, for errors.
    sentinels: Vec<Host>,
    primary: String,
    opinions: Vec<(u64, Opinion)>,
    /// The newest accepted primary, and its epoch.
    newest: Option<(Host, u64)>,
}

/// The last opinion of one Sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opinion {
    /// The Sentinel was not asked.
    None,
    /// The primary is at this address, in a configuration of this epoch.
    There { at: Host, epoch: u64 },
    /// The Sentinel refuses, does not watch the primary, or is none.
    Unfit(String),
    /// The Sentinel does not answer.
    Silent(String),
}

impl From<NodeError> for Opinion {
    fn from(error: NodeError) -> Opinion {
        match error {
            NodeError::Unfit(why) => Opinion::Unfit(why),
            NodeError::Refused(words) if why(&words) == Obstacle::Never => {
                Opinion::Unfit(format!("refuses: {words}"))
            }
            // A refusal for the moment counts as silence.
            NodeError::Unreachable(why) => Opinion::Silent(why),
            error => Opinion::Silent(error.to_string()),
        }
    }
}

impl Opinions {
    pub(super) fn new(watched: &Watched) -> Opinions {
        let (sentinels, primary) = (watched.sentinels.clone(), watched.primary.clone());
        let opinions = vec![(0, Opinion::None); sentinels.len()];
        Opinions { sentinels, primary, opinions, newest: None }
    }

    /// Stores a Sentinel's opinion, and the round of the question.
    pub(super) fn note(&mut self, sentinel: usize, round: u64, opinion: Opinion) {
        if let Some(entry) = self.opinions.get_mut(sentinel) {
            *entry = (round, opinion);
        }
        // Opinions of earlier rounds count here: an agreement of a majority is a decision at any age.
        if let Some((at, epoch)) = self.agreed(0)
            && self.newest.as_ref().is_none_or(|(_, newest)| epoch >= *newest)
        {
            self.newest = Some((at.clone(), epoch));
        }
    }

    /// Number of Sentinels that do not watch the primary, a lasting refusal.
    fn refusals(&self, round: u64) -> usize {
        let no = |opinion: &&Opinion| matches!(opinion, Opinion::Unfit(_));
        self.in_round(round).filter(no).count()
    }

    /// True if a majority agrees, or all Sentinels have answered or failed.
    pub(super) fn is_settled(&self, round: u64) -> bool {
        self.agreed(round).is_some() || self.in_round(round).count() == self.opinions.len()
    }

    /// The newest accepted primary.
    pub(super) fn newest(&self) -> Option<&Host> {
        self.newest.as_ref().map(|(at, _)| at)
    }

    /// The primary's address, by the answers of this round.
    pub(super) fn primary(&self, round: u64) -> Result<Host, NodeError> {
        if let Some((at, _)) = self.agreed(round) {
            return Ok(at.clone());
        }
        let name = &self.primary;
        let said = self.sentinels.iter().zip(&self.opinions).map(|(at, (asked, opinion))| {
            let in_time = Some(opinion).filter(|_| *asked >= round);
            format!("{at}: {}", in_time.map_or(LATE.to_owned(), Opinion::words))
        });
        let said: Vec<String> = said.collect();
        let before =
            self.newest.as_ref().map(|(at, epoch)| format!("; last it was {at}, epoch {epoch}"));
        let before = before.unwrap_or_default();
        let said = said.join("; ");
        let words = format!("no majority of the Sentinels says where '{name}' is ({said}{before})");
        // A minority that does not watch the primary proves nothing.
        let is_sure = self.refusals(round) > self.opinions.len() / 2;
        Err(if is_sure { NodeError::Unfit(words) } else { NodeError::Unreachable(words) })
    }

    /// The primary that a majority names in this round or later, all with the same epoch, unless another one was
    /// accepted with a higher epoch.
    fn agreed(&self, round: u64) -> Option<(&Host, u64)> {
        let places = self.in_round(round).filter_map(|opinion| match opinion {
            Opinion::There { at, epoch } => Some((at, *epoch)),
            _ => None,
        });
        let votes = |place| places.clone().filter(|other| *other == place).count();
        let is_new = |at: &Host, epoch| {
            self.newest.as_ref().is_none_or(|(known, newest)| epoch >= *newest || at == known)
        };
        let mut agreed = places.clone().filter(|place| votes(*place) > self.opinions.len() / 2);
        agreed.next().filter(|(at, epoch)| is_new(at, *epoch))
    }

    fn in_round(&self, round: u64) -> impl Iterator<Item = &Opinion> + Clone {
        self.opinions.iter().filter(move |(said, _)| *said >= round).map(|(_, opinion)| opinion)
    }

    /// The Sentinels, for errors.
    pub(super) fn who(&self) -> String {
        host::joined(&self.sentinels)
    }
}

impl Opinion {
    /// Explains why the opinion does not help.
    fn words(&self) -> String {
        match self {
            Opinion::Unfit(why) | Opinion::Silent(why) => why.clone(),
            Opinion::There { at, epoch } => format!("{at}, epoch {epoch}"),
            Opinion::None => LATE.to_owned(),
        }
    }
}

const LATE: &str = "no answer in time";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::address::{Place, read};

    fn opinions(said: &[Opinion]) -> Opinions {
        let hosts: Vec<String> = (1..=said.len()).map(|place| format!("s{place}")).collect();
        let url = format!("redis+sentinel://{}/main", hosts.join(","));
        let Place::Sentinel(watched) = read(&url).unwrap().place else { panic!("{url}") };
        let mut opinions = Opinions::new(&watched);
        for (sentinel, opinion) in said.iter().enumerate() {
            opinions.note(sentinel, 1, opinion.clone());
        }
        opinions
    }

    fn there(name: &str, epoch: u64) -> Opinion {
        Opinion::There { at: Host::new(name, 6379), epoch }
    }

    fn silent() -> Opinion {
        Opinion::Silent("no answer".to_owned())
    }

    fn primary(said: &[Opinion]) -> Result<String, String> {
        let found = opinions(said).primary(1);
        found.map(|host| host.name).map_err(|error| error.to_string())
    }

    #[test]
    fn a_primary_counts_when_a_majority_names_it_with_one_epoch() {
        assert_eq!(primary(&[there("a", 1), there("a", 1), Opinion::None]), Ok("a".to_owned()));
        assert_eq!(primary(&[there("old", 3), there("new", 4), there("new", 4)]), Ok("new".into()));
        assert_eq!(primary(&[there("old", 3), there("old", 3), there("new", 4)]), Ok("old".into()));
        for undecided in [
            vec![there("a", 1), silent(), silent()],
            vec![there("a", 1), Opinion::None, Opinion::None],
            vec![there("a", 1), there("b", 2), silent()],
            vec![there("a", 1), there("b", 2), there("a", 3)],
            vec![there("a", 1), there("a", 1), there("b", 1), there("b", 1)],
            vec![there("a", 1), silent()],
        ] {
            assert!(primary(&undecided).is_err(), "{undecided:?}");
            assert_eq!(opinions(&undecided).newest(), None, "{undecided:?}");
        }
    }

    #[test]
    fn an_older_configuration_than_one_that_counted_never_counts_again() {
        let now = |opinions: &Opinions, round| opinions.primary(round).map(|host| host.name);
        let mut opinions = opinions(&[there("b", 2), there("b", 2), there("a", 1)]);
        assert_eq!(now(&opinions, 1), Ok("b".to_owned()));
        opinions.note(0, 2, silent());
        opinions.note(1, 2, silent());
        opinions.note(2, 2, there("a", 1));
        assert!(now(&opinions, 2).is_err(), "one Sentinel of three");
        assert_eq!(opinions.newest(), Some(&Host::new("b", 6379)));
        opinions.note(1, 3, there("a", 1));
        opinions.note(2, 3, there("a", 1));
        let error = now(&opinions, 3).unwrap_err().to_string();
        assert!(error.contains("a:6379, epoch 1; last it was b:6379, epoch 2)"), "{error}");
        opinions.note(1, 4, there("b", 0));
        opinions.note(2, 4, there("b", 0));
        assert_eq!(now(&opinions, 4), Ok("b".to_owned()), "this is no move");
        opinions.note(1, 5, there("a", 1));
        opinions.note(2, 5, there("a", 1));
        assert!(now(&opinions, 5).is_err(), "the epoch has not fallen");
        opinions.note(1, 6, there("a", 3));
        opinions.note(2, 6, there("a", 3));
        assert_eq!(now(&opinions, 6), Ok("a".to_owned()));
        assert_eq!(opinions.newest(), Some(&Host::new("a", 6379)));
    }

    #[test]
    fn a_majority_settles_it_without_the_silent_sentinels() {
        assert!(opinions(&[there("a", 1), there("a", 1), Opinion::None]).is_settled(1));
        assert!(!opinions(&[there("a", 1), silent(), Opinion::None]).is_settled(2));
        assert!(opinions(&[there("a", 1), silent(), silent()]).is_settled(1));
    }

    #[test]
    fn what_was_said_before_it_was_asked_anew_is_no_answer() {
        let mut opinions = opinions(&[there("a", 1)]);
        assert!(opinions.primary(2).is_err());
        opinions.note(0, 2, there("b", 2));
        assert_eq!(opinions.primary(2).map(|host| host.name), Ok("b".to_owned()));
    }

    #[test]
    fn errors_say_what_to_do() {
        let said = primary(&[Opinion::Unfit("it is none".to_owned())]).unwrap_err();
        let words = "s1:26379: it is none";
        assert_eq!(said, format!("no majority of the Sentinels says where 'main' is ({words})"));
        let said = primary(&[silent(), Opinion::Unfit("it is no Sentinel".to_owned())]);
        let words = "s1:26379: no answer; s2:26379: it is no Sentinel";
        assert!(said.unwrap_err().contains(words));
        let said = primary(&[silent(), Opinion::None]).unwrap_err();
        assert!(said.contains("s1:26379: no answer; s2:26379: no answer in time"), "{said}");
    }

    #[test]
    fn only_a_majority_that_knows_nothing_is_sure_of_it() {
        let unfit = || Opinion::Unfit(String::new());
        let sure = |said: &[Opinion]| matches!(opinions(said).primary(1), Err(NodeError::Unfit(_)));
        assert!(sure(&[unfit(), unfit(), silent()]));
        assert!(!sure(&[unfit(), silent(), silent()]));
        assert!(!sure(&[unfit(), silent()]));
    }

    #[test]
    fn a_sentinel_that_is_busy_may_answer_later() {
        let refuses = |words: &str| Opinion::from(NodeError::Refused(words.to_owned()));
        let busy = refuses("ERR max number of clients reached");
        assert!(matches!(busy, Opinion::Silent(_)), "{busy:?}");
        let never = refuses("NOAUTH a password is needed");
        assert!(matches!(never, Opinion::Unfit(_)), "{never:?}");
    }
}
