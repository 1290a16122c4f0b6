//! One lock node, end to end: every command of the module against real servers. The files follow
//! the command reference; `errors` and what comes after it cut across the commands.

mod acquire;
mod acquire_again;
mod acquire_options;
mod apply;
mod break_;
mod check;
mod cluster;
mod config;
mod errors;
mod events;
mod extend;
mod foreign;
mod help;
mod info;
mod inspect;
mod introspection;
mod limit;
mod memory;
mod node_cmd;
mod release;
mod resp;
mod scripts;
mod shared;
mod smoke;
mod time;
mod waiting;
mod watch;
