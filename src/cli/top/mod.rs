//! `dlock top`: the nodes, and the most contended locks, live in a terminal.
//!
//! [`view`]: the content, and the selection in it. [`keys`]: the effect of each key. [`draw`]: the screen.
//! [`screen`]: the terminal itself, restored at every end.

mod draw;
mod keys;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::time::{MissedTickBehavior, interval};
use unicode_width::UnicodeWidthStr;

use crate::global::Global;
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;
use crate::signals::{Signals, hold_off_stops};
use crate::watch::Watch;
use keys::Wish;
use screen::{Input, Screen};
use view::{Page, View};

/// Show the nodes and the most contended locks, live
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Print one frame as text, and end
    #[arg(long)]
    once: bool,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut watch = Watch::new(Nodes::of(global)?, HOT);
        if self.once {
            let mut view = View::default();
            // A rate takes two looks.
            view.see(watch.look().await);
            tokio::time::sleep(EVERY).await;
            view.see(watch.look().await);
            stdout::print(frame(&mut view)?)?;
            return Ok(Exit::OK);
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::usage("there is no terminal to draw on: --once prints one frame"));
        }
        let mut signals = Signals::listen()?;
        hold_off_stops(&[Signal::SIGTSTP]);
        let mut screen = Screen::enter()?;
        let mut view = View::default();
        let exit = tokio::select! {
            ended = show(&mut screen, &mut view, &mut watch) => ended.map(|()| Exit::OK),
            signal = signals.next_that_ends() => Ok(Exit::Signal(signal)),
        };
        screen::leave();
        Ok(exit?)
    }
}

/// Draws and reads keys until the user quits.
async fn show(screen: &mut Screen, view: &mut View, watch: &mut Watch) -> io::Result<()> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(view)?;
        let page = &view.page;
        let looks = async {
            ticks.tick().await;
            let look = watch.look().await;
            let answers = match page {
                Page::Lock { key, .. } => Some(watch.inspect(key).await),
                _ => None,
            };
            (look, answers)
        };
        // A key does not wait for a silent node.
        let input = tokio::select! {
            (look, inspected) = looks => {
                view.see(look);
                view.show(inspected);
                continue;
            }
            input = screen.input() => input,
        };
        let Some(Input::Key(key)) = input else {
            // The window has another size, or the terminal is gone.
            if input.is_none() {
                return Ok(());
            }
            continue;
        };
        match keys::pressed(view, key) {
            None => {}
            Some(Wish::Quit) => return Ok(()),
            Some(Wish::Look) => ticks.reset_immediately(),
        }
    }
}

/// One frame, as text.
fn frame(view: &mut View) -> Result<String, Failure> {
    let height = view.height_of_all();
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, height))
        .map_err(|error| Failure::internal(&error))?;
    terminal.draw(|frame| draw::all(frame, view)).map_err(|error| Failure::internal(&error))?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    // Without the last line, which explains keys.
    for row in 0..height.saturating_sub(1) {
        let (mut line, mut column) = (String::new(), 0);
        while let Some(cell) = buffer.cell((column, row)) {
            line.push_str(cell.symbol());
            // The cells behind a wide letter belong to it.
            column += u16::try_from(cell.symbol().width()).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text.trim_end().to_owned() + "\n")
}

/// Number of hot keys to show.
const HOT: usize = 40;
/// Interval of looks at the nodes.
const EVERY: Duration = Duration::from_secs(1);
/// Width of a printed frame.
const WIDTH: u16 = 100;

const NOTES: &str = "\
Keys: arrows or j and k select, Enter shows a lock with its queue, ? helps, Esc goes back, q quits.

It asks each node once a second for INFO, DLOCK.HOT and DLOCK.INSPECT of the keys that are shown, and \
never scans the keyspace. `dlock ls` lists all locks, and `dlock break` ends one. The user of the \
nodes needs no more than
  ACL SETUSER watch on >PASSWORD resetkeys %R~* -@all +info +dlock.hot +dlock.inspect
Colours are off if NO_COLOR is set.";
