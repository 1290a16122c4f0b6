//! The signals to dlock: each ends a wait, or goes on to the command.

use std::sync::Arc;
use std::{io, thread};

use nix::libc::{SI_KERNEL, siginfo_t};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use tokio::sync::mpsc::{Receiver, channel};

/// Unblocks the signals that dlock handles: the process that started dlock may have blocked them.
pub fn unblock() {
    let _ = SigSet::from_iter(HEARD).thread_unblock();
}

/// Listener for these signals.
pub struct Signals(Receiver<Heard>);

/// A signal to dlock.
#[derive(Clone, Copy)]
pub struct Heard {
    pub signal: Signal,
    /// True for a key of the terminal, or its end: all processes of the group in the foreground have got the signal.
    pub by_terminal: bool,
}

impl Heard {
    fn of(info: siginfo_t) -> Option<Heard> {
        let signal = Signal::try_from(info.si_signo).ok()?;
        Some(Heard { signal, by_terminal: info.si_code == SI_KERNEL })
    }
}

impl Signals {
    /// Starts to listen. Signals that were ignored when dlock started (`nohup`, a background job) stay
    /// ignored, in dlock and in the command.
    pub fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let heard = HEARD.into_iter().filter(|&signal| !ignored.contains(signal));
        let listener = SignalsInfo::<WithRawSiginfo>::new(heard.map(|signal| signal as i32));
        let (sender, heard) = channel(1);
        let started = listener.and_then(|mut listener| {
            let pass_on = move || {
                for heard in listener.forever().filter_map(Heard::of) {
                    if sender.blocking_send(heard).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new().name("dlock-signals".to_owned()).spawn(pass_on)
        });
        started.map(|_| Signals(heard)).map_err(|error| {
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

/// From now on Ctrl-Z, and the use of the terminal in the background, do not stop dlock by themselves: a command may
/// ignore them, and would run on without renewals.
pub fn stop_only_here() -> io::Result<()> {
    let ignored = ignored();
    for signal in STOPPING.into_iter().filter(|&signal| !ignored.contains(signal)) {
        // A handler is enough.
        signal_hook::flag::register(signal as i32, Arc::default())?;
    }
    Ok(())
}

/// True if a terminal's user has stopped the command. Another one who did so may let dlock renew.
pub fn is_of_a_terminal(stopping: i32) -> bool {
    STOPPING.iter().any(|&signal| signal as i32 == stopping)
}

/// Stops this process until the shell continues its group.
pub fn stop_here() {
    let _ = raise(Signal::SIGSTOP);
}

/// Stops this process together with its group, as Ctrl-Z does. Does nothing without a shell that could continue them:
/// one with job control leads a session, and puts its jobs into other groups.
pub fn stop_group() {
    let session = getsid(None).and_then(|leader| getpgid(Some(leader)));
    if session.is_ok_and(|group| group != getpgrp()) {
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        stop_here();
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
const HEARD: [Signal; 7] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals by which a terminal stops a job.
const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Signals that ask a process to end.
pub const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

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
