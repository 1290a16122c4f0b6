//! One connection: requests in, replies out, in the same order.
//!
//! While a request waits, the agent reads ahead a little, so that it notices the end of the connection at once. While
//! a client does not read its replies, the agent answers no further request, but reads them, unless the client has not
//! logged in: many clients send a whole pipeline before they read. The buffers count in the user's room.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use dlock_core::command::acquire;

use super::dispatch;
use super::limits::{
    LAST_REPLY, ORDER_PATIENCE, PIECE, PIPELINE, REQUEST, STRANGERS_REQUEST, TURN, UNSENT,
};
use super::losses::CHANNEL;
use super::reply::{Answer, Protocol, Reply};
use super::request::{self, Request};
use super::room::Part;
use super::session::Session;
use super::shared::Agent;

pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

pub struct Connection {
    pub agent: Arc<Agent>,
    pub stream: Stream,
    pub session: Session,
}

/// Bytes of the client without an answer yet.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Number of bytes at the front that were taken.
    taken: usize,
    /// True if the client has ended its side of the connection.
    has_ended: bool,
}

/// Replies to send.
#[derive(Default)]
struct Outgoing(Vec<u8>);

/// The connection ends, without a reply to the client.
struct Closed;

impl Connection {
    /// Serves the client until the connection ends, and then ends its EPHEMERAL locks.
    pub async fn serve(mut self) {
        let tie = Arc::clone(&self.session.tie);
        tokio::select! {
            _ = self.talk() => {}
            () = tie.lost.wait() => {}
        }
        // The connection ends before the next holder begins.
        drop(self.stream);
        self.session.end(&self.agent);
    }

    async fn talk(&mut self) -> Result<(), Closed> {
        let (mut incoming, mut outgoing) = (Incoming::default(), Outgoing::default());
        let mut requests = 0_u64;
        loop {
            let most = if self.session.is_known { REQUEST } else { STRANGERS_REQUEST };
            match request::read(incoming.left(), most) {
                Ok(Some((request, length))) => {
                    incoming.take(length);
                    // A client that sends without a pause must not starve the others.
                    requests += 1;
                    if requests.is_multiple_of(TURN) {
                        yield_now().await;
                    }
                    let ends = self.answer(request, &mut incoming, &mut outgoing).await?;
                    if ends || outgoing.0.len() >= UNSENT {
                        self.send_all(&mut incoming, &mut outgoing).await?;
                    }
                    if ends {
                        return Ok(());
                    }
                }
                // Meanwhile a request may arrive.
                Ok(None) if !outgoing.0.is_empty() => {
                    self.send_all(&mut incoming, &mut outgoing).await?;
                }
                Ok(None) => {
                    if incoming.has_ended || self.agent.ending.is_set() {
                        return Ok(());
                    }
                    incoming.shrink();
                    let _part = self.buffered(&incoming, &outgoing)?;
                    self.idle(&mut incoming, &mut outgoing).await?;
                }
                Err(nonsense) => {
                    outgoing.add(&Reply::error(nonsense.0), self.session.protocol);
                    return self.send_all(&mut incoming, &mut outgoing).await;
                }
            }
        }
    }

    /// Waits until there is something to do.
    async fn idle(
        &mut self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<(), Closed> {
        tokio::select! {
            biased;
            read = self.stream.read(incoming) => read,
            loss = self.session.loss() => match loss {
                Ok(loss) => {
                    let words = [b"message", CHANNEL, loss.as_bytes()].map(Reply::text);
                    outgoing.add(&Reply::Push(words.into()), self.session.protocol);
                    Ok(())
                }
                Err(_) => Err(Closed),
            },
            () = self.agent.ending.wait() => Ok(()),
        }
    }

    /// Waits for the answer, and reads ahead meanwhile. `None`: the agent is shutting down.
    async fn wait_for(
        &mut self,
        words: &[&[u8]],
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<Option<Answer>, Closed> {
        let asked = acquire::parse_at_agent(words.get(2..).unwrap_or_default());
        let waits = asked.is_ok_and(|asked| asked.asked.wait.is_some());
        incoming.shrink();
        let _part = self.buffered(incoming, outgoing)?;
        let mut has_closed = false;
        let ending = &self.agent.ending;
        let mut ends = pin!(async {
            ending.wait().await;
            // Other requests are answered, if their nodes answer.
            if !waits {
                sleep(ORDER_PATIENCE).await;
            }
        });
        let mut answer = pin!(dispatch::answer(&self.agent, &mut self.session, words));
        loop {
            has_closed |= incoming.has_ended;
            // A request that does not wait ends soon, and is carried out, also the ones behind it.
            if has_closed && waits {
                return Err(Closed);
            }
            let is_full = !incoming.left().is_empty();
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(Some(answer)),
                sent = self.stream.send(outgoing), if !outgoing.0.is_empty() => sent?,
                read = self.stream.read(incoming), if !has_closed && !is_full => read?,
                ended = self.stream.ended(), if !has_closed && is_full => {
                    ended?;
                    has_closed = true;
                }
                () = &mut ends => return Ok(None),
            }
        }
    }

    /// Counts unread replies, and requests without an answer, in the room of the client's user.
    fn buffered(&self, incoming: &Incoming, outgoing: &Outgoing) -> Result<Part, Closed> {
        let bytes = incoming.bytes.capacity() + outgoing.0.capacity();
        self.agent.connections.unread(self.session.peer.owner(), bytes).ok_or(Closed)
    }

    /// Sends replies, and reads meanwhile.
    async fn send_all(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<(), Closed> {
        let may_read = self.session.is_known;
        let mut late = pin!(async {
            self.agent.ending.wait().await;
            sleep(LAST_REPLY).await;
        });
        while !outgoing.0.is_empty() {
            if self.stream.send_now(outgoing)? {
                continue;
            }
            let _unread = self.buffered(incoming, outgoing)?;
            tokio::select! {
                biased;
                sent = self.stream.send(outgoing) => sent?,
                read = self.stream.read(incoming), if may_read && !incoming.has_ended => {
                    read?;
                    if incoming.left().len() > PIPELINE {
                        return Err(Closed);
                    }
                }
                () = &mut late => return Err(Closed),
            }
        }
        Ok(())
    }

    /// Answers a request. Returns true if the connection ends after that.
    async fn answer(
        &mut self,
        request: Request,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<bool, Closed> {
        let words = request.words();
        if words.is_empty() {
            return Ok(false);
        }
        let Some(answer) = self.wait_for(&words, incoming, outgoing).await? else {
            return Ok(true);
        };
        answer.replies.iter().for_each(|reply| outgoing.add(reply, self.session.protocol));
        Ok(answer.ends)
    }
}

impl Incoming {
    fn left(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    fn take(&mut self, length: usize) {
        self.taken += length;
        // Seldom: it moves the rest of a long pipeline.
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// An idle connection has no buffer.
    fn shrink(&mut self) {
        if self.left().is_empty() {
            *self = Incoming { has_ended: self.has_ended, ..Incoming::default() };
        }
    }
}

impl Outgoing {
    fn add(&mut self, reply: &Reply, protocol: Protocol) {
        reply.write(protocol, &mut self.0);
    }

    fn note_sent(&mut self, length: usize) {
        self.0.drain(..length);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

impl Stream {
    /// Reads what has arrived, at least a byte unless the client has ended the connection.
    async fn read(&self, incoming: &mut Incoming) -> Result<(), Closed> {
        loop {
            self.ready(Interest::READABLE).await?;
            match self.try_read(incoming) {
                Ok(length) => {
                    incoming.has_ended = length == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Closed),
            }
        }
    }

    fn try_read(&self, incoming: &mut Incoming) -> io::Result<usize> {
        let mut piece = [0; PIECE];
        let length = match self {
            Stream::Unix(stream) => stream.try_read(&mut piece),
            Stream::Tcp(stream) => stream.try_read(&mut piece),
        }?;
        incoming.bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        Ok(length)
    }

    /// Sends some of the replies.
    async fn send(&self, outgoing: &mut Outgoing) -> Result<(), Closed> {
        while !self.send_now(outgoing)? {
            self.ready(Interest::WRITABLE).await?;
        }
        Ok(())
    }

    /// Sends some of the replies. Returns false if the client has to read first.
    fn send_now(&self, outgoing: &mut Outgoing) -> Result<bool, Closed> {
        let sent = match self {
            Stream::Unix(stream) => stream.try_write(&outgoing.0),
            Stream::Tcp(stream) => stream.try_write(&outgoing.0),
        };
        match sent {
            Ok(length) => outgoing.note_sent(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => return Err(Closed),
        }
        Ok(true)
    }

    /// Resolves when the client has ended the connection, though there may be more to read.
    async fn ended(&self) -> Result<(), Closed> {
        self.ready(Interest::PRIORITY).await.map(drop)
    }

    async fn ready(&self, interest: Interest) -> Result<Ready, Closed> {
        let ready = match self {
            Stream::Unix(stream) => stream.ready(interest).await,
            Stream::Tcp(stream) => stream.ready(interest).await,
        };
        ready.map_err(|_| Closed)
    }
}

/// Sends one reply to a client that is not served.
pub async fn refuse(stream: Stream, why: &'static str) {
    let mut outgoing = Outgoing::default();
    outgoing.add(&Reply::error(why), Protocol::Resp2);
    let _ = timeout(LAST_REPLY, stream.send(&mut outgoing)).await;
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream as StdStream;

    use dlock_client::Client;

    use super::super::peer::{Allow, Peer};
    use super::*;

    fn agent() -> Arc<Agent> {
        let client = Client::builder().nodes(["redis://127.0.0.1:1"]).connect_later().unwrap();
        Agent::new(client, Allow::default(), None, 1_000)
    }

    /// A connection with this many requests of the client, and the client's end of it.
    async fn connection(agent: &Arc<Agent>, requests: usize) -> (StdStream, Connection) {
        let (mut client, stream) = StdStream::pair().unwrap();
        client.write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(requests)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        stream.readable().await.unwrap();
        let session = Session::new(0, Peer::of(&stream).unwrap());
        (client, Connection { agent: Arc::clone(agent), stream: Stream::Unix(stream), session })
    }

    #[tokio::test]
    async fn a_client_that_sends_many_requests_leaves_turns_to_others() {
        let agent = agent();
        let (_client, many) = connection(&agent, 100).await;
        let (_other, one) = connection(&agent, 1).await;
        let (many, one) = (tokio::spawn(many.serve()), tokio::spawn(one.serve()));
        one.await.unwrap();
        assert!(!many.is_finished());
        many.await.unwrap();
    }
}
