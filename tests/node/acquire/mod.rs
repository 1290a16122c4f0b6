//! DLOCK.ACQUIRE: who gets a lock, with every option, and who waits for it.

mod foreign;
mod free;
mod keep;
mod keep_around;
mod turn;
mod waiting;
