//! The end of the interpreter: releases held locks, and gives up waits.

use std::process;
use std::time::Duration;

use dlock_bindings::connected::LONGEST_END;
use futures_util::future::join_all;
use pyo3::prelude::*;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::held;
use crate::local;
use crate::outcome_queue;
use crate::runtime;
use crate::wait::wait;

/// Releases all locks of this process, gives up waits, and waits a short time for the nodes' answers.
#[pyfunction]
pub(crate) fn release_all(py: Python<'_>) -> PyResult<()> {
    let Some(runtime) = runtime::last(py).filter(|runtime| runtime.process == process::id()) else {
        return Ok(());
    };
    let clients = local::end(py);
    // A thread that has just acquired a lock needs a turn in Python to register it.
    for _ in 0..MOST_TURNS {
        release(py);
        let rests = join_all(clients.iter().map(|client| client.rests()));
        if wait(py, &runtime, async { timeout(TURN, rests).await })?.is_ok_and(|rest| rest.is_ok())
        {
            break;
        }
    }
    release(py);
    let clients: Vec<_> = clients.iter().map(|local| local.connected.client.clone()).collect();
    let all = async move {
        // Aborted work ends at its next poll, which is now.
        yield_now().await;
        timeout(LONGEST_END, join_all(clients.iter().map(|client| client.close()))).await
    };
    wait(py, &runtime, all).map(drop)
}

fn release(py: Python<'_>) {
    held::end_all(py);
    outcome_queue::release_what_is_uncollected(py);
}

/// Length of one turn for the other threads, and the limit of turns.
const TURN: Duration = Duration::from_millis(20);
const MOST_TURNS: usize = 100;
