//! A guard's fence travels with every command, and the data's server refuses late holders.

use dlock_client::{Error, Late};
use harness::library::{run, take};
use harness::{Kind, Quorum, Server};
use redis::aio::MultiplexedConnection;

use crate::coordinator::{LONG, program};

async fn open(server: &Server) -> MultiplexedConnection {
    let url = format!("redis://127.0.0.1:{}", server.port());
    let client = redis::Client::open(url).expect("it is a URL");
    client.get_multiplexed_async_connection().await.expect("the server is there")
}

#[test]
fn what_a_late_holder_writes_or_reads_is_refused() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Valkey91);
    run(async {
        let client = program(&quorum).await;
        let first = take(&client, "account", LONG).await;
        let mut early = first.fenced(open(&data).await, "{a}:mark").expect("it is exclusive");
        redis::cmd("SET").arg("a").arg(1).exec_async(&mut early).await.expect("it is in time");
        first.release().await.expect("it is held");

        let second = take(&client, "account", LONG).await;
        let mut late = early;
        let mut now = second.fenced(open(&data).await, "{a}:mark").expect("it is exclusive");
        let read: i64 = redis::cmd("GET").arg("a").query_async(&mut now).await.expect("in time");
        assert_eq!(read, 1);
        for words in [&["SET", "a", "9"][..], &["GET", "a"]] {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            let refused = command.exec_async(&mut late).await.expect_err("it is late");
            assert_eq!(Late::of(&refused), Some(Late { seen: second.fence() }));
        }
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("INCR").arg("a").cmd("INCR").arg("a");
        let counted: (i64, i64) = pipeline.query_async(&mut now).await.expect("in time");
        assert_eq!(counted, (2, 3));
        let refused = pipeline.query_async::<()>(&mut late).await.expect_err("it is late");
        assert!(refused.to_string().contains("STALE"), "{refused}");
        assert_eq!(data.run("GET a").text(), "3");
    });
}

#[test]
fn shared_locks_and_permits_have_no_fence_for_a_mark() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        let shared = client.lock("a").shared().try_acquire().await.expect("it is free");
        let permit = client.lock("b").limit(2).try_acquire().await.expect("it is free");
        for guard in [shared, permit] {
            assert!(matches!(guard.fenced((), "mark"), Err(Error::Usage(_))));
        }
    });
}
