//! Nodes that share the slots, and slots that move.

mod held_back;
mod migration;
mod refused;
mod slots;
