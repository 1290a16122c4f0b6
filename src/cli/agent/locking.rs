//! The commands of dlock, as an agent serves them.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::operator::inspection;
use dlock_client::{Key, NodeState, Report};
use dlock_core::command::options::Options;
use dlock_core::command::read::Args;
use dlock_core::command::release::DoneFor;
use dlock_core::command::{Doc, Kind, Refusal, acquire, check, extend, release};
use futures_util::future::join_all;

use super::commands::{self, AgentCommand, Answer, Locking, NO_AUTH};
use super::lock::Full;
use super::lock::order::{Acquisition, Done, Ephemeral, Order, Release, ReplyTo, Terms};
use super::name::Name;
use super::refusal;
use super::reply::{Reply, map};
use super::session::Session;
use super::shared::Agent;

pub async fn answer(
    agent: &Arc<Agent>,
    session: &Session,
    (ask, doc): (Locking, &'static Doc),
    args: &[&[u8]],
) -> Answer {
    match ask {
        Locking::Help => return help().into(),
        Locking::Node => return node(agent).into(),
        _ => {}
    }
    let Some((&key, args)) = args.split_first() else { return Reply::error(Refusal::Arity).into() };
    if key.is_empty() {
        return Reply::error("ERR the key is empty; a lock needs a name").into();
    }
    if !agent.allow.allows(&session.peer, key) {
        return Reply::error(
            "NOPERM this user may not lock this key at this agent: see its --allow",
        )
        .into();
    }
    if ask == Locking::Inspect {
        return inspect(agent, &key.into()).await.into();
    }
    let Some(share) = &session.share else { return Reply::error(NO_AUTH).into() };
    let (reply, coming) = ReplyTo::channel(share);
    let order = check_options(doc, args).and_then(|()| order(agent, session, ask, args, reply));
    let order = match order {
        Ok(order) => order,
        Err(refused) => return Reply::Error(refused).into(),
    };
    let token = args.first().copied().unwrap_or_default();
    let name = Arc::new(Name { key: key.into(), token: token.into() });
    match agent.locks.send(share.owner, &name, order) {
        Err(Full) => Reply::error(TOO_MANY_LOCKS).into(),
        Ok(()) => match coming.await {
            Ok((reply, heard)) => Answer { heard, ..reply.into() },
            Err(_) => Reply::error(ENDS).into(),
        },
    }
}

/// Reads the arguments after the key.
fn order(
    agent: &Agent,
    session: &Session,
    ask: Locking,
    args: &[&[u8]],
    reply: ReplyTo,
) -> Result<Order, String> {
    Ok(match ask {
        Locking::Acquire => {
            let parsed = acquire::parse_at_agent(args);
            let parsed = parsed.map_err(|refusal| refusal.to_string())?;
            Order::Acquire(Box::new(asked(agent, session, &parsed, reply)?))
        }
        Locking::Release => {
            let parsed = release::parse(args).map_err(|refusal| refusal.to_string())?;
            let done = parsed.done.map(|terms| done(agent, session, terms)).transpose()?;
            Order::Release(Release { done, reply })
        }
        Locking::Extend => {
            let parsed = extend::parse(args).map_err(|refusal| refusal.to_string())?;
            Order::Extend { ttl: parsed.ttl, reply }
        }
        _ => {
            check::parse(args).map_err(|refusal| refusal.to_string())?;
            Order::Check { reply }
        }
    })
}

fn done(agent: &Agent, session: &Session, terms: DoneFor<'_>) -> Result<Done, String> {
    check_meta(terms.meta)?;
    let time = Duration::from_millis(terms.time.0);
    Ok(Done { time, outcome: session.meta(terms.meta, &agent.host).into_bytes() })
}

fn check_meta(given: &[u8]) -> Result<(), String> {
    if given.len() <= LONGEST_META {
        return Ok(());
    }
    let (what, least, most, given) = ("META", 0, LONGEST_META, given.len());
    Err(Refusal::Length { what, least, most, given }.to_string())
}

fn asked(
    agent: &Agent,
    session: &Session,
    parsed: &acquire::AtAgent<'_>,
    reply: ReplyTo,
) -> Result<Acquisition, String> {
    let acquire::AtAgent { asked, renew, close } = *parsed;
    let acquire::Acquire { ttl, mode, again, ephemeral, wait, keep, .. } = asked;
    check_meta(asked.meta)?;
    let meta = session.meta(asked.meta, &agent.host);
    Ok(Acquisition {
        terms: Terms {
            ttl,
            mode,
            again,
            ephemeral: match (ephemeral, renew) {
                (false, _) => Ephemeral::No,
                (true, false) => Ephemeral::Yes,
                (true, true) => Ephemeral::Renewed,
            },
            close,
            meta,
        },
        wait,
        keep,
        tie: ephemeral.then(|| Arc::clone(&session.tie)),
        reply,
    })
}

/// Checks the arguments after the key by the agent's table: nodes have more options.
fn check_options(doc: &'static Doc, args: &[&[u8]]) -> Result<(), String> {
    let plain = doc.args.iter().filter(|arg| !arg.optional && arg.kind != Kind::Key).count();
    let mut options = Options::of(doc, Args::new(args.get(plain..).unwrap_or_default()));
    options.find_map(Result::err).map_or(Ok(()), |refusal| Err(refusal.to_string()))
}

/// The unchanged report of the node that agrees with most others about the holder.
async fn inspect(agent: &Agent, key: &Key) -> Reply {
    let mut command = redis::cmd("DLOCK.INSPECT");
    command.arg(key.as_bytes());
    let asked = agent.client.nodes().map(async |node| (node.name(), node.send(&command).await));
    let (mut reports, mut found) = (Vec::new(), Vec::new());
    for (name, reply) in join_all(asked).await {
        let state = match reply {
            Err(error) => error.into(),
            Ok(value) => {
                let lock = inspection(&value).ok().flatten();
                let holder = lock.map(|lock| (lock.mode, lock.holders.into_iter().next()));
                found.push((
                    holder.map(|(mode, first)| (mode, first.map(|first| first.fence))),
                    value,
                ));
                NodeState::Answers
            }
        };
        reports.push(Report { node: name.to_owned(), state });
    }
    let needed = agent.client.size() / 2 + 1;
    if found.len() < needed {
        return refusal::no_quorum(needed, &reports);
    }
    let votes = |holder| found.iter().filter(|(other, _)| other == holder).count();
    // Of several the first: clients queue at that node.
    let best = found.iter().rev().max_by_key(|(holder, _)| votes(holder));
    best.map_or(Reply::Null, |(_, value)| value.clone().into())
}

/// Reports that this is an agent and not a node: two agents in a list of nodes would be one quorum twice.
fn node(agent: &Agent) -> Reply {
    let nodes: Vec<&str> = agent.client.nodes().map(|node| node.name()).collect();
    map([
        ("node-id", Reply::text(&agent.id)),
        ("role", Reply::text("agent")),
        ("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        ("nodes", Reply::text(nodes.join(","))),
        ("majority", Reply::number(agent.client.size() as u64 / 2 + 1)),
    ])
}

fn help() -> Reply {
    let docs = commands::ALL.iter().filter_map(AgentCommand::doc);
    Reply::Array(
        docs.map(|doc| Reply::Status(format!("{doc} -- {}", doc.summary).into())).collect(),
    )
}

/// The longest META of a client, in bytes: the agent writes its process and user before it.
const LONGEST_META: usize = 800;
const TOO_MANY_LOCKS: &str = "TOOMANY locks: this user has as many locks and waiting requests at this agent as one user may; release some";
const ENDS: &str = "ERR the agent ends; ask again";
