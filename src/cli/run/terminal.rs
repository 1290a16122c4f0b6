//! The modes of the terminal, restored after a command that could not do so itself.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that controls this process, and its modes before the command began.
pub struct Terminal {
    file: File,
    modes: Termios,
}

impl Terminal {
    /// Opens the terminal, if the command's output goes there: in a pipeline its modes may be another program's. A
    /// daemon, a cron job, and most containers have none.
    pub fn open() -> Option<Terminal> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&file).ok()?;
        Some(Terminal { file, modes })
    }

    /// Restores the modes, as a shell does after a command that a signal has ended: an editor cannot restore them then.
    /// Takes the foreground back from a group that has ended, such as an interactive shell's. Waits for no output: the
    /// user may have stopped that.
    pub fn restore(&self) {
        let Ok(foreground) = tcgetpgrp(&self.file) else { return };
        let is_free = killpg(foreground, None) == Err(Errno::ESRCH);
        if foreground != getpgrp() && !is_free {
            // Another job has the terminal.
            return;
        }
        // A background process that changes the terminal is stopped, unless it blocks this signal.
        let unstoppable = SigSet::from(Signal::SIGTTOU);
        if let Ok(before) = unstoppable.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _ = tcsetpgrp(&self.file, getpgrp());
            let _ = tcsetattr(&self.file, SetArg::TCSANOW, &self.modes);
            let _ = before.thread_set_mask();
        }
    }
}

/// True if dlock's job is in the foreground of the terminal that controls it.
pub fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| tcgetpgrp(&terminal) == Ok(getpgrp()))
}
