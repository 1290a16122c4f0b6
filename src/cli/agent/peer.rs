//! The process at the other end of a connection, and the locks that it may use.

use std::fs;

use dlock_core::Owner;
use nix::unistd::{Gid, Group, User};
use tokio::net::UnixStream;

use crate::locks::glob;

/// The process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, as the system reports it.
    Local { uid: u32, gid: u32, pid: Option<u32> },
    /// A client over TCP, which has a password.
    Tcp,
}

impl Peer {
    /// The process behind a unix socket.
    pub fn of(stream: &UnixStream) -> std::io::Result<Peer> {
        let peer = stream.peer_cred()?;
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        Ok(Peer::Local { uid: peer.uid(), gid: peer.gid(), pid })
    }

    /// The user: each has a share of the agent's room.
    pub fn owner(&self) -> Owner {
        match self {
            Peer::Local { uid, .. } => Owner(u64::from(*uid)),
            Peer::Tcp => Owner(u64::MAX),
        }
    }

    /// The text about a process, as the system reports it.
    pub fn about(&self, host: &str) -> String {
        let mut words = vec![format!("host={host}")];
        if let Peer::Local { uid, pid, .. } = self {
            words.extend(pid.map(|pid| format!("pid={pid}")));
            words.push(format!("uid={uid}"));
            words.extend(pid.and_then(program).map(|program| format!("cmd={program}")));
        }
        words.join(" ")
    }
}

/// The name of a program, as the system shows it: 15 bytes at most.
fn program(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The rules of `--allow`. Without any, every client may use all locks.
#[derive(Clone, Debug, Default)]
pub struct Allow(Vec<Rule>);

/// These peers may use these locks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    peers: Peers,
    keys: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Peers {
    User(u32),
    Group(u32),
    Tcp,
}

impl Allow {
    /// Reads pairs of words: `uid=33 keys=web:*`.
    pub fn read(words: &[String]) -> Result<Allow, String> {
        let rules = words.chunks(2).map(|rule| match rule {
            [who, keys] => Rule::read(who, keys),
            _ => Err("--allow needs two words, as in: --allow uid=33 'keys=web:*'".to_owned()),
        });
        rules.collect::<Result<_, _>>().map(Allow)
    }

    /// True if this peer may use this lock.
    pub fn allows(&self, peer: &Peer, key: &[u8]) -> bool {
        let is_for = |rule: &&Rule| match (&rule.peers, peer) {
            (Peers::User(known), Peer::Local { uid, .. }) => known == uid,
            (Peers::Group(known), Peer::Local { gid, .. }) => known == gid,
            (Peers::Tcp, Peer::Tcp) => true,
            _ => false,
        };
        self.0.is_empty() || self.0.iter().filter(is_for).any(|rule| glob::matches(&rule.keys, key))
    }
}

impl Rule {
    fn read(who: &str, keys: &str) -> Result<Rule, String> {
        let keys = keys
            .strip_prefix("keys=")
            .ok_or_else(|| format!("--allow: '{keys}' must name the keys, as in keys=web:*"))?;
        let peers = match who.split_once('=') {
            Some(("uid", user)) => Peers::User(number_of_user(user)?),
            Some(("gid", group)) => Peers::Group(number_of_group(group)?),
            None if who == "tcp" => Peers::Tcp,
            _ => return Err(format!("--allow: '{who}' must be uid=USER, gid=GROUP or tcp")),
        };
        Ok(Rule { peers, keys: keys.into() })
    }
}

fn number_of_user(name: &str) -> Result<u32, String> {
    let known = || User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    let number = name.parse().ok().or_else(known);
    number.ok_or_else(|| format!("--allow: this machine has no user '{name}'"))
}

fn number_of_group(name: &str) -> Result<u32, String> {
    let known = || Group::from_name(name).ok().flatten().map(|group| Gid::as_raw(group.gid));
    let number = name.parse().ok().or_else(known);
    number.ok_or_else(|| format!("--allow: this machine has no group '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(rules: &str) -> Result<Allow, String> {
        let words: Vec<String> = rules.split_whitespace().map(str::to_owned).collect();
        Allow::read(&words)
    }

    #[test]
    fn rules_permit_locks_by_user_and_group() {
        let web = Peer::Local { uid: 33, gid: 33, pid: None };
        let root = Peer::Local { uid: 0, gid: 0, pid: None };
        let rules = allow("uid=33 keys=web:* gid=root keys=* tcp keys=app:[ab]").unwrap();
        assert!(rules.allows(&web, b"web:1") && !rules.allows(&web, b"job:1"));
        assert!(rules.allows(&root, b"job:1"));
        assert!(rules.allows(&Peer::Tcp, b"app:a") && !rules.allows(&Peer::Tcp, b"app:c"));
        assert!(allow("").unwrap().allows(&Peer::Tcp, b"any"));
    }

    #[test]
    fn a_rule_that_says_nothing_is_refused() {
        for wrong in ["uid=33", "uid=33 web:*", "pid=1 keys=*", "uid=nobody-is-called-so keys=*"] {
            assert!(allow(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_is_named_as_the_system_knows_it() {
        let pid = Some(std::process::id());
        let text = Peer::Local { uid: 0, gid: 0, pid }.about("web1");
        assert!(text.starts_with("host=web1 pid="), "{text}");
        assert!(text.contains(" uid=0 cmd="), "{text}");
        assert_eq!(Peer::Tcp.about("web1"), "host=web1");
    }
}
