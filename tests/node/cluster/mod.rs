//! Nodes that share the slots, and slots that move.

mod held_back;
mod migration;
mod refused;
mod slots;

/// Makes two tests of one function of a kind: for servers that migrate slots as a whole.
macro_rules! on_servers_that_migrate {
    ($(#[$attribute:meta])* fn $name:ident($kind:ident: Kind) $body:block) => {
        fn $name($kind: Kind) $body

        mod $name {
            $(#[$attribute])*
            #[test]
            fn redis_8_6() {
                super::$name(harness::Kind::Redis86);
            }
            $(#[$attribute])*
            #[test]
            fn valkey_9_1() {
                super::$name(harness::Kind::Valkey91);
            }
        }
    };
}
pub(crate) use on_servers_that_migrate;
