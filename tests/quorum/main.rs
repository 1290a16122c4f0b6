//! The client library against real nodes: what it promises to a program that takes locks with it.
//!
//! In reading order: [`coordinator`], what the tests share; [`smoke`]; nodes that fail, [`minority`]
//! and [`majority`]; networks that fail, [`late`] and [`cut`]; [`gate`] and [`waiting`]
//! for contention; [`guard`], [`holding`], [`loss`], [`fences`] and [`connection`] for holders;
//! [`cancelled`] for attempts that are given up; [`done`] for locks that are left done; [`random_faults`] and
//! [`late_writers`], where everything fails at random; [`addresses`], [`rights`], [`tls`] and [`tls_shapes`] for how nodes are reached; [`sentinel`] and
//! [`cluster`] for nodes with servers that change, with all that can happen in [`chaos`]: to a cluster ([`chaos_cluster`]), behind Sentinels ([`chaos_sentinels`]), to any server
//! ([`chaos_servers`]); [`surroundings`] that are hostile.

mod addresses;
mod cancelled;
mod changed_set;
#[cfg(feature = "soak")]
mod chaos;
#[cfg(feature = "soak")]
mod chaos_cluster;
#[cfg(feature = "soak")]
mod chaos_sentinels;
#[cfg(feature = "soak")]
mod chaos_servers;
mod cluster;
mod connection;
mod coordinator;
mod cut;
mod done;
mod fault;
mod fences;
mod gate;
mod given_back;
mod guard;
mod holding;
mod lapsed;
mod late;
#[cfg(feature = "soak")]
mod late_writers;
mod loss;
mod majority;
mod minority;
mod random_faults;
mod rights;
mod sentinel;
mod smoke;
mod surroundings;
mod tls;
mod tls_shapes;
mod waiting;
