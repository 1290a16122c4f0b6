//! The terminal: entered, drawn on, and given back however this ends.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::draw;
use super::view::View;

/// What comes from the terminal.
pub enum Input {
    Key(KeyEvent),
    /// It has another size, say.
    Other,
}

/// The terminal, and who listens to it.
pub struct Screen {
    terminal: DefaultTerminal,
    inputs: UnboundedReceiver<Input>,
}

impl Screen {
    /// Takes the terminal. A panic gives it back.
    pub fn enter() -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        let (heard, inputs) = unbounded_channel();
        std::thread::Builder::new().name("dlock-keys".to_owned()).spawn(move || {
            // It ends soon after nobody listens any more.
            while !heard.is_closed() {
                let input = match event::poll(PATIENCE) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let input = match input {
                    Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
                    Ok(_) => Input::Other,
                    Err(_) => return,
                };
                if heard.send(input).is_err() {
                    return;
                }
            }
        })?;
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

/// Gives the terminal back.
pub fn leave() {
    ratatui::restore();
}

/// How long it may take to see that nobody listens any more.
const PATIENCE: Duration = Duration::from_millis(50);
