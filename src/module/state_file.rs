//! The state file on disk: one writer, and never half a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use dlock_core::Record;
use dlock_core::record::{MAX_LENGTH, Unreadable};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// The file, kept from other servers.
pub struct StateFile {
    path: PathBuf,
    /// Beside the file: the file itself is another one after each write. The lock is a POSIX
    /// record lock, which a forked child that saves the data set does not inherit.
    _lock: File,
}

impl StateFile {
    /// Takes the file, and reads what it says; `None`: there is no such file yet.
    ///
    /// # Errors
    /// What is wrong and what to do about it, for the operator.
    pub fn open(path: &Path) -> Result<(StateFile, Option<Record>), String> {
        let path = absolute(path)?;
        let lock = lock(&path)?;
        let record = read(&path)?;
        Ok((StateFile { path, _lock: lock }, record))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it whole. When this returns it is on the disk; after a failure it says either this
    /// or what it said before.
    ///
    /// # Errors
    /// What could not be done, and why.
    pub fn write(&self, record: &str) -> Result<(), String> {
        let temporary = beside(&self.path, ".tmp");
        let written = self.replace(&temporary, record);
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn replace(&self, temporary: &Path, record: &str) -> Result<(), String> {
        let file = File::create(temporary);
        let written = file.and_then(|mut file| {
            file.write_all(record.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| format!("cannot write {}: {error}", temporary.display()))?;
        let path = &self.path;
        let renamed = fs::rename(temporary, path);
        renamed.map_err(|error| format!("cannot replace {}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| format!("cannot sync the folder {}: {error}", folder.display()))
    }
}

/// The path from the root on, because the server's working folder can be changed.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    let Some(name) = path.file_name() else {
        return Err(format!(
            "dlock.state-file {} is not the name of a file; give one, or \"\" for none",
            path.display()
        ));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let found = folder.canonicalize();
    found.map(|folder| folder.join(name)).map_err(|error| {
        format!(
            "the folder of the state file {} cannot be used: {error}; make it, or set \
             dlock.state-file to a file elsewhere",
            std::path::absolute(path).unwrap_or(path.to_owned()).display()
        )
    })
}

/// Keeps other servers off, for as long as the file is open.
fn lock(path: &Path) -> Result<File, String> {
    let lock_path = beside(path, ".lock");
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = open.open(&lock_path).map_err(|error| {
        unwritable(path, &format!("cannot open {}: {error}", lock_path.display()))
    })?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // For the message of a server that finds it locked. Nothing depends on it.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let mut owner = String::new();
            let known = file.take(20).read_to_string(&mut owner).is_ok() && !owner.is_empty();
            let owner =
                if known { format!("process {}", owner.trim()) } else { "another one".to_owned() };
            Err(format!(
                "the state file {} belongs to a server that is running ({owner}); two servers \
                 must not share one: set dlock.state-file to another file",
                path.display()
            ))
        }
        Err(error) => Err(unwritable(path, &error)),
    }
}

fn read(path: &Path) -> Result<Option<Record>, String> {
    // To open a pipe would take for ever.
    if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
        return Err(format!(
            "the state file {} is not a plain file; set dlock.state-file to a file elsewhere",
            path.display()
        ));
    }
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!(
                "the state file {} cannot be read: {error}; {}",
                path.display(),
                WHAT_TO_DO
            ));
        }
    };
    let record = Record::decode(&bytes);
    record.map(Some).map_err(|why| {
        let what_to_do = match why {
            Unreadable::Version(_) => "start that dlock. If there was none, the file is damaged: ",
            Unreadable::Damaged => "",
        };
        format!("the state file {} {why}; {what_to_do}{WHAT_TO_DO}", path.display())
    })
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A longer file is no state file, whatever it says.
    File::open(path)?.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What an operator can do about a file that cannot be used.
const WHAT_TO_DO: &str = "it says which fences this node has handed out, so the node does not \
                          start without it. Put back what was there. If that is gone: move the \
                          file away, and set dlock.quarantine to the longest lease in use for the \
                          next start; fences go on from the clock then";

pub fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "the state file {} cannot be written: {error}; see to it that its folder can be written \
         and has room, or set dlock.state-file to a file elsewhere",
        path.display()
    )
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
