//! SETNX, and EXPIRE after it.
