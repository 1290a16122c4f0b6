//! Child processes that cannot outlive the tests.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread;

use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, getpid, getppid};

/// Starts a child that the kernel kills when this process ends, even if it is killed itself.
pub fn spawn(command: Command) -> io::Result<Child> {
    // The kernel ties a child to the thread that made it, and each test has a thread of its own. So one
    // thread, which lasts as long as the process, makes all children.
    type Order = (Command, Sender<io::Result<Child>>);
    static PARENT: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let parent = PARENT.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (command, answer) in orders {
                let _ = answer.send(spawn_here(command));
            }
        });
        Mutex::new(sender)
    });

    let (answer, child) = mpsc::channel();
    let order = (command, answer);
    let orders = parent.lock().map_err(|_| io::Error::other("poisoned"))?;
    orders.send(order).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}

fn spawn_here(mut command: Command) -> io::Result<Child> {
    let parent = getpid();
    let tie = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // A test may attach strace to it, and some systems allow that only to its ancestors. Without such a
        // rule the kernel rejects the request, and that does no harm.
        //
        // SAFETY: it takes two numbers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
        if getppid() != parent {
            return Err(io::Error::other("the test ended before its server began"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls and allocates nothing, unless
    // the parent is gone, and then no process is left to wait for the child.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}

/// True if a signal has stopped a child.
pub fn is_paused(child: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|state| state.starts_with(['T', 't']))
}

/// Sends a signal to a child.
pub fn signal(child: &Child, signal: Signal) {
    let sent = signal::kill(Pid::from_raw(child.id() as i32), signal);
    sent.unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", child.id()));
}
