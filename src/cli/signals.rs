//! The signals to dlock: each ends a wait, or goes on to the command.

use std::{io, thread};

use nix::libc::{SI_KERNEL, siginfo_t};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use tokio::sync::mpsc::{Receiver, channel};

/// Blocks these signals for this thread, and for threads and programs that it starts, until `work` is done.
/// Signals that arrive meanwhile stay pending.
pub fn held_off<T>(work: impl FnOnce() -> T) -> T {
    hold_off();
    let done = work();
    // All of them: the process that started dlock may have blocked SIGCHLD.
    let _ = all().thread_unblock();
    done
}

/// Blocks all signals that dlock handles for this thread. Every thread does so, except the one that does the work and
/// receives them.
pub fn hold_off() {
    let _ = all().thread_block();
}

fn all() -> SigSet {
    HEARD.into_iter().chain(STOPPING).collect()
}

/// Blocks these signals for this thread. A command may ignore them, and would run on without renewals; a full screen
/// would stay.
pub fn hold_off_stops(stopping: &[Signal]) {
    let _ = stopping.iter().copied().collect::<SigSet>().thread_block();
}

/// Unblocks the signals that stop a job, for a command.
pub fn unblock_stops() {
    let _ = SigSet::from_iter(STOPPING).thread_unblock();
}

/// Listener for these signals.
pub struct Signals(Receiver<Heard>);

/// A signal to dlock.
#[derive(Clone, Copy)]
pub struct Heard {
    pub signal: Signal,
    /// True for a key of the terminal: all processes of the group in the foreground have got the signal.
    pub by_key: bool,
}

impl Heard {
    fn of(info: siginfo_t) -> Option<Heard> {
        let signal = Signal::try_from(info.si_signo).ok()?;
        // The kernel also sends ALRM for a timer, and HUP at the end of the terminal, perhaps to dlock alone.
        let is_of_a_key = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
        Some(Heard { signal, by_key: is_of_a_key && info.si_code == SI_KERNEL })
    }
}

impl Signals {
    /// Starts to listen. Signals that were ignored when dlock started (`nohup`, a background job) stay
    /// ignored, in dlock and in the command.
    ///
    /// The thread that does the work must call this.
    pub fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let heard = HEARD.into_iter().filter(|&signal| !ignored.contains(signal));
        let heard = heard.map(|signal| signal as i32);
        let (sender, receiver) = channel(1);
        // A signal between its handler and its listener would be lost, so signals stay blocked until both exist.
        let started: io::Result<Signals> = held_off(|| {
            let mut listener = SignalsInfo::<WithRawSiginfo>::new(heard)?;
            thread::Builder::new().spawn(move || {
                for heard in listener.forever().filter_map(Heard::of) {
                    if sender.blocking_send(heard).is_err() {
                        return;
                    }
                }
            })?;
            Ok(Signals(receiver))
        });
        started.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen to signals: {error}"))
        })
    }

    /// Returns the next signal. Several of one kind that arrive together count as one.
    pub async fn next(&mut self) -> Heard {
        match self.0.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }

    /// Returns the next signal that asks dlock to end. Others are dropped: no command runs yet that could get
    /// them.
    pub async fn next_that_ends(&mut self) -> Signal {
        loop {
            let heard = self.next().await;
            if ENDING.contains(&heard.signal) {
                return heard.signal;
            }
        }
    }
}

/// Ends this process by this signal, as if it were not caught: a shell leaves its loop only after such an end. Does
/// nothing as process 1 of a container, which no signal can end. Ignores QUIT, too: its core file would contain
/// passwords.
pub fn end_by(signal: Signal) {
    if getpid() != Pid::from_raw(1) && signal != Signal::SIGQUIT {
        let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
    }
}

/// Signals that dlock handles. SIGCHLD is about the command; the others go on to it.
pub const HEARD: [Signal; 8] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGALRM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals by which a terminal stops a job.
pub const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Signals that ask a process to end.
pub const ENDING: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGALRM];

/// Returns the signals that were ignored when dlock started, as Linux reports them in a file; none without
/// that file.
fn ignored() -> SignalMask {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    SignalMask::ignored_in(&status)
}

/// Bit n-1 is signal n.
struct SignalMask(u64);

impl SignalMask {
    fn ignored_in(status: &str) -> SignalMask {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        SignalMask(mask.unwrap_or(0))
    }

    /// True if dlock must keep ignoring this signal. Never for SIGCHLD, which reports the end of children.
    fn contains(&self, signal: Signal) -> bool {
        signal != Signal::SIGCHLD && self.0 & (1 << (signal as i32 - 1)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_at_the_start_is_known() {
        let nohup = SignalMask::ignored_in("Name:\tdlock\nSigIgn:\t0000000000001001\n");
        assert!(nohup.contains(Signal::SIGHUP));
        assert!(!nohup.contains(Signal::SIGTERM));
        assert!(!SignalMask::ignored_in("").contains(Signal::SIGHUP));
    }
}
