//! Every limit of the agent, named once.

use std::time::Duration;

/// The room for connections, or less where the process may have few open files. One user alone can have half of it.
pub const CONNECTIONS: u64 = 30_000;
/// The room for connections over TCP that have not logged in, or less, as well. One more closes the oldest.
pub const STRANGERS: u64 = 1_000;
/// The room for locks and waiting requests. One user alone can have half of it.
pub const LOCKS: u64 = 40_000;
/// The largest request, in bytes.
pub const REQUEST: usize = 64 * 1024;
/// The largest request of a client that has not logged in, in bytes.
pub const STRANGERS_REQUEST: usize = 4 * 1024;
/// The largest number of arguments in a request, with its name.
pub const ARGUMENTS: usize = 64;
/// The longest line of a request, in bytes.
pub const LINE: usize = 1024;
/// Requests of one connection that are answered before others have their turn.
pub const TURN: u64 = 8;
/// Bytes that the agent reads at a time, and so the most that it reads ahead while it answers a request.
pub const PIECE: usize = 4 * 1024;
/// Bytes of replies that the agent collects before it sends them. While a client does not read, the agent answers nothing
/// more.
pub const UNSENT: usize = 16 * 1024;
/// Bytes of connections whose clients do not read, replies and requests, over all connections; with more of them the
/// connection that does not read is closed. One user alone can have half of it.
pub const UNREAD: u64 = 64 << 20;
/// Bytes of losses that the subscribers of one user have not read yet; a subscriber that is farther behind is closed.
pub const LOSSES: usize = 4 << 20;
/// Channels to which a connection can subscribe.
pub const CHANNELS: usize = 16;
/// The longest name of a channel, in bytes.
pub const NAME: usize = 256;
/// A token that has left a lock done is remembered for this long.
pub const DONE_LASTS: Duration = Duration::from_secs(10);
/// While a connection has sent more than the agent reads ahead, the agent looks this often for its end; and while the
/// agent ends, for the end of its EPHEMERAL locks.
pub const LOOK_FOR_END: Duration = Duration::from_millis(100);
/// The pause after a connection could not be accepted: too many open files, say.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// An EXTEND or a DONE waits this long for a majority. It goes on after that, and only its reply is an error.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(2);
/// The time for replies that a client does not read, when the agent ends.
pub const LAST_REPLY: Duration = Duration::from_secs(1);
/// The time for the last orders, and for the last releases when the agent ends: longer than an order waits.
pub const FAREWELL: Duration = Duration::from_secs(3);
