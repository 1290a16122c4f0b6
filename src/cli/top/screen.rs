//! The terminal: taken, drawn on, and restored at every end.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Once;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::draw;
use super::view::View;

/// An event of the terminal.
pub enum Input {
    Key(KeyEvent),
    /// The terminal has another size, for example.
    Other,
}

/// The terminal, and its events.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    inputs: UnboundedReceiver<Input>,
}

impl Screen {
    /// Takes the terminal. A panic restores it, and so does an error here.
    pub fn enter() -> io::Result<Screen> {
        static ONCE: Once = Once::new();
        ONCE.call_once(leave_on_panic);
        let terminal = take()?;
        let (heard, inputs) = unbounded_channel();
        // This thread runs until the program ends: two listeners would take keys from each other.
        let listen = move || {
            while let Ok(event) = event::read() {
                let input = match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => Input::Key(key),
                    _ => Input::Other,
                };
                if heard.send(input).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("dlock-keys".to_owned())
            .spawn(listen)
            .inspect_err(|_| leave())?;
        Ok(Screen { terminal, inputs })
    }

    /// The next input; `None`: the terminal is gone.
    pub async fn input(&mut self) -> Option<Input> {
        self.inputs.recv().await
    }

    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        self.terminal.draw(|frame| draw::all(frame, view)).map(|_| ())
    }
}

fn take() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let take = || {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        Terminal::new(CrosstermBackend::new(stdout()))
    };
    take().inspect_err(|_| leave())
}

/// Restores the terminal and its cursor. Ignores errors: the terminal may be gone.
pub fn leave() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// Leaves the full screen on a panic, so that its message is seen on the usual one.
fn leave_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        leave();
        report(panic);
    }));
}
