//! The pictures of docs/monitoring.md: `dlock top` and the page of `dlock exporter`, both looking at three
//! nodes with some work. `make pictures` runs this.
//!
//! [`work`]: who holds and who waits. [`terminal`]: a screen as SVG.

mod terminal;
mod work;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use harness::browser::{Browser, Scheme};
use harness::exporter::Exporter;
use harness::tmux::Tmux;
use harness::{ports, program};

use work::Work;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let work = Work::start();
    let mut command = program::command(&work.nodes());
    command.env("DLOCK", program::path()).env("NO_COLOR", "");
    let terminal = Tmux::start(TERMINAL, &command, "exec $DLOCK top");
    let listen = format!("127.0.0.1:{}", ports::free());
    let exporter = Exporter::start(&work.nodes(), &["--meta", "--listen", &listen]);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}", exporter.at), WINDOW, Scheme::Light);
    browser.until_it_shows("report:nightly");
    terminal.until_it_shows("report:nightly");
    // Until the bars of `dlock top` are whole.
    thread::sleep(LONG_ENOUGH);
    let picture = terminal::picture(&terminal.painted(), TERMINAL);
    fs::write(folder.join("top.svg"), picture).expect("there is room");
    fs::write(folder.join("page.png"), browser.picture()).expect("there is room");
}

const TERMINAL: (u16, u16) = (100, 16);
const WINDOW: (u32, u32) = (1000, 600);
const LONG_ENOUGH: Duration = Duration::from_secs(15);
