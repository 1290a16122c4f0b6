//! DLOCK.ACQUIRE: grants and waits, with every option.

mod foreign;
mod free;
mod keep;
mod keep_around;
mod turn;
mod waiting;
