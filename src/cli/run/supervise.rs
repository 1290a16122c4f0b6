//! Supervises the command: its signals, its end, and the loss of a lock.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use dlock_client::{Guard, Loss, LossReason};
use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use super::processes::Processes;
use super::terminal::Terminal;
use crate::hold::events::Events;
use crate::hold::take;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::signals::{self, ENDING, Signals};

/// A command and its surroundings.
pub struct Supervised<'a> {
    pub processes: Processes,
    pub guards: &'a [Guard],
    pub signals: &'a mut Signals,
    pub terminal: Option<&'a Terminal>,
    /// True if the command gets the terminal whenever dlock can give it.
    pub takes_terminal: bool,
    /// True while the command is stopped because another process has the terminal.
    pub waits_for_terminal: bool,
    pub events: &'a Events,
    /// Time between TERM and KILL when a lock is lost; zero: KILL at once.
    pub grace: Duration,
    /// Time after which dlock ends the command, while it still renews the locks.
    pub max_hold: Option<Duration>,
}

/// The outcome of a supervision.
pub enum End {
    /// The command ended while the locks were held.
    Ended {
        status: ExitStatus,
        /// True if the command was in the foreground of the terminal.
        had_terminal: bool,
    },
    /// A lock was lost before the command ended. No process of the command is left, or dlock holds no lock.
    Lost,
}

impl Supervised<'_> {
    /// Waits until the command has ended, by itself or because of a loss.
    pub async fn run(mut self) -> End {
        let mut loss = pin!(first_loss(self.guards, self.max_hold));
        let (mut told, mut had_terminal) = (false, None);
        loop {
            if let Some(status) = self.processes.ended {
                let had_terminal =
                    *had_terminal.get_or_insert_with(|| self.leave_terminal(Some(status)));
                if self.all_valid() && self.processes.are_gone() {
                    return End::Ended { status, had_terminal };
                }
            }
            // The loss comes first: a command that ended while dlock was paused did not end in time.
            tokio::select! {
                biased;
                loss = &mut loss => {
                    self.lose(&loss).await;
                    self.leave_terminal(None);
                    return End::Lost;
                }
                signal = self.signals.next() => self.handle(signal),
                () = sleep(LOOK_AT_TERMINAL), if self.waits_for_terminal && self.processes.ended.is_none() => {
                    self.look_at_terminal();
                }
                () = sleep(READ_CLOCK), if self.processes.ended.is_some() => if !told {
                    told = true;
                    self.events.warn("left_behind", LEFT_BEHIND.to_owned());
                }
            }
        }
    }

    fn handle(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.look_at_child(),
            Signal::SIGCONT => self.resume(),
            Signal::SIGTTIN | Signal::SIGTTOU => self.share_terminal(signal),
            _ => {
                self.processes.send(signal);
                if ENDING.contains(&signal) {
                    // A stopped process receives it when it goes on.
                    self.waits_for_terminal = false;
                    self.processes.send(Signal::SIGCONT);
                }
            }
        }
    }

    /// Resumes the command when the terminal is free. If another job has the terminal, dlock stops until the shell
    /// continues it. If the terminal is gone, the command ends.
    fn look_at_terminal(&mut self) {
        let Some(terminal) = self.terminal else { return };
        if terminal.is_free() {
            terminal.take_back();
        }
        if terminal.is_ours() {
            self.resume();
        } else if terminal.is_gone() {
            self.handle(Signal::SIGHUP);
        } else if !terminal.is_of_this_job() {
            signals::stop_here();
        }
    }

    /// Another process of dlock's group has tried to use the terminal, so all of them got this signal. dlock alone must
    /// not stop: the lock would expire while the command runs.
    fn share_terminal(&mut self, signal: Signal) {
        let Some(terminal) = self.terminal else { return };
        if terminal.is_ours() || terminal.is_of(self.processes.first) {
            // The command gets it again when it tries to use it.
            self.takes_terminal = false;
            self.take_terminal_back();
            signals::continue_others();
        } else if !terminal.is_of_this_job() {
            // Another job has it: the command stops, and then dlock.
            self.processes.send(signal);
        }
    }

    fn look_at_child(&mut self) {
        while let Some(by) = self.processes.stop() {
            self.stopped(by);
        }
    }

    /// Handles a stop of the command. After Ctrl-Z dlock stops, too, so that the shell that started it goes
    /// on.
    fn stopped(&mut self, by: Signal) {
        let Some(terminal) = self.terminal else { return };
        let wants_terminal = [Signal::SIGTTIN, Signal::SIGTTOU].contains(&by);
        self.takes_terminal |= wants_terminal;
        if wants_terminal && terminal.is_ours() {
            self.resume();
        } else if wants_terminal && terminal.is_of_this_job() {
            // Stopping the whole job would also stop the command that has the terminal.
            self.waits_for_terminal = true;
        } else if by != Signal::SIGSTOP || terminal.is_of(self.processes.first) {
            self.take_terminal_back();
            // The shell's SIGCONT resumes the command: before dlock has stopped, it would run on without renewals.
            match signals::stop_here() {
                true => {}
                false if wants_terminal => self.waits_for_terminal = true,
                false => self.resume(),
            }
        }
    }

    /// Resumes the command after a stop, in the foreground or in the background. Does nothing without the lock:
    /// the loss ends the command.
    fn resume(&mut self) {
        if self.processes.ended.is_some() || !self.all_valid() {
            return;
        }
        if let Some(terminal) = self.terminal
            && self.takes_terminal
            && terminal.is_ours()
        {
            terminal.give_to(self.processes.first);
        }
        self.waits_for_terminal = false;
        self.processes.send(Signal::SIGCONT);
    }

    /// Takes the terminal back from a command that has ended. Returns true if the command was in the foreground.
    fn leave_terminal(&self, status: Option<ExitStatus>) -> bool {
        let had_terminal = self.terminal.is_some_and(|it| it.is_left_by(self.processes.first));
        self.take_terminal_back();
        if had_terminal && status.is_none_or(|status| status.code().is_none()) {
            self.terminal.iter().for_each(|terminal| terminal.restore());
        }
        had_terminal
    }

    fn take_terminal_back(&self) {
        if let Some(terminal) = self.terminal
            && terminal.is_left_by(self.processes.first)
        {
            terminal.take_back();
        }
    }

    /// Ends the command because of a loss.
    async fn lose(&mut self, loss: &Loss) {
        // The signal comes first: reporting may take time.
        let signal = signal_at_a_loss(self.grace);
        self.processes.send_to_all(signal);
        let name = signal.as_str().trim_start_matches("SIG");
        self.events.lost(loss, &format!("its processes get {name}"));
        // A stopped process cannot end by itself.
        self.processes.send_to_all(Signal::SIGCONT);
        self.end_all().await;
    }

    /// Waits until no process of the command is left, even if the first one has ended. Processes that hang in
    /// a system call, or belong to another user, keep the locks that dlock still holds.
    async fn end_all(&mut self) {
        let begun = Instant::now();
        let (mut killed, mut hopeless) = (self.grace.is_zero(), false);
        while !self.processes.are_gone() {
            if killed || begun.elapsed() >= self.grace {
                // Repeated: a process of another user may have become one that KILL can end.
                self.processes.send_to_all(Signal::SIGKILL);
                if !killed {
                    killed = true;
                    self.events.killing(self.grace);
                }
            }
            if !hopeless && begun.elapsed() >= self.grace + HOPELESS {
                hopeless = true;
                self.events.failed(&Failure::new(Kind::Internal, STAY));
            }
            if hopeless && !self.any_valid() {
                return;
            }
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Signal::SIGCHLD | Signal::SIGCONT | Signal::SIGTSTP => {}
                    Signal::SIGTTIN | Signal::SIGTTOU => {}
                    other => self.processes.send(other),
                },
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn any_valid(&self) -> bool {
        self.guards.iter().any(Guard::is_valid)
    }

    fn all_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }
}

/// The first signal to a command when its lock is lost, or its dlock was killed.
pub fn signal_at_a_loss(grace: Duration) -> Signal {
    if grace.is_zero() { Signal::SIGKILL } else { Signal::SIGTERM }
}

/// Resolves when the first lock is lost, or when all are held for `max_hold`.
async fn first_loss(guards: &[Guard], max_hold: Option<Duration>) -> Loss {
    let limit = async {
        let Some(longest) = max_hold else { return std::future::pending().await };
        let held = || guards.iter().map(Guard::held_for).min();
        while let Some(left) = longest.checked_sub(held().unwrap_or_default()) {
            // Timers stop while the machine sleeps, and that clock does not.
            sleep(left.min(READ_CLOCK)).await;
        }
    };
    tokio::select! {
        biased;
        loss = take::first_loss(guards) => loss,
        () = limit => {
            let (key, fence) = guards.first().map_or(("".into(), 0), |guard| {
                (guard.key().clone(), guard.fence())
            });
            Loss { key, fence, why: LossReason::MaxHold }
        }
    }
}

/// Interval of KILL: a process that is started meanwhile may not get it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Interval of looks at the terminal while another process has it.
const LOOK_AT_TERMINAL: Duration = Duration::from_millis(100);

/// Interval of looks at the clock.
const READ_CLOCK: Duration = Duration::from_secs(1);

/// Time after KILL and `grace` until a process that has not ended counts as hanging.
const HOPELESS: Duration = Duration::from_secs(10);
const LEFT_BEHIND: &str = "the command has ended, and processes that it has started run on; \
                           dlock holds the lock until they end";
const STAY: &str = "processes of the command are left that KILL does not end; \
                    dlock waits for them while it holds a lock";
