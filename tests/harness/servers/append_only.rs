//! The append-only log of a server, in its folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;

impl Server {
    /// The file that the server appends its commands to. There may be older ones beside it.
    #[track_caller]
    pub fn append_only_log(&self) -> PathBuf {
        let folder = self.folder().join("appendonlydir");
        let files = fs::read_dir(folder).expect("it keeps a log");
        let paths = files.map(|file| file.expect("a folder can be read").path());
        let newest = paths.max_by_key(|path| log_number(path));
        newest.filter(|path| log_number(path).is_some()).expect("it has begun its log")
    }

    /// Waits until a rewrite of the log that has begun, or is going to, is over.
    #[track_caller]
    pub fn until_log_is_rewritten(&self) {
        eventually("the log is rewritten", || {
            let state = self.info("persistence");
            assert_eq!(state["aof_last_bgrewrite_status"], "ok");
            state["aof_rewrite_in_progress"] == "0" && state["aof_rewrite_scheduled"] == "0"
        });
    }
}

/// The possible ends of a log: behind each whole command, but not within a transaction.
pub fn clean_ends(log: &[u8]) -> BTreeSet<usize> {
    let mut rest = Cursor::new(log);
    let mut ends = BTreeSet::from([0]);
    let mut in_transaction = false;
    while let Ok(command) = Value::read(&mut rest) {
        match command.items()[0].text().as_str() {
            "MULTI" => in_transaction = true,
            "EXEC" => in_transaction = false,
            _ => {}
        }
        if !in_transaction {
            ends.insert(rest.position() as usize);
        }
    }
    ends
}

/// The number of a file of commands, as in `appendonly.aof.3.incr.aof`.
fn log_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".incr.aof")?.rsplit_once('.')?.1.parse().ok()
}
