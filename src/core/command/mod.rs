//! The commands: one file each, with how it is written, what it means and how it is documented.
//!
//! To add one: its file, and its row in [`TABLE`].

pub mod acquire;
pub mod apply;
pub mod r#break;
pub mod check;
pub mod doc;
pub mod evicted;
pub mod extend;
pub mod fenced;
pub mod guard;
pub mod help;
pub mod inner;
pub mod inspect;
pub mod mark;
pub mod node;
pub mod probe;
pub mod promise;
pub mod read;
pub mod refusal;
pub mod release;
pub mod tokens;

pub use doc::{Arg, Doc, Kind, Touch};
pub use refusal::Refusal;

use crate::quarantine::Policy;

/// Every command, in the order in which HELP lists them.
pub const TABLE: [&Doc; 16] = [
    &acquire::DOC,
    &release::DOC,
    &extend::DOC,
    &check::DOC,
    &guard::DOC,
    &fenced::DOC,
    &mark::DOC,
    &inspect::DOC,
    &tokens::DOC,
    &r#break::DOC,
    &evicted::DOC,
    &node::DOC,
    &help::DOC,
    &apply::DOC,
    &promise::DOC,
    &probe::DOC,
];

/// What a node is told about how far requests may go. Changed with CONFIG SET.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest lease, in milliseconds.
    pub max_ttl: u64,
    /// The most blocked requests on this node.
    pub max_waiters: u64,
    /// The most places that are kept for those who are away.
    pub max_places: u64,
    /// When to grant nothing.
    pub quarantine: Policy,
}

impl Settings {
    /// What was granted elsewhere, by whatever settings, is not refused here.
    pub const REPLAY: Settings = Settings {
        max_ttl: crate::limits::MAX_TTL_CEILING,
        max_waiters: crate::limits::MAX_WAITERS_CEILING,
        max_places: crate::limits::MAX_PLACES_CEILING,
        quarantine: Policy::Auto,
    };
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_ttl: crate::limits::DEFAULT_MAX_TTL,
            max_waiters: crate::limits::DEFAULT_MAX_WAITERS,
            max_places: crate::limits::DEFAULT_MAX_PLACES,
            quarantine: Policy::Auto,
        }
    }
}
