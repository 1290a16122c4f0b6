//! Examples of the library: the pages show exactly the code that is compiled here.

use std::error::Error as AnyError;
use std::time::Duration;

use dlock_client::{Client, Error, Guard};

use crate::page;

/// Never run: it has to compile.
#[allow(dead_code, reason = "the compiler is the test")]
async fn example() -> Result<(), Box<dyn AnyError>> {
    let client = Client::connect("redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3").await?;

    let guard = client.lock("job:42").acquire_within(Duration::from_secs(10)).await?;
    tokio::select! {
        done = work(guard.fence()) => done,
        loss = guard.lost() => return Err(loss.into()),
    }
    guard.release().await?;
    client.close().await;
    Ok(())
}

#[allow(dead_code, reason = "as above")]
async fn work(_: u64) {}

#[allow(dead_code, reason = "as above")]
async fn elect(client: Client) -> Result<(), Box<dyn AnyError>> {
    loop {
        let election = client.lock("leader").ttl(Duration::from_secs(10)).meta("http://10.0.0.5");
        match election.run(async |guard: &Guard| lead(guard.fence()).await).await {
            Ok(()) => break,
            Err(Error::Lost(_)) => continue,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[allow(dead_code, reason = "as above")]
async fn lead(_: u64) {}

#[test]
fn examples_of_the_library_compile() {
    let compiled = include_str!("library.rs");
    let mut tried = 0;
    for page in page::all() {
        for example in page.examples().iter().filter(|example| example.language == "rust") {
            let place = example.place(&page);
            for line in &example.lines {
                assert!(compiled.contains(line.trim()), "{place}: not compiled: {line}");
            }
            tried += 1;
        }
    }
    assert!(tried >= 2, "only {tried} examples were found");
}
