//! `dlock bench`: measures the nodes that it is pointed at.
//!
//! In reading order: [`session`] runs the parts one after the other; the parts are [`cycle`],
//! [`quorum`] and [`contended`] (with its [`round`] and its [`tally`]), each of which makes
//! [`figures`]; [`show`] and [`json`] print them. [`time_box`] says when a part is over, [`progress`] how far
//! it is, [`greet`] who the nodes are, [`pause`] waits exactly, [`open_files`] makes sure beforehand that
//! nothing is missing in the end.

mod args;
mod contended;
mod cycle;
mod figures;
mod greet;
mod json;
mod open_files;
mod pause;
mod progress;
mod quorum;
mod round;
mod session;
mod show;
mod tally;
mod time_box;

use std::pin::pin;

use tokio::sync::watch;

use crate::global::Global;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stderr;
use crate::signals::Signals;
pub use args::Args;
use args::Part;
use session::Session;

impl Args {
    /// Measures, prints, and leaves nothing on the nodes.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        self.prepare(global)?;
        let mut signals = Signals::listen()?;
        let (stop, stopped) = watch::channel(false);
        let session = Session::new(&self, global, stopped)?;
        let mut measuring = pin!(session.measure());
        let signal = tokio::select! {
            end = &mut measuring => return end,
            signal = signals.next_that_ends() => signal,
        };
        stop.send_replace(true);
        // Whoever asks twice does not want to wait until everything is given back.
        tokio::select! {
            _ = measuring => {}
            _ = signals.next_that_ends() => {}
        }
        Ok(Exit::by(signal))
    }

    /// Whatever can be refused is refused before the load.
    fn prepare(&self, global: &Global) -> Result<(), Failure> {
        if !self.has(Part::Contended) {
            return Ok(());
        }
        open_files::allow(usize::from(self.clients), crate::nodes::urls(global)?.len())?;
        if let Some(warning) = self.round().warning() {
            stderr::warn("short_time", warning, global.json);
        }
        Ok(())
    }
}
