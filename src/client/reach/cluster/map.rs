//! The slot map: the server of each slot.

use std::collections::BTreeSet;

use dlock_core::limits::MAX_SERVERS_OF_A_NODE;
use dlock_core::servers::slots::SLOTS;
use redis::Value;

use crate::reach::address::access::Map as Reached;
use crate::reach::address::host::Host;

/// The slot map, as far as it is known.
pub(crate) struct Slots {
    /// Number of times it was read.
    pub(crate) version: u64,
    hosts: Vec<Host>,
    /// The servers' ids in the cluster.
    pub(crate) members: BTreeSet<String>,
    /// For each slot the index of its server; `NO_OWNER` if that is not known.
    owners: Box<[u16]>,
}

impl Slots {
    /// An empty map.
    pub(crate) fn new() -> Slots {
        Slots {
            version: 0,
            hosts: Vec::new(),
            members: BTreeSet::new(),
            owners: vec![NO_OWNER; SLOTS].into(),
        }
    }

    /// Reads a reply to CLUSTER SLOTS. An empty host means the answering server's own.
    ///
    /// # Errors
    /// The part that cannot be understood.
    pub(crate) fn read<'v>(reply: &'v Value, own: &str, map: &Reached) -> Result<Slots, &'v Value> {
        let mut slots = Slots::new();
        let ranges = reply.as_sequence().filter(|ranges| ranges.len() <= SLOTS).ok_or(reply)?;
        for range in ranges {
            slots.add(range, |server| Some(map.reached(host(server, own)?))).ok_or(range)?;
        }
        Ok(slots)
    }

    fn add(&mut self, range: &Value, read: impl Fn(&Value) -> Option<Host>) -> Option<()> {
        let [first, last, servers @ ..] = range.as_sequence()? else { return None };
        if self.members.len() < MAX_SERVERS_OF_A_NODE {
            self.members.extend(servers.iter().filter_map(id));
        }
        let (first, last, primary) = (number(first)?, number(last)?, read(servers.first()?)?);
        let owner = self.place(primary);
        self.owners.get_mut(first..=last)?.fill(owner);
        Some(())
    }

    /// The server of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Host> {
        self.hosts.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// Any server; always the same while the map does not change.
    pub(crate) fn anybody(&self) -> Option<&Host> {
        self.owners.iter().find_map(|owner| self.hosts.get(usize::from(*owner)))
    }

    /// All servers that have slots.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Host> {
        let has_some =
            |place: &usize| self.owners.iter().any(|owner| usize::from(*owner) == *place);
        (0..self.hosts.len()).filter(has_some).map(|place| &self.hosts[place])
    }

    /// Sets the server of a slot that has moved.
    pub(crate) fn moved(&mut self, slot: u16, host: Host) {
        let owner = self.place(host);
        if let Some(entry) = self.owners.get_mut(usize::from(slot)) {
            *entry = owner;
        }
    }

    /// Returns the index of a server. Servers beyond the limit of a cluster get `NO_OWNER`.
    fn place(&mut self, host: Host) -> u16 {
        let known = self.hosts.iter().position(|other| *other == host);
        let place = known.or_else(|| {
            let place = self.hosts.len();
            (place < MAX_SERVERS_OF_A_NODE).then(|| self.hosts.push(host))?;
            Some(place)
        });
        place.and_then(|place| u16::try_from(place).ok()).unwrap_or(NO_OWNER)
    }
}

/// Reads the id of a server of a range.
fn id(server: &Value) -> Option<String> {
    redis::from_redis_value_ref(server.as_sequence()?.get(2)?).ok()
}

/// Reads a server of a range.
fn host(server: &Value, own: &str) -> Option<Host> {
    let [name, port, ..] = server.as_sequence()? else { return None };
    let name: Option<String> = redis::from_redis_value_ref(name).ok()?;
    let name = name.filter(|name| !name.is_empty() && name != "?");
    // The crate's own conversion would turn 70000 into 4464.
    let port = u16::try_from(number(port)?).ok()?;
    Host::told(name.as_deref().unwrap_or(own), port)
}

fn number(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

const NO_OWNER: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, name: Value, port: i64) -> Value {
        let id = Value::SimpleString(format!("id{port}"));
        let primary = Value::Array(vec![name, Value::Int(port), id]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary])
    }

    fn name(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_slot_has_the_server_that_was_named_last() {
        let reply = Value::Array(vec![
            range(0, 99, name("a"), 1),
            range(100, 199, Value::Nil, 2),
            range(200, 200, name(""), 3),
            range(300, 300, name("a"), 1),
        ]);
        let mut slots = Slots::read(&reply, "own", &Reached::default()).unwrap();
        assert_eq!(slots.members.iter().collect::<Vec<_>>(), ["id1", "id2", "id3"]);
        let owner = |slots: &Slots, slot| slots.owner(slot).map(Host::to_string);
        assert_eq!(owner(&slots, 0), Some("a:1".to_owned()));
        assert_eq!(owner(&slots, 199), Some("own:2".to_owned()));
        assert_eq!(owner(&slots, 200), Some("own:3".to_owned()));
        assert_eq!(owner(&slots, 299), None);
        assert_eq!(slots.primaries().count(), 3);
        assert_eq!(slots.anybody().map(Host::to_string), Some("a:1".to_owned()));
        slots.moved(200, Host::new("b", 4));
        assert_eq!(owner(&slots, 200), Some("b:4".to_owned()));
        let all: Vec<String> = slots.primaries().map(Host::to_string).collect();
        assert_eq!(all, ["a:1", "own:2", "b:4"]);
    }

    #[test]
    fn nonsense_is_no_map() {
        let reversed = Value::Array(vec![range(9, 1, name("a"), 1)]);
        let far = Value::Array(vec![range(0, 16_384, name("a"), 1)]);
        let ports = [0, -1, 70_000].map(|port| Value::Array(vec![range(0, 9, name("a"), port)]));
        let host = Value::Array(vec![range(0, 9, name("a b"), 1)]);
        let more = Value::Array((0..=SLOTS).map(|_| range(0, 9, name("a"), 1)).collect());
        let others = [Value::Okay, reversed, far, Value::Array(vec![Value::Int(1)]), host, more];
        for reply in others.into_iter().chain(ports) {
            let read = Slots::read(&reply, "own", &Reached::default());
            assert!(read.is_err(), "{reply:?}");
        }
    }

    #[test]
    fn servers_beyond_the_limit_of_a_cluster_own_no_slot() {
        let many = 0..MAX_SERVERS_OF_A_NODE as i64 + 9;
        let ranges = many.map(|slot| range(slot, slot, name(&format!("h{slot}")), 1)).collect();
        let reply = Value::Array(ranges);
        let mut slots = Slots::read(&reply, "own", &Reached::default()).unwrap();
        for port in 1..9 {
            slots.moved(0, Host::new("new", port));
        }
        assert_eq!(slots.primaries().count(), MAX_SERVERS_OF_A_NODE - 1);
        assert_eq!(slots.owner(0), None);
    }
}
