//! DLOCK.ACQUIRE: who gets a lock, with every option, and who waits for it.

mod again;
mod foreign;
mod free;
mod keep;
mod keep_around;
mod limit;
mod options;
mod shared;
mod turn;
mod waiting;
