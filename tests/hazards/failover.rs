//! A primary that dies before it has replicated a lock.
