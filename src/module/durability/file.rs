//! The state file on disk: one writer, and never half a file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dlock_core::Record;
use dlock_core::durability::record::{MAX_LENGTH, Unreadable};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::io::Errno;

/// The file, kept from other servers.
pub struct StateFile {
    /// As it is configured, from the root on, because the server's working folder can be changed.
    named: PathBuf,
    /// Where it is, links followed: what is put in its place is made beside it, or a link to it
    /// would be replaced and not the file.
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
        let named = std::path::absolute(path).unwrap_or(path.to_owned());
        let path = follow(&named)?;
        if fs::symlink_metadata(&named).is_ok_and(|data| data.is_symlink()) && !path.exists() {
            return Err(format!(
                "the state file {} is a symbolic link that leads nowhere: {} is not there. Let it lead \
                 to the file; or set dlock.state-file to where the file is to be, and the first \
                 start makes it",
                named.display(),
                path.display()
            ));
        }
        let lock = lock(&path)?;
        let record = read(&path)?;
        Ok((StateFile { named, path, _lock: lock }, record))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The symbolic link that led there, if there is one.
    pub fn link(&self) -> Option<&Path> {
        let is_link = fs::symlink_metadata(&self.named).is_ok_and(|data| data.is_symlink());
        is_link.then_some(&self.named)
    }

    /// Writes it whole. When this returns it is on the disk; after a failure it says either this
    /// or what it said before.
    ///
    /// # Errors
    /// What could not be done, and why.
    pub fn write(&self, record: &str) -> Result<(), String> {
        // The next start would not find it.
        let target = follow(&self.named)?;
        if target != self.path {
            return Err(format!(
                "{} leads to {} now, and has led to {} since the server started: let it lead there \
                 again",
                self.named.display(),
                target.display(),
                self.path.display()
            ));
        }
        let temporary = beside(&self.path, ".tmp");
        let file = create(&temporary)
            .map_err(|error| format!("cannot write {}: {error}", temporary.display()))?;
        let written = self.replace(&temporary, file, record);
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn replace(&self, temporary: &Path, mut file: File, record: &str) -> Result<(), String> {
        let written = file.write_all(record.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| format!("cannot write {}: {error}", temporary.display()))?;
        let path = &self.path;
        let renamed = fs::rename(temporary, path);
        renamed.map_err(|error| format!("cannot replace {}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| format!("cannot sync the folder {}: {error}", folder.display()))
    }
}

/// Where a path leads, from the root on, though there may be no file yet.
fn follow(named: &Path) -> Result<PathBuf, String> {
    let mut path = absolute(named)?;
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        // What is relative is so to the link's folder.
        let target = path.parent().unwrap_or(Path::new("/")).join(target);
        path = absolute(&target)
            .map_err(|error| format!("{} is a symbolic link: {error}", named.display()))?;
    }
    Err(format!(
        "the state file {} is a symbolic link that leads nowhere: too many links; set \
         dlock.state-file to a file",
        named.display()
    ))
}

/// As many links in a row as Linux follows.
const MAX_LINKS: usize = 40;

/// The path from the root on.
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

/// A new file. A crash may have left one; anything else is nobody's to remove, and is not opened: to
/// open a pipe would take for ever.
fn create(path: &Path) -> io::Result<File> {
    if look_at(path)? {
        fs::remove_file(path)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Whether a plain file is there, and not nothing.
///
/// # Errors
/// Something else is there.
fn look_at(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_file() => Ok(true),
        Ok(data) => Err(io::Error::other(format!("it is {}, not a plain file", kind_of(&data)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn kind_of(data: &Metadata) -> &'static str {
    let kind = data.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Opens a plain file, and waits for nobody, whatever it has become since it was looked at.
fn open_plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    look_at(path)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let data = file.metadata()?;
    if data.is_file() { Ok(file) } else { Err(io::Error::other(kind_of(&data))) }
}

/// Keeps other servers off, for as long as the file is open.
fn lock(path: &Path) -> Result<File, String> {
    let lock_path = beside(path, ".lock");
    let mut options =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = open_plain(&lock_path, &mut options).map_err(|error| {
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
    if let Ok(data) = fs::symlink_metadata(path)
        && !data.is_file()
    {
        return Err(format!(
            "the state file {} is {}, not a plain file; set dlock.state-file to a file elsewhere",
            path.display(),
            kind_of(&data)
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
    open_plain(path, OpenOptions::new().read(true))?
        .take(MAX_LENGTH + 1)
        .read_to_end(&mut bytes)?;
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
