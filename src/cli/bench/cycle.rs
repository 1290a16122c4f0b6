//! The part `cycle`: one client, one node, a lock that nobody else wants.

use std::time::{Duration, Instant};

use dlock_client::Token;
use redis::{Cmd, Value, cmd};

use super::course::Course;
use super::figures::Times;
use super::greet::without_arguments;
use crate::ask::{Node, Nodes};

/// What one node took for it.
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

/// What is measured: a key and its leases.
#[derive(Clone)]
pub struct Subject {
    pub key: String,
    pub ttl: Duration,
}

impl Subject {
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
    subject: Subject,
    course: Course,
) -> Result<Cycle, String> {
    let (asked, token, silence) = (subject.clone(), Token::random(), all.timeout());
    // Away from the thread that listens to signals and draws.
    let task = tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = rounds(Asked { node: &mut node, silence }, &asked, &token, &course) => outcome,
            () = course.stopped() => Err("it was stopped".to_owned()),
        };
        // Behind the request that was not answered, if the connection still stands.
        let left = outcome.is_err() && node.run(&asked.release(&token)).await.is_err();
        (outcome, left)
    });
    let (outcome, left) = task.await.unwrap_or_else(|error| (Err(error.to_string()), true));
    if left {
        // If it does not, over another one. It means nothing to the other nodes.
        let release = subject.release(&token);
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
    async fn run(&mut self, command: &Cmd) -> Result<Value, String> {
        let begun = Instant::now();
        match self.node.run(command).await {
            Err(_) if begun.elapsed() >= self.silence => self.node.run(command).await,
            answer => answer,
        }
    }
}

async fn rounds(
    mut node: Asked<'_>,
    subject: &Subject,
    token: &Token,
    course: &Course,
) -> Result<Cycle, String> {
    let (acquire, release, ping) = (subject.acquire(token), subject.release(token), cmd("PING"));
    let mut cycle = Cycle { acquire: Times::new(), release: Times::new(), ping: Times::new() };
    let mut may_ping = true;
    for round in 0_u64.. {
        let begun = Instant::now();
        let answer = node.run(&acquire).await.map_err(without_arguments)?;
        if answer == Value::Nil {
            return Err("the lock that this run made up is held by somebody else".to_owned());
        }
        let taken = Instant::now();
        node.run(&release).await?;
        let given_back = Instant::now();
        if may_ping {
            may_ping = node.run(&ping).await.is_ok();
        }
        // The first ones find everything cold.
        if round >= WARM_UP {
            cycle.acquire.add(taken - begun);
            cycle.release.add(given_back - taken);
            if may_ping {
                cycle.ping.add(given_back.elapsed());
            }
        }
        course.count();
        if course.is_over() && !cycle.acquire.is_empty() {
            break;
        }
    }
    Ok(cycle)
}

const WARM_UP: u64 = 3;
