//! Every limit of the agent, named once.

use std::time::Duration;

/// The room for connections; less where the process may have few open files. One user can have half of it.
pub const CONNECTIONS: u64 = 30_000;
/// The room for connections over TCP that have not logged in; less in the same case. One more closes the
/// oldest.
pub const STRANGERS: usize = 1_000;
/// The room for locks and waiting requests, in bytes. One user can have half of it.
pub const LOCKS: u64 = 512 << 20;
/// Bytes that a lock takes.
pub const LOCK: u64 = 14 << 10;
/// Bytes that a lock takes in addition while it is wanted, and once more for each node: the next in line has a
/// connection of its own to each.
pub const WAITING: u64 = 30 << 10;
/// Copies of a name in the table of locks, and once more as many for each node, in its requests.
pub const NAMES: u64 = 4;
/// The largest request, in bytes.
pub const REQUEST: usize = 64 * 1024;
/// The largest request of a client that has not logged in, in bytes.
pub const STRANGERS_REQUEST: usize = 4 * 1024;
/// The largest number of arguments in a request, with its name.
pub const ARGUMENTS: usize = 64;
/// The longest line of a request, in bytes.
pub const LINE: usize = 1024;
/// Requests of one connection that are answered before other connections have their turn.
pub const TURN: u64 = 8;
/// Bytes that the agent reads at a time, and so the most that it reads ahead while a request waits for its answer.
pub const PIECE: usize = 4 * 1024;
/// Requests of one connection that the agent reads while the client does not read its replies, in bytes. More closes the
/// connection.
pub const PIPELINE: usize = 8 << 20;
/// Bytes of replies that the agent collects before it sends them.
pub const UNSENT: usize = 16 * 1024;
/// Bytes of buffered replies and requests of clients that do not read, over all connections. Beyond this the
/// connection that does not read is closed. One user can have half of it.
pub const UNREAD: u64 = 64 << 20;
/// Bytes of losses that the subscribers of one user have not read yet. A subscriber that is farther behind is closed.
pub const LOSSES: usize = 4 << 20;
/// Subscriptions of one connection.
pub const CHANNELS: usize = 16;
/// The longest name of a channel, in bytes.
pub const NAME: usize = 256;
/// Time to remember a token that has left a lock done.
pub const DONE_LASTS: Duration = Duration::from_secs(10);
/// The pause after a failed accept, caused by too many open files for example.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Limit of the wait of an EXTEND or a DONE for a majority. After it the reply is an error, and the request
/// goes on.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(2);
/// Limit of the wait for a client to read its last reply: one that is refused, or any when the agent ends.
pub const LAST_REPLY: Duration = Duration::from_secs(1);
/// Limit of each wait during shutdown, for connections, orders and releases: longer than an order waits.
pub const FAREWELL: Duration = Duration::from_secs(3);
