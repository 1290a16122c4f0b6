//! Texts of the cells.

use crate::say::{bytes, duration};
use crate::watch::Seen;
use crate::watch::look::HotKey;

/// The tone of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Waits,
    Bad,
}

/// The state of a node.
pub fn state(seen: &Seen) -> (String, Tone) {
    let look = match &seen.look {
        Ok(look) => look,
        Err(trouble) => return (trouble.to_string(), Tone::Bad),
    };
    match look.text("granting") {
        "yes" if look.text("durable") == "failing" => {
            ("grants, but cannot write its state file".to_owned(), Tone::Bad)
        }
        "yes" => ("grants".to_owned(), Tone::Good),
        "quarantine" => {
            let left = duration::shown(look.millis("quarantine_ms"));
            (format!("quarantine, {left} left: {}", look.text("quarantine_reason")), Tone::Waits)
        }
        "replica" => ("replica".to_owned(), Tone::Waits),
        why => (format!("grants nothing: {why}"), Tone::Bad),
    }
}

/// The first holder of a lock, and the time since its grant; or the holder that has left it done.
pub fn holder(key: &HotKey) -> String {
    let Some(lock) = &key.lock else { return String::new() };
    if let Some(done) = &lock.done {
        let by = name(&done.outcome, &done.id);
        return format!("done by {by}, {} ago", duration::shown(done.since));
    }
    let Some(first) = lock.holders.first() else { return String::new() };
    let more = if lock.holding > 1 { format!(" +{}", lock.holding - 1) } else { String::new() };
    format!("{}{more}, {}", name(&first.meta, &first.id), duration::shown(first.held))
}

/// Host and process if META has them, else all of META, else the id of the token.
fn name(meta: &[u8], id: &str) -> String {
    let text = bytes::shown(meta);
    let word = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    match (word("host="), word("pid=")) {
        (Some(host), Some(pid)) => format!("{host}:{pid}"),
        _ if text.is_empty() => id.to_owned(),
        _ => text,
    }
}

/// The page of help.
pub const HELP: &str = "\
NODES     state; leases held; requests that wait; locks granted in a second, and
          the 99th percentile of waits, both in the last ten seconds

LOCKS     those that were waited for longest in the last two minutes or so
WAITED    by all requests together         LONGEST   one wait, granted or still there
WAITING   requests that wait now
HELD BY   host:process, or META, and for how long

arrows, j, k, PgUp, PgDn, g, G   select
Enter     the lock with its holders and its queue
Esc       back         q   quit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_host_and_process_if_it_says_so() {
        assert_eq!(name(b"host=web1 pid=47 user=me", "4da10dd6"), "web1:47");
        assert_eq!(name(b"the nightly job", "4da10dd6"), "the nightly job");
        assert_eq!(name(b"", "4da10dd6"), "4da10dd6");
        assert_eq!(name(b"\x1b[2Jhost=a", "4da10dd6"), "\\x1b[2Jhost=a");
    }
}
