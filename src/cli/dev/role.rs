//! The role of a server, and its settings.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// The role of a server.
pub enum Role {
    /// A node by itself, or a primary.
    Node,
    /// A replica of the primary at this port.
    Replica { of: u16 },
    /// A member of a cluster.
    Member,
    /// A Sentinel that watches the primary at this port.
    Sentinel { of: u16 },
}

/// Name of the primary among its Sentinels.
pub const NAME: &str = "dev";

impl Role {
    /// The second port that it needs.
    pub fn bus(&self, port: u16) -> Option<u16> {
        match self {
            Role::Member => Some(port.saturating_add(BUS)),
            _ => None,
        }
    }

    /// Writes what it reads when it starts.
    pub fn prepare(&self, folder: &Path, port: u16) -> io::Result<()> {
        let Role::Sentinel { of } = self else { return Ok(()) };
        let config = format!(
            "bind 127.0.0.1\nport {port}\ndir \"{}\"\n\
             sentinel monitor {NAME} 127.0.0.1 {of} 2\n\
             sentinel down-after-milliseconds {NAME} 1000\n\
             sentinel failover-timeout {NAME} 5000\n",
            folder.display()
        );
        fs::write(folder.join(SENTINEL), config)
    }

    /// Returns the arguments of the server.
    pub fn arguments(&self, module: &Path, folder: &Path, port: u16) -> Vec<OsString> {
        let (port, of): (String, Option<u16>) = match self {
            Role::Sentinel { .. } => {
                return vec![folder.join(SENTINEL).into(), "--sentinel".into()];
            }
            Role::Replica { of } => (port.to_string(), Some(*of)),
            Role::Node | Role::Member => (port.to_string(), None),
        };
        let mut words: Vec<OsString> = Vec::new();
        words.extend(["--port", &port, "--bind", "127.0.0.1", "--save", ""].map(OsString::from));
        words.extend(LOG.map(OsString::from));
        words.extend(["--dir".into(), folder.into(), "--loadmodule".into(), module.into()]);
        words.extend(NEW.map(OsString::from));
        if let Some(of) = of {
            let of = of.to_string();
            words.extend(["--replicaof", "127.0.0.1", &of].map(OsString::from));
        }
        if let Role::Member = self {
            words.extend(MEMBER.map(OsString::from));
        }
        words
    }
}

const SENTINEL: &str = "sentinel.conf";
const LOG: [&str; 2] = ["--appendonly", "yes"];
/// A node that has never granted a lock, and lost none.
const NEW: [&str; 2] = ["--dlock.newborn-quarantine", "0"];
const MEMBER: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
/// Distance of a cluster member's bus port from its port.
const BUS: u16 = 10_000;
