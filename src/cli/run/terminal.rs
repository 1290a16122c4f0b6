//! The terminal: its foreground group reads the keys and gets Ctrl-C.
//!
//! The command is a process group of its own, so that dlock can end all of it. If dlock's group is in the
//! foreground, dlock puts the command's there, as a shell does, and takes the foreground back in the end.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgid, getpgrp, tcgetpgrp, tcsetpgrp};

use super::processes::parent_of;

/// The terminal that controls this process.
pub struct Terminal {
    file: File,
    /// Its modes before the command began.
    modes: Option<Termios>,
}

impl Terminal {
    /// Opens the terminal. A daemon, a cron job, and most containers have none.
    pub fn open() -> Option<Terminal> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&file).ok();
        Some(Terminal { file, modes })
    }

    /// True if dlock's group is in the foreground.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.file) == Ok(getpgrp())
    }

    /// True if the command should have the terminal from the start: stdin and stdout are the terminal, and dlock is in
    /// the foreground.
    ///
    /// In a pipeline another part may be reading the keys. A command still gets the terminal when it tries to use it.
    pub fn is_to_hand_over(&self) -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal() && self.is_ours()
    }

    /// True if this group is in the foreground.
    pub fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.file) == Ok(group)
    }

    /// True if this group is in the foreground, or one that has ended: a command may have put another one there.
    pub fn is_left_by(&self, group: Pid) -> bool {
        self.is_of(group) || self.is_free()
    }

    /// True if the terminal has been closed.
    pub fn is_gone(&self) -> bool {
        tcgetpgrp(&self.file).is_err()
    }

    /// True if the group in the foreground has ended.
    pub fn is_free(&self) -> bool {
        tcgetpgrp(&self.file).is_ok_and(|group| killpg(group, None) == Err(Errno::ESRCH))
    }

    /// True if the command of another dlock of this job is in the foreground: two of them in one pipeline, or in a script.
    pub fn is_of_this_job(&self) -> bool {
        let parent = tcgetpgrp(&self.file).ok().and_then(parent_of);
        parent.is_some_and(|parent| getpgid(Some(parent)) == Ok(getpgrp()))
    }

    pub fn give_to(&self, group: Pid) {
        // A background process that changes the foreground is stopped, unless it blocks this signal.
        let unstoppable = SigSet::from(Signal::SIGTTOU);
        if let Ok(before) = unstoppable.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            // This fails if the group is gone, and then no process needs the terminal.
            let _ = tcsetpgrp(&self.file, group);
            let _ = before.thread_set_mask();
        }
    }

    pub fn take_back(&self) {
        self.give_to(getpgrp());
    }

    /// Restores the modes from before the command. A shell does so, too, after a command that a signal has ended: an
    /// editor cannot restore them then.
    pub fn restore(&self) {
        if let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.file, SetArg::TCSADRAIN, modes);
        }
    }
}
