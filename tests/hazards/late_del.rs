//! DEL as unlock, delayed in the network.
