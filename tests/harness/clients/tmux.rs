//! A program on a terminal whose screen the test can see: tmux draws it.

use std::process::{Child, Command};

use tempfile::TempDir;

use crate::process;
use crate::wait::eventually;

/// A terminal with one window. What runs in it ends with it.
pub struct Tmux {
    server: Child,
    folder: TempDir,
}

impl Tmux {
    /// A terminal of this many columns and rows, in which a shell runs a script with these variables.
    #[track_caller]
    pub fn start(size: (u16, u16), command: &Command, script: &str) -> Tmux {
        let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
        let mut server = Command::new("tmux");
        // tmux does not go into the background, so that it ends with the test.
        server.args(["-D", "-u", "-f", "/dev/null", "-S"]).arg(folder.path().join("tmux"));
        server.env("SHELL", "/bin/sh");
        let server =
            process::spawn(server).expect("tmux is missing: `make test-world` installs it");
        let tmux = Tmux { server, folder };
        eventually("tmux listens", || tmux.folder.path().join("tmux").exists());
        let mut words = vec!["new-session".to_owned(), "-d".to_owned()];
        words.extend(["-x".to_owned(), size.0.to_string(), "-y".to_owned(), size.1.to_string()]);
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in variables {
            let pair = format!("{}={}", name.to_string_lossy(), value.to_string_lossy());
            words.extend(["-e".to_owned(), pair]);
        }
        words.push(script.to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        tmux.tell(&words);
        tmux.tell(&["set-option", "-g", "remain-on-exit", "on"]);
        tmux
    }

    /// Presses keys, by the names that tmux gives them.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        self.tell(&[&["send-keys"], keys].concat());
    }

    /// Gives the window another size.
    #[track_caller]
    pub fn resize(&self, (columns, rows): (u16, u16)) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tell(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// The screen's content, as text.
    #[track_caller]
    pub fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// The same with its colours, as escape sequences.
    #[track_caller]
    pub fn painted(&self) -> String {
        self.tell(&["capture-pane", "-p", "-e"])
    }

    /// Something that tmux knows of the window, as in `#{alternate_on}`.
    #[track_caller]
    pub fn says(&self, what: &str) -> String {
        self.tell(&["display-message", "-p", what]).trim_end().to_owned()
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub fn until_it_shows(&self, text: &str) {
        eventually(&format!("the screen shows {text:?}"), || self.screen().contains(text));
    }

    #[track_caller]
    fn tell(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-u").arg("-S").arg(self.folder.path().join("tmux")).args(words);
        let output = tmux.output().expect("tmux is there");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "tmux {words:?}: {}", said(&output.stderr));
        said(&output.stdout)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The program in the window is told that its terminal is gone.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
