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

/// The first holder of a lock, and the time since its grant; or who has left it done.
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

/// Host and process if META says them, else all of META, else what is shown in place of the token.
fn name(meta: &[u8], id: &str) -> String {
    let text = bytes::shown(meta);
    let word = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    match (word("host="), word("pid=")) {
        (Some(host), Some(pid)) => format!("{host}:{pid}"),
        _ if text.is_empty() => id.to_owned(),
        _ => text,
    }
}

/// Numbers of waiters as a line of bars, the newest last.
pub fn sparks(waiting: impl Iterator<Item = u64>) -> String {
    let waiting: Vec<u64> = waiting.collect();
    let most = waiting.iter().copied().max().unwrap_or(0);
    let bar = |n: &u64| match n {
        0 => ' ',
        n => {
            let step = (n * BARS.len() as u64).div_ceil(most).saturating_sub(1);
            BARS.get(step as usize).copied().unwrap_or(' ')
        }
    };
    waiting.iter().map(bar).collect()
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The page of help.
pub const HELP: &str = "\
NODES     state; leases held; requests that wait; locks granted in a second, and
          the 99th percentile of waits, both in the last ten seconds

LOCKS     those that were waited for longest in the last two minutes or so
WAITED    by all who waited, together      LONGEST   one wait
WAITING   who waits now                    LATELY    the same at the last looks
HELD BY   host:process (or what the holder says of itself), and for how long

arrows, j, k, PgUp, PgDn, g, G   select
Enter     the lock with its holders and its queue
s         sort by the next column
/         show only keys that contain what is typed; Esc ends that
l         list some locks, whether they hurt or not (asks the nodes once)
b         end the lock that is shown, after a question
Esc       back         Ctrl-Z   to the shell; fg comes back         q   quit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_who_waits() {
        assert_eq!(sparks([0, 1, 4, 8].into_iter()), " ▁▄█");
        assert_eq!(sparks([0, 0].into_iter()), "  ");
        assert_eq!(sparks([].into_iter()), "");
        assert_eq!(sparks([3].into_iter()), "█");
    }

    #[test]
    fn a_holder_is_host_and_process_if_it_says_so() {
        assert_eq!(name(b"host=web1 pid=47 user=me", "4da10dd6"), "web1:47");
        assert_eq!(name(b"the nightly job", "4da10dd6"), "the nightly job");
        assert_eq!(name(b"", "4da10dd6"), "4da10dd6");
        assert_eq!(name(b"\x1b[2Jhost=a", "4da10dd6"), "\\x1b[2Jhost=a");
    }
}
