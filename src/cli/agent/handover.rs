//! The hand-over of locks from one process of the agent to the next: a restart by SIGTERM loses none.
//!
//! Two files beside the socket, or in the folder that systemd made. The *instance file* is locked (flock) until this
//! process ends, so that there is one agent. The *table* has the plain leases that were granted to clients. An agent
//! writes it last of all, and the next one removes it before it serves: so only one agent uses it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dlock_client::Token;
use dlock_core::Owner;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::geteuid;

use super::name::Name;
use crate::say::bytes::hex;

/// The files of this agent.
pub struct Instance {
    _locked: Flock<File>,
    table: PathBuf,
}

/// A lock that is handed over. It is a hint until a majority of the nodes has confirmed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Arc<Name>,
    pub owner: Owner,
    /// The token of the holder at the nodes.
    pub token: Token,
    pub fence: u64,
    pub is_shared: bool,
    /// End of the validity: µs on the clock of this boot, which goes on while the machine sleeps.
    pub end: u64,
}

impl Instance {
    /// Takes the instance file at this path, with `.instance` added.
    pub fn take(path: &Path) -> Result<Instance, io::Error> {
        let with = |ending: &str| {
            let mut path = path.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(OWN).custom_flags(FLAGS);
        let file = options.open(with(".instance"))?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        match locked {
            Ok(locked) => Ok(Instance { _locked: locked, table: with(".locks") }),
            Err((_, Errno::EWOULDBLOCK)) => Err(io::ErrorKind::AddrInUse.into()),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Reads the table of an earlier process, and removes it first, so that it is read once.
    pub fn read(&self) -> Result<Vec<Entry>, String> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", self.table.display());
        let mut options = OpenOptions::new();
        let file = match options.read(true).custom_flags(FLAGS).open(&self.table) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.uid() != geteuid().as_raw() || found.mode() & 0o7777 != OWN {
            return Err(format!("{}: {NOT_OWN}", self.table.display()));
        }
        fs::remove_file(&self.table).map_err(failed)?;
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).map_err(failed)?;
        let boot = boot().map_err(|error| error.to_string())?;
        let handed =
            parse(&text, &boot).ok_or_else(|| format!("{}: {OF_ANOTHER}", self.table.display()))?;
        let now = now();
        Ok(handed.into_iter().filter(|entry| entry.end > now).collect())
    }

    /// Writes the table for the next process, whole or not at all.
    pub fn write(&self, handed: &[Entry]) -> io::Result<()> {
        if handed.is_empty() {
            return Ok(());
        }
        let boot = boot()?;
        let mut path = self.table.clone().into_os_string();
        path.push(".new");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(OWN).open(&path)?;
        file.write_all(written(handed, &boot).as_bytes())?;
        file.sync_all()?;
        fs::rename(&path, &self.table)
    }
}

impl Entry {
    /// The end of a validity with this time left.
    pub fn end_in(left: Duration) -> u64 {
        now().saturating_add(u64::try_from(left.as_micros()).unwrap_or(u64::MAX))
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        Duration::from_micros(self.end.saturating_sub(now()))
    }

    fn line(&self) -> String {
        let Entry { name, owner, token, fence, is_shared, end } = self;
        let (key, caller) = (hex(name.key.as_bytes()), hex(&name.token));
        let mode = if *is_shared { SHARED } else { EXCLUSIVE };
        format!("{key} {caller} {} {token} {fence} {mode} {end}\n", owner.0)
    }

    fn parse(line: &str) -> Option<Entry> {
        let words: Vec<&str> = line.split(' ').collect();
        let [key, caller, owner, token, fence, mode, end] = words.as_slice() else { return None };
        let name = Name { key: unhex(key)?.into(), token: unhex(caller)?.into() };
        Some(Entry {
            name: Arc::new(name),
            owner: Owner(owner.parse().ok()?),
            token: token.parse().ok()?,
            fence: fence.parse().ok()?,
            is_shared: match *mode {
                SHARED => true,
                EXCLUSIVE => false,
                _ => return None,
            },
            end: end.parse().ok()?,
        })
    }
}

fn written(handed: &[Entry], boot: &str) -> String {
    let mut text = format!("{FORMAT}{boot}\n");
    text.extend(handed.iter().map(Entry::line));
    text
}

/// Reads the table's text. `None`: it is of another boot, or of another format.
fn parse(text: &str, boot: &str) -> Option<Vec<Entry>> {
    let lines = text.strip_prefix(FORMAT)?.strip_prefix(boot)?.strip_prefix('\n')?;
    lines.lines().map(Entry::parse).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok()).collect()
}

/// The id of this boot. Clocks of two boots cannot be compared.
fn boot() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let boot = boot.map_err(|_| io::Error::other("/proc does not show the id of this boot"))?;
    Ok(boot.trim().to_owned())
}

/// The present time, in µs since the boot.
fn now() -> u64 {
    let now = clock_gettime(CLOCK).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// Linux stops CLOCK_MONOTONIC while the machine is suspended. Elsewhere there is no table.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
const FORMAT: &str = "dlock agent's locks, format 1\n";
const SHARED: &str = "shared";
const EXCLUSIVE: &str = "exclusive";
/// The mode of both files.
const OWN: u32 = 0o600;
/// Flags: links are not followed, and opening a pipe does not block.
const FLAGS: i32 = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).bits();
/// More than the agent has room for, in bytes.
const LARGEST: u64 = 128 << 20;
const NOT_OWN: &str = "the file is not this user's own (mode 0600), and is left alone";
const OF_ANOTHER: &str =
    "the table is of another boot, or of another version of dlock, and was removed";

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: Arc::new(Name {
                key: b"a b\n\xff".as_slice().into(),
                token: Box::from(*b"alice"),
            }),
            owner: Owner(33),
            token: Token::random(),
            fence: 1_795_238_075_371_227,
            is_shared: true,
            end: Entry::end_in(Duration::from_secs(60)),
        }
    }

    #[test]
    fn a_table_reads_as_it_was_written() {
        let handed = vec![entry(), Entry { is_shared: false, ..entry() }];
        assert_eq!(parse(&written(&handed, "boot"), "boot"), Some(handed));
        assert_eq!(parse(&written(&[entry()], "boot"), "other"), None);
    }
}
