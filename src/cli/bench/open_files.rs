//! The limit of connections of this process: many clients need more than the usual 1024.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::say::failure::Failure;

/// Raises the limit as far as is needed, or says why that is not possible.
pub fn allow(clients: usize, nodes: usize) -> Result<(), Failure> {
    let refuse = |error| Failure::internal(&format_args!("cannot ask for open files: {error}"));
    let needed = needed(clients, nodes);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refuse)?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(Failure::usage(format_args!(
            "--clients {clients}: on {nodes} nodes they need {needed} open files, and this process \
             may have {hard} (ulimit -Hn)"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(refuse)
}

/// To each node a client has a connection, and another one on which it waits when it is next.
fn needed(clients: usize, nodes: usize) -> u64 {
    let needed = clients * 2 * nodes + BESIDE;
    u64::try_from(needed).unwrap_or(u64::MAX)
}

/// Files that are open for other purposes.
const BESIDE: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_enough_for_the_default() {
        allow(16, 5).expect("a process may have so many files");
        assert_eq!(needed(1000, 5), 10_100);
    }
}
