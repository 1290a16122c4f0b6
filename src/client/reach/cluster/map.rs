//! Which server has which slot.

use dlock_core::cluster::SLOTS;
use redis::Value;

use crate::reach::address::access::Map as Reached;
use crate::reach::address::host::Host;

/// Which server has which slot, as far as is known.
pub(crate) struct Slots {
    /// How often it was read anew.
    pub(crate) version: u64,
    hosts: Vec<Host>,
    /// Those that stand by.
    pub(crate) replicas: Vec<Host>,
    /// For each slot the place of its server; `NOBODY` if that is not known.
    owners: Box<[u16]>,
}

impl Slots {
    /// Nothing is known.
    pub(crate) fn new() -> Slots {
        Slots {
            version: 0,
            hosts: Vec::new(),
            replicas: Vec::new(),
            owners: vec![NOBODY; SLOTS].into(),
        }
    }

    /// Reads an answer to CLUSTER SLOTS. A server that names no host for another means its own.
    pub(crate) fn read(reply: &Value, own: &str, map: &Reached) -> Option<Slots> {
        let mut slots = Slots::new();
        for range in reply.as_sequence()? {
            let [first, last, primary, replicas @ ..] = range.as_sequence()? else { return None };
            let read = |server: &Value| Some(map.reached(host(server, own)?));
            let host = read(primary)?;
            for replica in replicas.iter().filter_map(read) {
                if !slots.replicas.contains(&replica) {
                    slots.replicas.push(replica);
                }
            }
            let (first, last) = (number(first)?, number(last)?);
            let owner = slots.place(host);
            slots.owners.get_mut(first..=last)?.fill(owner);
        }
        Some(slots)
    }

    /// Who has a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Host> {
        self.hosts.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// Somebody, always the same as long as nothing changes.
    pub(crate) fn anybody(&self) -> Option<&Host> {
        self.owners.iter().find_map(|owner| self.hosts.get(usize::from(*owner)))
    }

    /// All that have slots.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Host> {
        let has_some =
            |place: &usize| self.owners.iter().any(|owner| usize::from(*owner) == *place);
        (0..self.hosts.len()).filter(has_some).map(|place| &self.hosts[place])
    }

    /// A slot has moved.
    pub(crate) fn moved(&mut self, slot: u16, host: Host) {
        let owner = self.place(host);
        if let Some(entry) = self.owners.get_mut(usize::from(slot)) {
            *entry = owner;
        }
    }

    fn place(&mut self, host: Host) -> u16 {
        let place = self.hosts.iter().position(|other| *other == host).unwrap_or_else(|| {
            self.hosts.push(host);
            self.hosts.len() - 1
        });
        u16::try_from(place).unwrap_or(NOBODY)
    }
}

/// A server that a range names.
fn host(server: &Value, own: &str) -> Option<Host> {
    let [name, port, ..] = server.as_sequence()? else { return None };
    let name: Option<String> = redis::from_redis_value_ref(name).ok()?;
    let name = name.filter(|name| !name.is_empty() && name != "?");
    let port = redis::from_redis_value_ref(port).ok()?;
    Some(Host::new(name.as_deref().unwrap_or(own), port))
}

fn number(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

const NOBODY: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, name: Value, port: i64) -> Value {
        let primary = Value::Array(vec![name, Value::Int(port), Value::Nil]);
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
        for reply in [Value::Okay, reversed, far, Value::Array(vec![Value::Int(1)])] {
            let read = Slots::read(&reply, "own", &Reached::default());
            assert!(read.is_none(), "{reply:?}");
        }
    }
}
