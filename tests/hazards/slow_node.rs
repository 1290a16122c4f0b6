//! Several nodes asked one after the other.
