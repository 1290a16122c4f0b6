//! `dlock top`: the nodes, and the locks that hurt most, live in a terminal.
//!
//! [`view`]: what is shown, and what is selected in it. [`keys`]: what each key does. [`draw`]: the
//! screen. [`screen`]: the terminal itself, which is given back however this ends.

mod draw;
mod keys;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::time::{MissedTickBehavior, interval};

use crate::global::Global;
use crate::locks::break_::holders;
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{duration, stdout};
use crate::signals::{Signals, stop_here};
use crate::watch::Watch;
use keys::Wish;
use screen::{Input, Screen};
use view::{Page, View};

/// Show the nodes and the locks that hurt most, live
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Print one frame as text, and end
    #[arg(long)]
    once: bool,

    /// Interval of looks at the nodes
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration::parse_positive)]
    every: Duration,

    /// Number of hot keys to show, those that hurt most
    #[arg(long, default_value_t = 40, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=128))]
    hot: u8,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut watch = Watch::new(Nodes::of(global)?, usize::from(self.hot));
        if self.once {
            let mut view = View::default();
            // A rate takes two looks.
            view.see(watch.look().await);
            tokio::time::sleep(self.every.min(Duration::from_secs(1))).await;
            view.see(watch.look().await);
            stdout::print(frame(&mut view)?)?;
            return Ok(Exit::OK);
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::usage("there is no terminal to draw on: --once prints one frame"));
        }
        let mut signals = Signals::listen()?;
        let screen = Screen::enter().map_err(|error| Failure::internal(&error))?;
        let every = self.every.max(SHORTEST);
        let ended = tokio::select! {
            ended = show(screen, watch, every) => ended.map(|()| Exit::OK),
            signal = signals.next_that_ends() => Ok(Exit::Signal(signal)),
        };
        screen::leave();
        ended.map_err(|error| Failure::internal(&error))
    }
}

/// Until the user has had enough.
async fn show(mut screen: Screen, mut watch: Watch, every: Duration) -> io::Result<()> {
    let mut view = View::default();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(&mut view)?;
        let input = tokio::select! {
            _ = ticks.tick() => {
                view.see(watch.look().await);
                refresh(&mut view, &mut watch).await;
                continue;
            }
            input = screen.input() => input,
        };
        let Some(Input::Key(key)) = input else {
            // The window has another size; or there is no terminal any more.
            if input.is_none() {
                return Ok(());
            }
            continue;
        };
        match keys::pressed(&mut view, key) {
            None => {}
            Some(Wish::Quit) => return Ok(()),
            Some(Wish::Stop) => {
                screen::leave();
                stop_here();
                screen.come_back()?;
            }
            Some(Wish::Look) => refresh(&mut view, &mut watch).await,
            Some(Wish::List) => view.list(watch.some_locks(view.filter.as_bytes()).await),
            Some(Wish::End) => end(&mut view, &mut watch).await,
        }
    }
}

/// The page of one lock, as it is now.
async fn refresh(view: &mut View, watch: &mut Watch) {
    if let Page::Lock { key, answers } = &mut view.page {
        *answers = watch.inspect(key).await;
        view.select(view.selected);
    }
}

/// Ends the lock of the page, if those hold it, or have left it done, who were shown.
async fn end(view: &mut View, watch: &mut Watch) {
    let Page::Lock { key, answers } = &view.page else { return };
    let (key, shown) = (key.clone(), holders(answers));
    let now = watch.inspect(&key).await;
    view.said = if holders(&now) == shown {
        let ended = watch.end(&key).await;
        view::outcome(&ended)
    } else {
        "the lock has changed hands meanwhile: look again".to_owned()
    };
    refresh(view, watch).await;
}

/// One frame, as text.
fn frame(view: &mut View) -> Result<String, Failure> {
    let height = view.height_of_all();
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, height))
        .map_err(|error| Failure::internal(&error))?;
    terminal.draw(|frame| draw::all(frame, view)).map_err(|error| Failure::internal(&error))?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    // Without the line that says what keys do.
    for row in 0..height.saturating_sub(1) {
        let cells = (0..WIDTH).filter_map(|column| buffer.cell((column, row)));
        let line: String = cells.map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text.trim_end().to_owned() + "\n")
}

/// Looking more often would cost the nodes more than a hundredth of a processor.
const SHORTEST: Duration = Duration::from_millis(500);
/// Width of a printed frame.
const WIDTH: u16 = 100;

const NOTES: &str = "\
Keys: arrows or j and k select, Enter shows a lock with its queue, s sorts by another column, / filters,
l lists some locks whether they hurt or not, b ends the lock that is shown (after a question), ? helps,
Esc goes back, q quits.

It asks each node once a second for INFO, DLOCK.HOT and DLOCK.INSPECT of the keys that are shown, and
never scans the keyspace by itself. The user of the nodes needs no more than
  ACL SETUSER watch on >PASSWORD resetkeys %R~* -@all +info +dlock.hot +dlock.inspect
and +scan to list locks, +dlock.break and ~* to end one. Colours are off if NO_COLOR is set.";
