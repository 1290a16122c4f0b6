//! Fences: they grow, at every key, over every end of a server and every promotion.

mod keys;
mod lead;
mod promotions;
mod restarts;
