//! One lock node, end to end: every command of the module against real servers.

mod smoke;
