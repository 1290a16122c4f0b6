//! The other commands of one lock, what they refuse, and the shapes of their replies.

mod apply;
mod break_;
mod check;
mod errors;
mod extend;
mod final_;
mod fuzz;
mod help;
mod hot;
mod inspect;
mod node;
mod probe;
mod resp;
mod tokens;
