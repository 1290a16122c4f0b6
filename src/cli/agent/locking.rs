//! The commands of dlock, as an agent serves them.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::operator::inspection;
use dlock_client::{Inspection, Key, NodeError, NodeState, Report};
use dlock_core::Settings;
use dlock_core::command::options::Options;
use dlock_core::command::read::Args;
use dlock_core::command::release::DoneFor;
use dlock_core::command::{Doc, Kind, Refusal, acquire, check, extend, release};
use dlock_core::limits::MAX_TTL_CEILING;
use futures_util::future::join_all;
use redis::Value;

use super::commands::{self, Answer, Command, Locking as Ask, NO_AUTH};
use super::lock::Full;
use super::lock::order::{self, Done, Order, Release, ReplyTo, Terms};
use super::name::Name;
use super::refusal::{NO_QUORUM, listed};
use super::reply::{Reply, map};
use super::session::Session;
use super::shared::Agent;

/// Answers a command.
pub async fn answer(
    agent: &Arc<Agent>,
    session: &Session,
    (ask, doc): (Ask, &'static Doc),
    args: &[&[u8]],
) -> Answer {
    match ask {
        Ask::Help => return help().into(),
        Ask::Node => return node(agent).into(),
        _ => {}
    }
    let Some((&key, args)) = args.split_first() else { return Reply::error(Refusal::Arity).into() };
    if key.is_empty() {
        return Reply::error("ERR the key is empty; a lock needs a name").into();
    }
    if !agent.allow.allows(&session.peer, key) {
        return Reply::error("NOPERM this agent does not allow you this lock (--allow)").into();
    }
    if ask == Ask::Inspect {
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
    ask: Ask,
    args: &[&[u8]],
    reply: ReplyTo,
) -> Result<Order, String> {
    let settings = Settings { max_ttl: MAX_TTL_CEILING, ..Settings::default() };
    Ok(match ask {
        Ask::Acquire => {
            let parsed = acquire::parse_at_agent(args, &settings);
            let parsed = parsed.map_err(|refusal| refusal.to_string())?;
            Order::Acquire(Box::new(asked(agent, session, &parsed, reply)?))
        }
        Ask::Release => {
            let parsed = release::parse(args).map_err(|refusal| refusal.to_string())?;
            let done = parsed.done.map(|terms| done(agent, session, terms)).transpose()?;
            Order::Release(Release { done, reply })
        }
        Ask::Extend => {
            let parsed = extend::parse(args, &settings).map_err(|refusal| refusal.to_string())?;
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
) -> Result<order::Ask, String> {
    let acquire::AtAgent { asked, renew, close } = *parsed;
    let acquire::Acquire { ttl, mode, again, ephemeral, wait, keep, .. } = asked;
    check_meta(asked.meta)?;
    let meta = session.meta(asked.meta, &agent.host);
    Ok(order::Ask {
        terms: Terms { ttl, mode, again, ephemeral, renew, close, meta },
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

/// The report of the node that agrees with most others, as that node gives it.
async fn inspect(agent: &Agent, key: &Key) -> Reply {
    let mut command = redis::cmd("DLOCK.INSPECT");
    command.arg(key.as_bytes());
    let asked = agent.client.nodes().map(|node| node.send(&command));
    let replies: Vec<Result<Value, NodeError>> = join_all(asked).await;
    let answered: Vec<(Option<Inspection>, Value)> = replies
        .iter()
        .filter_map(|reply| reply.as_ref().ok())
        .filter_map(|value| Some((inspection(value).ok()?, value.clone())))
        .collect();
    let needed = agent.client.size() / 2 + 1;
    if answered.len() < needed {
        return not_enough(agent, needed, replies);
    }
    let shown = |look: &Option<Inspection>| {
        let look = look.as_ref()?;
        let holder = look.holders.first().map(|holder| (holder.id.clone(), holder.fence));
        Some((look.mode.clone(), holder))
    };
    let votes = |look: &Option<Inspection>| {
        answered.iter().filter(|(other, _)| shown(other) == shown(look)).count()
    };
    let waiting = |look: &Option<Inspection>| look.as_ref().map_or(0, |look| look.waiting);
    let best = answered.iter().max_by_key(|(look, _)| (votes(look), waiting(look)));
    best.map_or(Reply::Null, |(_, value)| value.clone().into())
}

fn not_enough(agent: &Agent, needed: usize, replies: Vec<Result<Value, NodeError>>) -> Reply {
    let states = replies.into_iter().map(|reply| match reply {
        Ok(_) => NodeState::Answers,
        Err(error) => error.into(),
    });
    let named = agent.client.nodes().zip(states);
    let named = named.map(|(node, state)| Report { node: node.name().to_owned(), state });
    let named: Vec<Report> = named.collect();
    Reply::error(format_args!(
        "{NO_QUORUM} {needed} of {} nodes are needed: {}",
        named.len(),
        listed(&named)
    ))
}

/// Says that this is no node: two agents in a list of nodes would be one quorum twice.
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
    let docs = commands::ALL.iter().filter_map(Command::doc);
    Reply::Array(
        docs.map(|doc| Reply::Status(format!("{doc} -- {}", doc.summary).into())).collect(),
    )
}

/// The longest META of a caller, in bytes: the agent adds who it is.
const LONGEST_META: usize = 800;
const TOO_MANY_LOCKS: &str =
    "TOOMANY locks: this user has as many locks and waiting requests at this agent as one user may";
const ENDS: &str = "ERR the agent ends; ask again";
