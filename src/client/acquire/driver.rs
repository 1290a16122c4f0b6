//! Runs one acquisition: sends the requests of the quorum's rules, and passes the answers back to
//! them.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::quorum::{Acquisition, Claim, Failure, Plan, Rules, Sound, Verdict};
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::acquire::holder;
use crate::clock;
use crate::hold::guard::Guard;
use crate::hold::keeper;
use crate::report::error::Error;
use crate::report::notice::Notice;
use crate::shared::Shared;
use crate::traffic::request::Wanted;
use crate::traffic::{Heard, Traffic};

pub(super) async fn acquire(shared: Arc<Shared>, wanted: Wanted) -> Result<Guard, Error> {
    let span = debug_span!(
        "acquire",
        key = %wanted.key,
        nodes = shared.nodes.len(),
        wait = ?wanted.options.wait,
        otel.kind = "client",
        db.system.name = "redis",
        db.operation.name = "DLOCK.ACQUIRE",
        server.address = field::Empty,
        error.type = field::Empty,
    );
    // Only a single node has an address to report.
    if let [node] = shared.nodes.as_slice() {
        span.record("server.address", node.name());
    }
    let ttl = wanted.options.ttl;
    let acquisition = async move {
        let mut run = Run::begin(shared, Arc::new(wanted));
        match run.drive().await {
            Verdict::Won(claim) => match run.won(claim) {
                // A renewed lease becomes as long as the nodes accept. One lease must be as long as it was asked for.
                Some((guard, true)) if !guard.is_renewed() => Box::pin(whole(guard, ttl)).await,
                Some((guard, _)) => Ok(guard),
                None => Err(Error::Usage(OVER.to_owned())),
            },
            // Boxed, because it is rare, and would make each acquisition larger.
            Verdict::Lost(failure) => Err(Box::pin(run.lost(failure)).await),
            Verdict::Pending => Err(Error::Usage(OVER.to_owned())),
        }
    };
    acquisition.instrument(span).await
}

/// Makes the short lease of a waiter as long as it was asked for, or releases the lock.
async fn whole(guard: Guard, ttl: Duration) -> Result<Guard, Error> {
    match guard.extend(ttl).await {
        Ok(()) => Ok(guard),
        Err(error) => {
            let _ = guard.release().await;
            Err(error)
        }
    }
}

/// An acquisition under way. Dropping it at any point releases what it has taken.
struct Run {
    /// `None` once it has ended.
    going: Option<Going>,
}

struct Going {
    machine: Acquisition,
    traffic: Traffic,
}

impl Run {
    fn begin(shared: Arc<Shared>, wanted: Arc<Wanted>) -> Run {
        let (memory, options) = (&shared.memory, &wanted.options);
        let plan = Plan {
            nodes: shared.nodes.len(),
            ttl: clock::millis(options.ttl),
            timeout: clock::millis(shared.timeout(options.ttl)),
            wait: options.wait,
            start_at_gate: memory.is_contended(&wanted.key),
            again: wanted.again(),
            suspects: shared.nodes.iter().map(|node| node.is_suspect()).collect(),
            seen: memory.seen(),
            seed: rand::random(),
        };
        let time = clock::time();
        let machine = Acquisition::new(plan, time);
        let traffic = Traffic::new(shared, wanted);
        Run { going: Some(Going { machine, traffic }) }
    }

    async fn drive(&mut self) -> Verdict {
        let Some(going) = &mut self.going else { return Verdict::Pending };
        let shared = Arc::clone(&going.traffic.shared);
        let (mut waiting, mut heard, mut told) = (None, false, false);
        loop {
            going.send();
            let verdict = going.machine.verdict();
            if verdict != Verdict::Pending {
                if told
                    && (matches!(verdict, Verdict::Won(_))
                        || going.machine.missing_since().is_none())
                {
                    shared.listener.tell(&going.notice(false));
                }
                return verdict;
            }
            if waiting.is_some() != going.machine.is_queued() {
                waiting = going.machine.is_queued().then(|| going.waits());
            }
            let missing = going.machine.missing_since();
            if heard != missing.is_some() {
                heard = !heard;
                going.traffic.wanted.listener.hear(&going.notice(heard));
            }
            if told != missing.is_some_and(|since| clock::now().since(since) >= SHORT_OUTAGE) {
                told = !told;
                shared.listener.tell(&going.notice(told));
            }
            tokio::select! {
                biased;
                heard = going.traffic.hear() => match heard {
                    Heard::Reply(reply) => {
                        going.machine.sent(reply.node, reply.id, reply.sent);
                        going.machine.answer(reply.node, reply.id, reply.answer, clock::time());
                    }
                    Heard::CutOff(node) => going.machine.cut_off(node, clock::time()),
                    Heard::Back(_) => {}
                },
                () = clock::sleep_until(going.machine.wake()) => going.machine.tick(clock::time()),
            }
        }
    }

    /// Returns the guard, and true if its lease is still the short one of a waiter, or a tenth of it is over.
    fn won(&mut self, claim: Claim) -> Option<(Guard, bool)> {
        let going = self.going.take()?;
        going.learn();
        let Going { machine, traffic, .. } = going;
        let key = &traffic.wanted.key;
        debug!(%key, fence = claim.fence.0, attempt = machine.attempt(), "acquired");
        let (time, ttl) = (clock::time(), clock::millis(traffic.wanted.options.ttl));
        let left = claim.until.since(time.now) + Sound.drift(ttl);
        let hold = machine.into_hold(time);
        let is_short = hold.is_short() || left < ttl.0 * 900;
        Some((keeper::start(hold, traffic, claim), is_short))
    }

    async fn lost(&mut self, failure: Failure) -> Error {
        let Some(mut going) = self.going.take() else { return Error::Usage(OVER.to_owned()) };
        going.learn();
        going.send();
        let mut error = going.error(failure);
        Span::current().record("error.type", error.code());
        let traffic = going.traffic;
        let (shared, wanted) = (Arc::clone(&traffic.shared), Arc::clone(&traffic.wanted));
        let timeout = traffic.timeout;
        debug!(key = %traffic.wanted.key, ?failure, "not acquired");
        traffic.finish_later();
        match &mut error {
            Error::Held { holder, nodes, .. } if wanted.names_holder => {
                // A node may hang that has answered before.
                let within = timeout / 4;
                *holder = holder::find(&shared, &wanted.key, nodes, within).await.map(Box::new);
            }
            Error::Done { key, fence, by, nodes, .. } => {
                *by = holder::find_done(&shared, key, (nodes, *fence), timeout).await.map(Box::new);
            }
            _ => {}
        }
        error
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Some(mut going) = self.going.take() else { return };
        debug!(key = %going.traffic.wanted.key, "given up");
        going.learn();
        Span::current().record("error.type", "given_up");
        going.traffic.forget_requests();
        going.machine.abandon();
        going.send();
        going.traffic.finish_later();
    }
}

impl Going {
    fn send(&mut self) {
        while let Some(send) = self.machine.poll() {
            self.traffic.send(send);
        }
    }

    /// Opens a span for the wait, with the holders and refusals in its way.
    fn waits(&self) -> Span {
        let key = &self.traffic.wanted.key;
        let reports: Vec<String> = self.traffic.reports().iter().map(ToString::to_string).collect();
        let waits_for = reports.join("; ");
        let span = debug_span!("wait", %key, waits_for);
        span.in_scope(|| debug!(%key, waits_for, "waits for its turn"));
        span
    }

    /// Says that no majority answers during the wait, or that one answers again.
    fn notice(&self, is_outage: bool) -> Notice {
        let key = self.traffic.wanted.key.clone();
        match is_outage {
            false => Notice::Back { key },
            true => Notice::Outage {
                key,
                needed: self.traffic.shared.majority(),
                nodes: self.traffic.reports(),
            },
        }
    }

    /// The error of a failure; the holder of the lock is not known yet.
    fn error(&self, failure: Failure) -> Error {
        let traffic = &self.traffic;
        let key = traffic.wanted.key.clone();
        match failure {
            Failure::Held => Error::Held { key, holder: None, nodes: traffic.reports() },
            Failure::NoQuorum => {
                let (needed, nodes) = (traffic.shared.majority(), traffic.reports());
                Error::NoQuorum { key, needed, nodes }
            }
            Failure::Done(record) => Error::Done {
                key,
                left: Duration::from_millis(record.left.0),
                fence: record.fence.0,
                by: None,
                nodes: traffic.reports(),
            },
            Failure::TooLong(limit) => Error::TooLong {
                key,
                ttl: traffic.wanted.options.ttl,
                limit: Duration::from_millis(limit.0),
                nodes: traffic.reports(),
            },
            Failure::Refused => Error::Refused { key, nodes: traffic.reports() },
        }
    }

    /// Stores hints for the next acquisition.
    fn learn(&self) {
        let memory = &self.traffic.shared.memory;
        memory.see(self.machine.seen());
        if self.machine.contended() {
            memory.contended(&self.traffic.wanted.key);
        }
    }
}

/// The client's listener is told of longer outages only, in µs.
const SHORT_OUTAGE: u64 = 1_000_000;
const OVER: &str = "the acquisition has ended already";
