//! The nodes, as the command line names them.

use std::time::Duration;

use dlock_client::Client;

use crate::args::Global;
use crate::exit::Failure;

/// Connects to a majority, at least.
pub async fn connect(global: &Global) -> Result<Client, Failure> {
    let mut client = Client::builder().nodes(urls(global));
    if let Some(timeout) = global.timeout {
        client = client.node_timeout(timeout);
    }
    Ok(client.connect().await?)
}

/// The URLs: a name without a scheme is a host.
pub fn urls(global: &Global) -> Vec<String> {
    let named = global.nodes.iter().map(|node| node.trim()).filter(|node| !node.is_empty());
    named.map(url).collect()
}

/// How long a node may take, if the command line says nothing: what the library takes for a ttl.
pub fn timeout(global: &Global, ttl: Duration) -> Duration {
    let usual = (ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
    global.timeout.unwrap_or(usual)
}

fn url(node: &str) -> String {
    match node {
        _ if node.contains("://") => node.to_owned(),
        _ if node.starts_with('/') => format!("unix://{node}"),
        _ => format!("redis://{node}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_scheme_is_a_host_or_a_path() {
        assert_eq!(url("rediss://a:1"), "rediss://a:1");
        assert_eq!(url("10.0.0.1:6379"), "redis://10.0.0.1:6379");
        assert_eq!(url("/run/redis.sock"), "unix:///run/redis.sock");
    }
}
