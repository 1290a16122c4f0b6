//! The signals to dlock: each ends a wait, or goes on to the command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid};
use tokio::signal::unix::{self, SignalKind};

/// Blocks these signals for this thread, and for threads and programs that it starts, until `work` is done.
/// Signals that arrive meanwhile stay pending.
pub fn held_off<T>(work: impl FnOnce() -> T) -> T {
    hold_off();
    let done = work();
    // All of them: the process that started dlock may have blocked SIGCHLD.
    let _ = SigSet::from_iter(HEARD).thread_unblock();
    done
}

/// Blocks these signals for this thread. Every thread does so, except the one that does the work and receives
/// them.
pub fn hold_off() {
    let _ = SigSet::from_iter(HEARD).thread_block();
}

/// Listener for these signals. While it exists, their default actions are off.
pub struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Starts to listen. Signals that were ignored when dlock started (`nohup`, a background job) stay
    /// ignored, in dlock and in the command.
    ///
    /// The thread that does the work must call this.
    pub fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let heard = HEARD.into_iter().filter(|&signal| !ignored.contains(signal));
        let streams = heard.map(stream);
        // A signal between its handler and its listener would be lost, so signals stay blocked until both
        // exist.
        let streams = held_off(|| streams.collect::<io::Result<_>>());
        streams.map(|streams| Signals { streams }).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen to signals: {error}"))
        })
    }

    /// Listens to the signals that stop a job for its use of the terminal, too: a holder must not stop while its
    /// command runs. Other threads need not block them: a handler is enough.
    pub fn listen_to_terminal(&mut self) -> io::Result<()> {
        let ignored = ignored();
        for signal in [Signal::SIGTTIN, Signal::SIGTTOU] {
            if !ignored.contains(signal) {
                self.streams.push(stream(signal)?);
            }
        }
        Ok(())
    }

    /// Returns the next signal. Several of one kind that arrive together count as one.
    pub async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next signal that asks dlock to end. Others are dropped: no command runs yet that could get
    /// them.
    pub async fn next_that_ends(&mut self) -> Signal {
        loop {
            match self.next_that_halts().await {
                Signal::SIGTSTP => _ = stop_here(),
                signal => return signal,
            }
        }
    }

    /// Returns the next signal that asks dlock to end, or to stop until the shell continues it.
    pub async fn next_that_halts(&mut self) -> Signal {
        loop {
            match self.next().await {
                signal if ENDING.contains(&signal) || signal == Signal::SIGTSTP => return signal,
                _ => {}
            }
        }
    }

    /// Waits until the shell has continued this process. Returns a signal that asks dlock to end, if one comes first.
    pub async fn until_continued(&mut self) -> Option<Signal> {
        loop {
            match self.next().await {
                Signal::SIGCONT => return None,
                signal if ENDING.contains(&signal) => return Some(signal),
                _ => {}
            }
        }
    }
}

fn stream(signal: Signal) -> io::Result<(Signal, unix::Signal)> {
    Ok((signal, unix::signal(SignalKind::from_raw(signal as i32))?))
}

/// Stops this process, and the processes that were started together with it, until the shell continues them with
/// SIGCONT. Another thread may have to run first, so this thread may go on for a moment. Returns false, and stops
/// nothing, without a shell that could continue them.
pub fn stop_here() -> bool {
    // A shell with job control leads a session, and puts its jobs into other groups.
    let session = getsid(None).and_then(|leader| getpgid(Some(leader)));
    let has_job_control = session.is_ok_and(|group| group != getpgrp());
    if has_job_control {
        let _ = kill(Pid::from_raw(0), Signal::SIGSTOP);
    }
    has_job_control
}

/// Sends SIGINT to processes that were started together with this one: Ctrl-C has reached only the command.
pub fn interrupt_others() {
    let _ = kill(Pid::from_raw(0), Signal::SIGINT);
}

/// Continues processes that were started together with this one and have stopped.
pub fn continue_others() {
    let _ = kill(Pid::from_raw(0), Signal::SIGCONT);
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
const HEARD: [Signal; 10] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

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

    /// True if dlock must keep ignoring this signal. Never for SIGCHLD, which reports the end of children, nor
    /// for WINCH and CONT, which are harmless.
    fn contains(&self, signal: Signal) -> bool {
        let needed = [Signal::SIGCHLD, Signal::SIGWINCH, Signal::SIGCONT].contains(&signal);
        !needed && self.0 & (1 << (signal as i32 - 1)) != 0
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
