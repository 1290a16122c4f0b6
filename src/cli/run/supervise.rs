//! Supervises the command: its signals, its end, and the loss of the lock.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use dlock_client::{Guard, Loss, LossReason};
use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use super::processes::{Processes, Whom};
use super::terminal::{self, Terminal};
use crate::hold::events::Events;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::signals::{ENDING, Heard, Signals};

/// A command and its surroundings.
pub struct Supervised<'a> {
    pub processes: Processes,
    pub guard: &'a Guard,
    pub signals: &'a mut Signals,
    pub terminal: Option<&'a Terminal>,
    pub events: &'a Events,
    /// Time between TERM and KILL when the lock is lost; zero: KILL at once.
    pub grace: Duration,
    /// Time after which dlock ends the command, while it still renews the lock.
    pub max_hold: Option<Duration>,
    pub started: Instant,
}

/// The outcome of a supervision.
pub enum End {
    /// The command ended while the lock was held.
    Ended(ExitStatus),
    /// The lock was lost before the command ended. No process of the command is left, or dlock does not hold it.
    Lost,
}

impl Supervised<'_> {
    /// Waits until the command has ended, by itself or because of a loss.
    pub async fn run(mut self) -> End {
        let mut loss = pin!(loss(self.guard, self.max_hold));
        let mut told = false;
        loop {
            if let Some(status) = self.processes.ended
                && self.guard.is_valid()
                && self.processes.are_gone()
            {
                if status.code().is_none() {
                    self.restore_terminal();
                }
                return End::Ended(status);
            }
            // The loss comes first: a command that ended while dlock was paused did not end in time.
            tokio::select! {
                biased;
                loss = &mut loss => {
                    self.lose(&loss).await;
                    self.restore_terminal();
                    return End::Lost;
                }
                signal = self.signals.next() => self.handle(signal),
                () = sleep(LOOK_AGAIN), if self.processes.stopped => self.go_on(),
                () = sleep(READ_CLOCK), if self.processes.ended.is_some() => if !told {
                    told = true;
                    self.events.warn("left_behind", LEFT_BEHIND.to_owned());
                }
            }
        }
    }

    fn handle(&mut self, Heard { signal, by_key }: Heard) {
        if signal == Signal::SIGCHLD {
            // `are_gone` tells a failure.
            let _ = self.processes.collect();
            return;
        }
        // A key of the terminal has reached the group, unless it came before the command.
        let in_group = by_key && self.started.elapsed() >= START;
        self.processes.send(signal, if in_group { Whom::OtherGroups } else { Whom::All });
        if ENDING.contains(&signal) {
            // A stopped process receives it when it goes on.
            self.processes.send(Signal::SIGCONT, Whom::All);
        }
    }

    /// Continues the command after Ctrl-Z: nothing may stop dlock, which renews the lock. A command that the terminal has
    /// stopped in the background waits until its job is in the foreground.
    fn go_on(&mut self) {
        if terminal::is_in_foreground() {
            self.processes.stopped = false;
            self.processes.send(Signal::SIGCONT, Whom::All);
        }
    }

    fn restore_terminal(&self) {
        self.terminal.iter().for_each(|terminal| terminal.restore());
    }

    /// Ends the command because of a loss.
    async fn lose(&mut self, loss: &Loss) {
        // The signal comes first: reporting may take time.
        let signal = signal_at_a_loss(self.grace);
        self.processes.send(signal, Whom::All);
        let name = signal.as_str().trim_start_matches("SIG");
        self.events.lost(loss, &format!("its processes get {name}"));
        // A stopped process cannot end by itself.
        self.processes.send(Signal::SIGCONT, Whom::All);
        self.end_all().await;
    }

    /// Waits until no process of the command is left, even if the first one has ended. Processes that hang in
    /// a system call, or belong to another user, keep the lock that dlock still holds.
    async fn end_all(&mut self) {
        let begun = Instant::now();
        let (mut killed, mut hopeless) = (self.grace.is_zero(), false);
        while !self.processes.are_gone() {
            if killed || begun.elapsed() >= self.grace {
                // Repeated: a process of another user may have become one that KILL can end.
                self.processes.send(Signal::SIGKILL, Whom::All);
                if !killed {
                    killed = true;
                    self.events.killing(self.grace);
                }
            }
            if !hopeless && begun.elapsed() >= self.grace + HOPELESS {
                hopeless = true;
                self.events.failed(&Failure::new(Kind::Internal, STAY));
            }
            if hopeless && !self.guard.is_valid() {
                return;
            }
            tokio::select! {
                signal = self.signals.next() => self.handle(signal),
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }
}

/// The first signal to a command when its lock is lost, or its dlock was killed.
pub fn signal_at_a_loss(grace: Duration) -> Signal {
    if grace.is_zero() { Signal::SIGKILL } else { Signal::SIGTERM }
}

/// Resolves when the lock is lost, or has been held for `max_hold`.
async fn loss(guard: &Guard, max_hold: Option<Duration>) -> Loss {
    let limit = async {
        let Some(longest) = max_hold else { return std::future::pending().await };
        while let Some(left) = longest.checked_sub(guard.held_for()) {
            // Timers stop while the machine sleeps, and that clock does not.
            sleep(left.min(READ_CLOCK)).await;
        }
    };
    tokio::select! {
        biased;
        loss = guard.lost() => loss,
        () = limit => {
            Loss { key: guard.key().clone(), fence: guard.fence(), why: LossReason::MaxHold }
        }
    }
}

/// Interval of looks at the terminal, and of KILL: a process that is started meanwhile may not get it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time in which dlock may hear signals from before the start of the command.
const START: Duration = Duration::from_millis(100);

/// Interval of looks at the clock.
const READ_CLOCK: Duration = Duration::from_secs(1);

/// Time after KILL and `grace` until a process that has not ended counts as hanging.
const HOPELESS: Duration = Duration::from_secs(10);
const LEFT_BEHIND: &str = "the command has ended, and processes that it has started run on; \
                           dlock holds the lock until they end";
const STAY: &str = "processes of the command are left that KILL does not end; \
                    dlock waits for them while it holds a lock";
