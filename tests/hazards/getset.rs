//! The expiry time as the lock's value, by the clients' own clocks.
