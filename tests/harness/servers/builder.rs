//! The builder of a server: its kind, its configuration, and how it is started.

use std::path::{Path, PathBuf};

use crate::kind::Kind;
use crate::server::Server;
use crate::{module_file, ports};

/// A server that is still to be started.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) kind: Kind,
    pub(crate) module: Option<PathBuf>,
    pub(crate) is_new: bool,
    pub(crate) config: Vec<String>,
    pub(crate) moves_wall_clock: bool,
    pub(crate) faster: i64,
    pub(crate) forgets: bool,
    pub(crate) wrapper: Vec<String>,
}

impl Builder {
    /// A server with the module and nothing special.
    pub(crate) fn new(kind: Kind) -> Builder {
        Builder {
            kind,
            module: Some(module_file::path().to_owned()),
            is_new: true,
            config: Vec::new(),
            moves_wall_clock: false,
            faster: 0,
            forgets: false,
            wrapper: Vec::new(),
        }
    }

    /// Leaves the module out.
    pub fn without_module(mut self) -> Builder {
        self.module = None;
        self
    }

    /// Does not tell the server that it has never granted a lock before.
    pub fn as_it_comes(mut self) -> Builder {
        self.is_new = false;
        self
    }

    /// Adds a line to the configuration file.
    pub fn config(mut self, line: &str) -> Builder {
        self.config.push(line.to_owned());
        self
    }

    /// Keeps an append-only file, written with every command.
    pub fn append_only(self) -> Builder {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Has another module, which calls commands for clients and listens to events: tests/caller.
    pub fn with_caller(self) -> Builder {
        self.config(&format!("loadmodule {}", module_file::caller().display()))
    }

    /// A replica of another server.
    pub fn replica_of(self, primary: &Server) -> Builder {
        self.config(&format!("replicaof 127.0.0.1 {}", primary.port()))
    }

    /// A node of a cluster, still without slots and without other nodes.
    pub fn cluster(self) -> Builder {
        self.config("cluster-enabled yes").config("cluster-node-timeout 2000")
    }

    /// Lets the test set the wall clock of this server: see [`Server::set_wall_clock`].
    pub fn with_movable_wall_clock(mut self) -> Builder {
        self.moves_wall_clock = true;
        self
    }

    /// Lets its monotonic clock run faster by this many millionths. Valkey reads the processor's counter instead, and
    /// does not notice.
    pub fn with_faster_clock(mut self, millionths: i64) -> Builder {
        self.faster = millionths;
        self.with_movable_wall_clock()
    }

    /// Starts it through a command, which gets the server's as its last arguments. It runs in the server's
    /// folder and has to become the server in the end, with `exec`, so that both are one process.
    pub fn through(mut self, wrapper: &[&str]) -> Builder {
        self.wrapper.extend(wrapper.iter().map(|word| word.to_string()));
        self
    }

    /// Starts it, and waits until it answers.
    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts it. If it ends at once, returns the exit status and the log.
    pub fn try_start(self) -> Result<Server, String> {
        loop {
            let started = Server::new(self.clone(), ports::free());
            match started {
                // Another program took the port in the meantime.
                Err(log) if log.contains("Address already in use") => continue,
                other => return other,
            }
        }
    }

    /// Its configuration file.
    pub(crate) fn config_text(&self, folder: &Path, port: u16) -> String {
        let mut lines = vec![DEFAULTS.to_owned(), format!("port {port}")];
        lines.push(format!("dir {}", folder.display()));
        lines.extend(self.kind.to_follow_at_once().iter().map(|line| line.to_string()));
        if let Some(module) = &self.module {
            lines.push(format!("loadmodule {}", module.display()));
            lines.extend(self.is_new.then(|| "dlock.newborn-quarantine 0".to_owned()));
        }
        lines.extend(self.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// The configuration of every server here: no files unless a test asks for them, and all that a test may
/// need.
const DEFAULTS: &str = r#"
bind 127.0.0.1
save ""
enable-debug-command yes
enable-module-command yes
repl-diskless-sync-delay 0
"#;
