//! A lock at work: this program, run as a user would, with its output.

use std::env;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use crate::say::failure::Failure;
use crate::say::shell::quoted;
use crate::say::stdout;
use crate::signals;

/// Shows the lock.
pub async fn show(urls: &[String]) -> Result<(), Failure> {
    let nodes = urls.join(",");
    let shown = spawn_blocking(move || {
        signals::hear();
        Demo::of(nodes).and_then(|demo| demo.show())
    });
    let shown = shown.await;
    let failure = match shown {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Err(Failure::internal(&format_args!("the demonstration failed: {failure}")))
}

struct Demo {
    program: PathBuf,
    nodes: String,
}

impl Demo {
    fn of(nodes: String) -> io::Result<Demo> {
        Ok(Demo { program: env::current_exe()?, nodes })
    }

    fn show(&self) -> io::Result<()> {
        say("A lock at work, on these nodes. Alice takes it:\n\n")?;
        let lease = self.run(&["acquire", "demo", "--ttl", "60s", "--meta", "who=alice"])?;
        let token = field(&lease, "DLOCK_TOKEN")?;
        let fence = field(&lease, "DLOCK_FENCE")?;

        say("\nBob wants it too, and waits:\n\n")?;
        let (command, mut waiter) =
            self.start(&["run", "-w", "60", "demo", "--", "sh", "-c", WAITER])?;
        say(&format!("  $ {command} &\n"))?;
        self.until_a_request_waits()?;
        self.run(&["inspect", "demo"])?;

        say("\nAlice gives it back, and Bob has it:\n\n")?;
        let begun = Instant::now();
        self.run(&["release", "demo", &token])?;
        let (said, is_well) = finished(&mut waiter)?;
        let took = begun.elapsed();
        show_output(&said)?;
        let next = said.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
        let grew = next.zip(fence.parse().ok()).is_some_and(|(next, fence)| next > fence);
        if !is_well || !grew {
            return Err(io::Error::other("the waiter did not get a larger fence"));
        }
        say(&format!(
            "\nBob's command had run {} ms after the release began, with a larger fence.\n\n",
            took.as_millis()
        ))
    }

    /// Runs this program, and shows the command and its output.
    fn run(&self, arguments: &[&str]) -> io::Result<String> {
        let (command, mut child) = self.start(arguments)?;
        say(&format!("  $ {command}\n"))?;
        let (said, is_well) = finished(&mut child)?;
        show_output(&said)?;
        if is_well { Ok(said) } else { Err(io::Error::other(format!("`{command}` failed"))) }
    }

    fn start(&self, arguments: &[&str]) -> io::Result<(String, Child)> {
        let quoted: Vec<String> =
            arguments.iter().map(|argument| quoted(argument).display().to_string()).collect();
        let child = Command::new(&self.program)
            .args(["--node-timeout", NODE_TIMEOUT])
            .args(arguments)
            .env("DLOCK_NODES", &self.nodes)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok((format!("dlock {}", quoted.join(" ")), child))
    }

    fn until_a_request_waits(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let (_, mut list) = self.start(&["ls", "--contended", "--json"])?;
            let (said, _) = finished(&mut list)?;
            if said.contains("demo") {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(io::Error::other("no request waits"))
    }
}

/// Returns the program's output, and true if it succeeded.
fn finished(child: &mut Child) -> io::Result<(String, bool)> {
    let mut said = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut said)?;
    }
    Ok((said, child.wait()?.success()))
}

/// One line of shell assignments.
fn field(said: &str, name: &str) -> io::Result<String> {
    let line = said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let value = line.map(|value| value.trim_matches('\'').to_owned());
    value.ok_or_else(|| io::Error::other(format!("acquire does not say {name}")))
}

fn show_output(said: &str) -> io::Result<()> {
    said.lines().try_for_each(|line| say(&format!("{}\n", format!("  {line}").trim_end())))
}

fn say(text: &str) -> io::Result<()> {
    stdout::deliver(text)
}

/// The command of the second client, Bob.
const WAITER: &str = "echo Bob holds $DLOCK_KEY with fence $DLOCK_FENCE";

const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for a machine that is busy with a build.
const NODE_TIMEOUT: &str = "20s";

const PAUSE: Duration = Duration::from_millis(20);
