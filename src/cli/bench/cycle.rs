//! The part `cycle`: one client, one node, a lock that nobody else wants.

use std::time::{Duration, Instant};

use dlock_client::Token;
use redis::{Cmd, Value, cmd};

use super::figures::Times;
use super::time_box::TimeBox;
use crate::nodes::ask::{Node, Nodes, Trouble};
use crate::say::kind::Kind;

/// Times of one node.
pub struct Cycle {
    pub acquire: Times,
    pub release: Times,
    /// Empty, if this user may not ask for it.
    pub ping: Times,
}

impl Cycle {
    /// Of one client that does nothing else.
    pub fn per_second(&self) -> f64 {
        1.0 / (self.acquire.mean() + self.release.mean()).max(Duration::from_nanos(1)).as_secs_f64()
    }
}

/// The lock with which we measure: its key, and the length of its leases.
#[derive(Clone)]
pub struct MeasuredLock {
    pub key: String,
    pub ttl: Duration,
}

impl MeasuredLock {
    fn acquire(&self, token: &Token) -> Cmd {
        let mut command = cmd("DLOCK.ACQUIRE");
        let millis = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        command.arg(&self.key).arg(token.as_str()).arg(millis);
        command
    }

    fn release(&self, token: &Token) -> Cmd {
        let mut command = cmd("DLOCK.RELEASE");
        command.arg(&self.key).arg(token.as_str());
        command
    }
}

/// Measures one node until its time is over. What failed is its row.
pub async fn measure(
    all: &Nodes,
    mut node: Node,
    measured_lock: MeasuredLock,
    time_box: TimeBox,
) -> Result<Cycle, String> {
    let (asked, token, silence) = (measured_lock.clone(), Token::random(), all.timeout());
    // Away from the thread that listens to signals and draws.
    let task = tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = rounds(Asked { node: &mut node, silence }, &asked, &token, &time_box) => outcome,
            () = time_box.stopped() => Err("it was stopped".to_owned()),
        };
        // Behind the request that was not answered, if the connection still stands.
        let left = outcome.is_err() && node.run(&asked.release(&token)).await.is_err();
        (outcome, left)
    });
    let (outcome, left) = task.await.unwrap_or_else(|error| (Err(error.to_string()), true));
    if left {
        // If it does not, over another one. It means nothing to the other nodes.
        let release = measured_lock.release(&token);
        all.each(move |mut node| {
            let release = release.clone();
            async move { node.run(&release).await }
        })
        .await;
    }
    outcome
}

/// A node that is asked once more where it has not answered in time: what is slow for a moment is
/// slow, and not gone. All that it is asked here may arrive twice.
struct Asked<'a> {
    node: &'a mut Node,
    silence: Duration,
}

impl Asked<'_> {
    async fn run(&mut self, command: &Cmd) -> Result<Value, Trouble> {
        self.run_saying_whether_again(command).await.map(|(answer, _)| answer)
    }

    async fn run_saying_whether_again(&mut self, command: &Cmd) -> Result<(Value, bool), Trouble> {
        let begun = Instant::now();
        match self.node.run(command).await {
            Err(_) if begun.elapsed() >= self.silence => {
                self.node.run(command).await.map(|answer| (answer, true))
            }
            answer => answer.map(|answer| (answer, false)),
        }
    }

    async fn release(&mut self, release: &Cmd) -> Result<(), Trouble> {
        match self.run_saying_whether_again(release).await? {
            // Of two, the first may have been the one.
            (Value::Int(0), false) => Err(format!("its lease was lost: {ENDED}").into()),
            _ => Ok(()),
        }
    }
}

async fn rounds(
    mut node: Asked<'_>,
    measured_lock: &MeasuredLock,
    token: &Token,
    time_box: &TimeBox,
) -> Result<Cycle, String> {
    let (acquire, release, ping) =
        (measured_lock.acquire(token), measured_lock.release(token), cmd("PING"));
    let mut cycle = Cycle { acquire: Times::new(), release: Times::new(), ping: Times::new() };
    let mut may_ping = true;
    for round in 0_u64.. {
        let failed = |error| why(error, round);
        let begun = Instant::now();
        let answer = node.run(&acquire).await.map_err(failed)?;
        if answer == Value::Nil {
            return Err("somebody else holds the lock of this run".to_owned());
        }
        let taken = Instant::now();
        node.release(&release).await.map_err(failed)?;
        let given_back = Instant::now();
        if may_ping {
            may_ping = node.run(&ping).await.is_ok();
        }
        let pinged = Instant::now();
        // The first ones find everything cold.
        if round >= WARM_UP {
            cycle.acquire.add(taken - begun);
            cycle.release.add(given_back - taken);
            if may_ping {
                cycle.ping.add(pinged - given_back);
            }
        }
        time_box.count();
        if time_box.is_over() && !cycle.acquire.is_empty() {
            break;
        }
    }
    Ok(cycle)
}

/// Two words of a broken connection do not say that it had been there.
fn why(trouble: Trouble, cycles: u64) -> String {
    let Trouble { kind, words } = trouble;
    match cycles {
        0 if !matches!(kind, Kind::Unreachable | Kind::TimedOut) => words,
        0 => format!("it answered at first, and then: {words}"),
        _ => format!("failed after {cycles} cycles: {words}"),
    }
}

/// The reason of a release that finds nothing: nobody else knows the lock and the token.
const ENDED: &str = "an operator ended it, or the node was away for longer than --ttl";
const WARM_UP: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_said_in_its_own_words_and_a_connection_that_breaks_in_more() {
        let broken = Kind::Unreachable;
        for (kind, words, cycles, said) in [
            (Kind::NoPermission, "NOPERM no", 0, "NOPERM no"),
            (broken, "broken pipe", 0, "it answered at first, and then: broken pipe"),
            (broken, "broken pipe", 7, "failed after 7 cycles: broken pipe"),
        ] {
            assert_eq!(why(Trouble { kind, words: words.to_owned() }, cycles), said);
        }
    }
}
