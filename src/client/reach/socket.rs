//! Opens a byte stream to a server.
//!
//! For each TLS connection the redis crate would read all system CA certificates, hundreds of files, and
//! block its thread meanwhile. A client that loses many connections at once could not reopen them within
//! their time-outs, again and again. Here those of the system are read once.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{FutureExt, select_ok};
use redis::aio::AsyncStream;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ConnectionInfo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::Tls;

pub(crate) type Stream = Pin<Box<dyn AsyncStream + Send + Sync>>;

/// Opens a stream, to these addresses of the host if they have been found.
pub(crate) async fn open(
    info: &ConnectionInfo,
    certificates: Option<&Tls>,
    found: &[SocketAddr],
) -> io::Result<Stream> {
    let settings = info.tcp_settings();
    let found = match found {
        [] => addresses(info.addr()).await?,
        found => found.to_vec(),
    };
    Ok(match (info.addr(), certificates) {
        (ConnectionAddr::Tcp(..), _) => {
            let open = |at| tcp(at, settings).boxed();
            select_ok(found.into_iter().map(open)).await.map(boxed)?
        }
        (ConnectionAddr::TcpTls { host, .. }, Some(certificates)) => {
            let config = certificates.config();
            let name = ServerName::try_from(host.as_str()).map_err(io::Error::other)?.to_owned();
            let open = |at| tls(at, settings, name.clone(), &config).boxed();
            select_ok(found.into_iter().map(open)).await.map(boxed)?
        }
        (ConnectionAddr::Unix(path), _) => Box::pin(UnixStream::connect(path).await?),
        _ => {
            return Err(io::Error::other("this library cannot connect to an address of this kind"));
        }
    })
}

/// Keeps the stream that opened first; the others are dropped.
fn boxed<S: AsyncStream + Send + Sync + 'static, T>((stream, _): (S, T)) -> Stream {
    Box::pin(stream)
}

/// A lookup of a name, until the thread that makes it has ended it.
struct Lookup;

static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// The number of lookups under way, in threads of the runtime. A fork during one can leave a child in which no lookup ends.
#[cfg(feature = "operator")]
pub fn lookups() -> usize {
    LOOKUPS.load(Ordering::SeqCst)
}

impl Lookup {
    fn begin() -> Lookup {
        LOOKUPS.fetch_add(1, Ordering::SeqCst);
        Lookup
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        LOOKUPS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns all addresses of a host, at least one. The path of a socket has none.
pub(super) async fn addresses(addr: &ConnectionAddr) -> io::Result<Vec<SocketAddr>> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = addr else {
        return Ok(Vec::new());
    };
    let port = *port;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let (name, under_way) = (host.clone(), Lookup::begin());
    let find = move || {
        let _under_way = under_way;
        (name.as_str(), port).to_socket_addrs().map(Vec::from_iter)
    };
    let all = spawn_blocking(find).await.map_err(io::Error::other)??;
    if all.is_empty() { Err(io::Error::other("the host has no address")) } else { Ok(all) }
}

async fn tcp(at: SocketAddr, settings: &TcpSettings) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(settings.nodelay())?;
    if let Some(probes) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(probes)?;
    }
    Ok(stream)
}

async fn tls(
    at: SocketAddr,
    settings: &TcpSettings,
    name: ServerName<'static>,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = tcp(at, settings).await?;
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}
