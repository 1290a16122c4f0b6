//! What the library tells whoever listens.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use harness::Quorum;
use tokio::runtime::Builder;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::coordinator::{ms, program, take};

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
            let client = program(&quorum).await;
            let guard = take(&client, "job", ms(900)).await;
            guard.extend(ms(900)).await.expect("it is held");
            let token = guard.token().to_string();
            guard.release().await.expect("it is held");
            client.close().await;
            token
        })
    });
    let told = String::from_utf8(log.0.lock().expect("nobody panicked").clone()).expect("text");
    for part in ["acquire{key=\"job\" nodes=3", "hold{key=\"job\" fence=", "acquired", "close"] {
        assert!(told.contains(part), "no {part} in:\n{told}");
    }
    assert!(!told.contains(&token), "a token in:\n{told}");
}

/// Keeps what is told.
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
