//! The commands, one file each: syntax, meaning and documentation.
//!
//! To add one: its file, and its row in the table below. The compiler then asks for its handler.

pub mod acquire;
pub mod apply;
pub mod r#break;
pub mod check;
pub mod doc;
pub mod extend;
pub mod fenced;
pub mod help;
pub mod hot;
pub mod inner;
pub mod inspect;
pub mod mark;
pub mod node;
pub mod options;
pub mod probe;
pub mod promise;
pub mod read;
pub mod refusal;
pub mod release;
pub mod tokens;

pub use doc::{Arg, Doc, Kind, Touch};
pub use refusal::Refusal;

macro_rules! commands {
    ($($name:ident => $file:ident),* $(,)?) => {
        /// A command. The module matches on this, so that no handler can be missing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $(#[doc = concat!("The command of the module `", stringify!($file), "`.")] $name),*
        }

        impl Command {
            /// Every command, in HELP's order.
            pub const ALL: &[Command] = &[$(Command::$name),*];

            /// The command's documentation.
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
    Fenced => fenced,
    Mark => mark,
    Inspect => inspect,
    Tokens => tokens,
    Break => r#break,
    Hot => hot,
    Node => node,
    Help => help,
    Apply => apply,
    Promise => promise,
    Probe => probe,
}
