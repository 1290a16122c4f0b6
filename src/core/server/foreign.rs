//! EXTEND and RELEASE of plain strings: locks that were taken by `SET key token NX PX ttl`.

use super::Node;
use crate::command::extend::Extend;
use crate::host::Host;
use crate::lock::Found;
use crate::reason::Reason;
use crate::words::{Key, Millis, Time};

impl Node {
    /// Makes a plain string with this token expire `ttl` from now.
    pub(super) fn extend_foreign<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Extend<'_>,
        left: Option<Millis>,
        time: Time,
    ) -> bool {
        let stays = ask.gt && left.is_none_or(|left| left >= ask.ttl);
        let ours = ask.fence.is_none() && host.foreign_is(key, ask.token);
        if ours && !stays {
            host.expire_foreign(key, ask.ttl);
            self.waiting.watch_foreign(key, Some(ask.ttl), self.is_deaf, time);
        }
        ours
    }

    /// Removes a foreign lock with this value.
    pub(super) fn end_foreign<H: Host>(
        &self,
        host: &mut H,
        key: Key<'_>,
        value: &[u8],
    ) -> Result<bool, Reason> {
        match host.find(key) {
            Found::WrongType => return Err(Reason::WrongType),
            Found::Foreign { .. } => {}
            _ => return Ok(false),
        }
        let ours = host.foreign_is(key, value);
        if ours {
            host.remove_foreign(key);
        }
        Ok(ours)
    }
}
