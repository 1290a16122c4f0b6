//! The commands of dlock, as an agent serves them.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::command::options::Options;
use dlock_core::command::read::Args;
use dlock_core::command::{Doc, Kind, Refusal, acquire, check, extend, release};

use super::greeting::NO_AUTH;
use super::lock::order::{Acquisition, Done, Order, ReplyTo, Terms};
use super::name::Name;
use super::reply::{Answer, Reply, map};
use super::session::Session;
use super::shared::Agent;
use super::tie::Bond;

/// A command of dlock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    Acquire,
    Release,
    Extend,
    Check,
    Node,
}

pub async fn answer(
    agent: &Arc<Agent>,
    session: &Session,
    (ask, doc): (Locking, &'static Doc),
    args: &[&[u8]],
) -> Answer {
    if ask == Locking::Node {
        return node(agent).into();
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
    let Some(share) = &session.share else { return Reply::error(NO_AUTH).into() };
    let (reply, coming) = ReplyTo::channel(share);
    let order = match order(agent, session, (ask, doc), args, reply) {
        Ok(order) => order,
        Err(refusal) => return Reply::error(refusal).into(),
    };
    let token = args.first().copied().unwrap_or_default();
    let name = Arc::new(Name { key: key.into(), token: token.into() });
    agent.locks.send(share.owner(), &name, order);
    match coming.await {
        Ok(reply) => reply.into(),
        Err(_) => Reply::error(ENDS).into(),
    }
}

/// Reads the arguments after the key.
fn order<'a>(
    agent: &Agent,
    session: &Session,
    (ask, doc): (Locking, &'static Doc),
    args: &[&'a [u8]],
    reply: ReplyTo,
) -> Result<Order, Refusal<'a>> {
    check_options(doc, args)?;
    let meta = |given: &[u8]| session.meta(given, &agent.host);
    Ok(match ask {
        Locking::Acquire => {
            let acquire::AtAgent { asked, renew, close } = acquire::parse_at_agent(args)?;
            let acquire::Acquire { ttl, mode, again, ephemeral, wait, keep, .. } = asked;
            let terms = Terms { ttl, mode, again, renew, meta: meta(asked.meta) };
            let bond = ephemeral.then(|| Bond { tie: Arc::clone(&session.tie), close });
            Order::Acquire(Box::new(Acquisition { terms, wait, keep, bond, reply }))
        }
        Locking::Release => {
            let done = release::parse(args)?.done.map(|terms| Done {
                time: Duration::from_millis(terms.time.0),
                outcome: meta(terms.meta).into_bytes(),
            });
            Order::Release { done, reply }
        }
        Locking::Extend => Order::Extend { ttl: extend::parse(args)?.ttl, reply },
        _ => {
            check::parse(args)?;
            Order::Check { reply }
        }
    })
}

/// Checks the arguments after the key by the agent's table: nodes have more options.
fn check_options<'a>(doc: &'static Doc, args: &[&'a [u8]]) -> Result<(), Refusal<'a>> {
    let plain = doc.args.iter().filter(|arg| !arg.optional && arg.kind != Kind::Key).count();
    let mut options = Options::of(doc, Args::new(args.get(plain..).unwrap_or_default()));
    options.find_map(Result::err).map_or(Ok(()), Err)
}

/// Reports that this is an agent and not a node: two agents in a list of nodes would be one quorum twice.
fn node(agent: &Agent) -> Reply {
    let nodes: Vec<&str> = agent.common.client.nodes().map(|node| node.name()).collect();
    map([
        ("node-id", Reply::text(&agent.id)),
        ("role", Reply::text("agent")),
        ("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        ("nodes", Reply::text(nodes.join(","))),
        ("majority", Reply::number(agent.common.client.size() as u64 / 2 + 1)),
    ])
}

const ENDS: &str = "ERR the agent ends; ask again";
