//! One node of several servers, which fails over.

use std::time::{Duration, Instant};

use redis::{Value, cmd};

use super::Starting;
use super::role::{NAME, Role};
use super::server::connection;

/// A primary, two replicas, and three Sentinels of which two decide.
pub async fn sentinel(starting: &mut Starting<'_>) -> Result<String, String> {
    let of = starting.server(&Role::Node).await?;
    for _ in 0..2 {
        starting.server(&Role::Replica { of }).await?;
    }
    let mut sentinels = Vec::new();
    for _ in 0..3 {
        sentinels.push(starting.server(&Role::Sentinel { of }).await?);
    }
    for port in &sentinels {
        until("the Sentinels know each other and the replicas", async || {
            let question = ["SENTINEL", "MASTER", NAME];
            let master = ask(*port, &question).await?;
            let known = dlock_client::operator::Fields::of(&master);
            let number = |name| known.as_ref()?.text(name)?.parse::<u32>().ok();
            Some(number("num-slaves") == Some(2) && number("num-other-sentinels") == Some(2))
        })
        .await?;
    }
    Ok(format!("redis+sentinel://{}/{NAME}", hosts(&sentinels)))
}

/// Three primaries with a replica each.
pub async fn cluster(starting: &mut Starting<'_>) -> Result<String, String> {
    let mut ports = Vec::new();
    for _ in 0..6 {
        ports.push(starting.server(&Role::Member).await?);
    }
    let (primaries, replicas) = ports.split_at(3);
    for (place, port) in primaries.iter().enumerate() {
        let (first, next) = (place * SLOTS / 3, (place + 1) * SLOTS / 3);
        let epoch = (place + 1).to_string();
        order(*port, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await?;
        let (first, last) = (first.to_string(), (next - 1).to_string());
        order(*port, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
    }
    for port in &ports[1..] {
        order(ports[0], &["CLUSTER", "MEET", "127.0.0.1", &port.to_string()]).await?;
    }
    let all_say = async |what: &str, said: &str| {
        for port in &ports {
            until(what, async || info(*port).await.map(|info| info.contains(said))).await?;
        }
        Ok::<(), String>(())
    };
    all_say("the servers know each other", "cluster_known_nodes:6").await?;
    for (primary, replica) in primaries.iter().zip(replicas) {
        let id = text(ask(*primary, &["CLUSTER", "MYID"]).await).unwrap_or_default();
        until("a replica knows its primary", async || {
            Some(order(*replica, &["CLUSTER", "REPLICATE", &id]).await.is_ok())
        })
        .await?;
    }
    all_say("the cluster serves", "cluster_state:ok").await?;
    for replica in replicas {
        until("a replica has what its primary has", async || {
            let info = text(ask(*replica, &["INFO", "replication"]).await)?;
            Some(info.contains("master_link_status:up"))
        })
        .await?;
    }
    Ok(format!("redis+cluster://{}", hosts(primaries)))
}

fn hosts(ports: &[u16]) -> String {
    let hosts = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    hosts.collect::<Vec<_>>().join(",")
}

async fn info(port: u16) -> Option<String> {
    text(ask(port, &["CLUSTER", "INFO"]).await)
}

fn text(value: Option<Value>) -> Option<String> {
    redis::from_redis_value(value?).ok()
}

async fn ask(port: u16, words: &[&str]) -> Option<Value> {
    order(port, words).await.ok()
}

async fn order(port: u16, words: &[&str]) -> Result<Value, String> {
    let [name, arguments @ ..] = words else { return Err("nothing to say".to_owned()) };
    let said =
        async { cmd(name).arg(arguments).query_async::<Value>(&mut connection(port).await?).await };
    said.await.map_err(|error| format!("port {port}: {}: {error}", words.join(" ")))
}

/// Waits until it is so.
async fn until(what: &str, mut is: impl AsyncFnMut() -> Option<bool>) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while is().await != Some(true) {
        if Instant::now() > end {
            return Err(format!("it never came to be that {what}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

const SLOTS: usize = 16_384;
/// Limit of the time in which servers must find each other.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
