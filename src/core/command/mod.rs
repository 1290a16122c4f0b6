//! The commands: one file each, with how it is written, what it means and how it is documented.
//!
//! To add one: its file, and its row in the table below. The compiler then asks for its handler.

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

macro_rules! commands {
    ($($name:ident => $file:ident),* $(,)?) => {
        /// A command. Whoever carries commands out matches on this, so that none can be missing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $(#[doc = concat!("See [`", stringify!($file), "`].")] $name),*
        }

        impl Command {
            /// Every command, in the order in which HELP lists them.
            pub const ALL: &[Command] = &[$(Command::$name),*];

            /// How it is documented.
            #[must_use]
            pub const fn doc(self) -> &'static Doc {
                match self {
                    $(Command::$name => &$file::DOC),*
                }
            }
        }
    };
}

commands! {
    Acquire => acquire,
    Release => release,
    Extend => extend,
    Check => check,
    Guard => guard,
    Fenced => fenced,
    Mark => mark,
    Inspect => inspect,
    Tokens => tokens,
    Break => r#break,
    Evicted => evicted,
    Node => node,
    Help => help,
    Apply => apply,
    Promise => promise,
    Probe => probe,
}

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
