//! One run: the parts, one after the other.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Client, Error, Token};
use tokio::sync::watch;

use super::args::{Args, Part};
use super::contended::{Crowd, End};
use super::cycle::{self, Cycle, MeasuredLock};
use super::greet::{self, Met};
use super::progress::{Progress, Stage};
use super::quorum;
use super::show::Show;
use super::time_box::{TimeBox, stopped};
use crate::global::Global;
use crate::nodes;
use crate::nodes::ask::{Answers, Nodes};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;

pub struct Session<'a> {
    args: &'a Args,
    global: &'a Global,
    nodes: Nodes,
    /// Prefix of all keys.
    prefix: String,
    stop: watch::Receiver<bool>,
    progress: Progress,
    show: Show,
}

impl<'a> Session<'a> {
    pub fn new(
        args: &'a Args,
        global: &'a Global,
        stop: watch::Receiver<bool>,
    ) -> Result<Session<'a>, Failure> {
        Ok(Session {
            args,
            global,
            nodes: Nodes::of(global)?.for_leases_of(args.ttl, global),
            prefix: format!("dlock-bench:{}", &Token::random().as_str()[..16]),
            stop,
            progress: Progress::new(global.verbose, global.json),
            show: Show { json: global.json },
        })
    }

    /// All parts. When somebody stops it, it ends without a word.
    pub async fn measure(&self) -> Result<Exit, Failure> {
        let greeted = async {
            match nodes::connect(self.global).await {
                Err(failure) if failure.exit == Exit::USAGE => Err(failure),
                connected => Ok((connected, greet::all(&self.nodes).await)),
            }
        };
        let (connected, met) = tokio::select! {
            greeted = greeted => greeted?,
            // Nothing was taken yet.
            () = stopped(self.stop.clone()) => return Ok(Exit::OK),
        };
        self.show.nodes(&met)?;
        // No load without a majority, and none on one node that has two names.
        let mut client = Some(connected?);
        if !self.args.has(Part::Quorum)
            && let Some(client) = client.take()
        {
            client.close().await;
        }
        if self.args.has(Part::Cycle) {
            self.cycles(met).await?;
        }
        if let Some(client) = client
            && !self.is_stopped()
        {
            let outcome = self.quorum(&client).await;
            client.close().await;
            outcome?;
        }
        if self.args.has(Part::Contended) && !self.is_stopped() {
            self.contended().await?;
        }
        Ok(Exit::OK)
    }

    async fn cycles(&self, met: Answers<Met>) -> Result<(), Failure> {
        self.progress.begin("cycle");
        let there = met.iter().filter(|(_, met)| met.is_ok()).count();
        let time = self.args.time / u32::try_from(there.max(1)).unwrap_or(u32::MAX);
        let mut rows: Vec<(String, Result<Cycle, String>)> = Vec::new();
        for (name, met) in met {
            if self.is_stopped() {
                return Ok(());
            }
            let row = match met {
                Ok(met) => {
                    let stage = Stage::new(format!("cycle, {name}"), "cycles", Some(time));
                    let time_box = self.time_box(&stage, time);
                    let work = cycle::measure(
                        &self.nodes,
                        met.node,
                        self.measured_lock("cycle"),
                        time_box,
                    );
                    self.progress.beside(&stage, work).await
                }
                Err(trouble) => Err(trouble.into()),
            };
            rows.push((name, row));
        }
        if self.is_stopped() {
            return Ok(());
        }
        self.show.cycles(&rows)?;
        let (measured, needed) =
            (rows.iter().filter(|(_, row)| row.is_ok()).count(), self.nodes.majority());
        if measured < needed {
            let all = self.nodes.count();
            return Err(Failure::new(
                Kind::NoQuorum,
                format_args!(
                    "no majority of the nodes: {needed} of {all} are needed, {measured} could be \
                     measured"
                ),
            ));
        }
        Ok(())
    }

    async fn quorum(&self, client: &Client) -> Result<(), Failure> {
        self.progress.begin("quorum");
        let stage = Stage::new("quorum", "cycles", Some(self.args.time));
        let time_box = self.time_box(&stage, self.args.time);
        let work = quorum::measure(client, self.measured_lock("quorum"), time_box);
        let found = self.progress.beside(&stage, work).await;
        if self.is_stopped() {
            return Ok(());
        }
        self.show.quorum(&found.map_err(unavailable)?)
    }

    async fn contended(&self) -> Result<(), Failure> {
        self.progress.begin("contended");
        let (round, measured_lock) = (self.args.round(), self.measured_lock("contended"));
        let stage = Stage::new("contended", "clients connected", None);
        let work = async {
            let time_box = self.time_box(&stage, Duration::ZERO);
            let crowd = Crowd::connect(round.clients, self.global, &time_box).await?;
            if let Some(crowd) = &crowd {
                crowd.warm_up(&measured_lock, &self.time_box(&stage, round.warm_up())).await;
            }
            Ok::<_, Failure>(crowd)
        };
        let Some(crowd) = self.progress.beside(&stage, work).await? else { return Ok(()) };
        let stage = Stage::new("contended, first round", "clients served", None);
        let time_box = self.time_box(&stage, round.first());
        let mut contention = crowd.begin(&measured_lock, &round, &time_box);
        self.progress.beside(&stage, contention.first_round(&time_box)).await;
        let stage = Stage::new("contended", "grants", Some(self.args.time));
        let time_box = self.time_box(&stage, self.args.time);
        let work = contention.measure(time_box);
        match self.progress.beside(&stage, work).await {
            End::Measured(found) => self.show.contended(&found),
            End::Stopped => Ok(()),
            End::Unavailable(message) => Err(Failure::new(Kind::NoQuorum, message)),
        }
    }

    fn time_box(&self, stage: &Stage, time: Duration) -> TimeBox {
        TimeBox::of(time, self.stop.clone(), Arc::clone(&stage.done))
    }

    fn measured_lock(&self, part: &str) -> MeasuredLock {
        MeasuredLock { key: format!("{}:{part}", self.prefix), ttl: self.args.ttl }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }
}

/// Whatever it is that keeps a lock from being taken all the time: these nodes do not grant.
fn unavailable(error: Error) -> Failure {
    match Kind::from(&error) {
        Kind::Held | Kind::Lost => Failure::new(Kind::NoQuorum, error),
        kind => Failure::new(kind, error),
    }
}
