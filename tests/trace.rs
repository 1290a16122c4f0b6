//! The client library's traces. A process of its own: the subscriber and its filter are set once for all
//! threads.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::Quorum;
use harness::library::connect;
use tokio::runtime::Builder;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

#[test]
fn acquisitions_and_holds_are_spans_without_secrets() {
    let quorum = Quorum::start(3);
    let log = Log::default();
    let writer = log.clone();
    let listener = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone());
    // One thread, for a listener belongs to a thread.
    let runtime = Builder::new_current_thread().enable_all().build().expect("it starts");
    let token = tracing::subscriber::with_default(listener.finish(), || {
        runtime.block_on(async {
            let client = connect(&quorum.urls(), Duration::from_secs(10)).await;
            let guard = client.lock("job").try_acquire().await.expect("it is free");
            guard.extend(Duration::from_secs(30)).await.expect("it is held");
            let token = guard.token().to_string();
            // Another client waits for it, and is served.
            let next = client.lock("job").acquire();
            let first = async {
                let waits = || quorum.iter().any(|node| node.node("waiters").int() == 1);
                while !waits() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                guard.release().await.expect("it is held");
            };
            let (next, ()) = tokio::join!(next, first);
            next.expect("it is free").release().await.expect("it is held");
            client.close().await;
            token
        })
    });
    let told = String::from_utf8(log.0.lock().expect("nobody panicked").clone()).expect("text");
    for part in [
        "acquire{key=job nodes=3",
        "otel.kind=\"client\" db.system.name=\"redis\" db.operation.name=\"DLOCK.ACQUIRE\"",
        "}:wait{key=job waits_for=\"redis://127.0.0.1:",
        "held by another client",
        "hold{key=job fence=",
        "acquired",
        "close",
    ] {
        assert!(told.contains(part), "no {part} in:\n{told}");
    }
    assert!(!told.contains(&token), "a token in:\n{told}");
}

/// Stores the events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
