//! The state file on disk: one writer, and never half a file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dlock_core::Record;
use dlock_core::durability::record::{MAX_LENGTH, Unreadable};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

/// The state file, locked against other servers.
pub struct StateFile {
    /// The file's path from the root on, because the server's working directory can change.
    path: PathBuf,
    /// The lock file beside it: each write makes a new state file. The lock is a POSIX record lock, which a
    /// forked child that saves the data set does not inherit.
    _lock: File,
}

impl StateFile {
    /// Locks the file, and reads its record; `None`: there is no such file yet.
    ///
    /// # Errors
    /// Fails with the problem and the remedy, for the operator.
    pub fn open(path: &Path) -> Result<(StateFile, Option<Record>), String> {
        let path = absolute(path)?;
        let lock = lock(&path)?;
        let record = read(&path)?;
        Ok((StateFile { path, _lock: lock }, record))
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole file. On return it is on the disk; after a failure the file has either this record
    /// or the one before.
    ///
    /// # Errors
    /// Fails with the step that failed, and the reason.
    pub fn write(&self, record: &str) -> Result<(), String> {
        let temporary = beside(&self.path, ".tmp");
        let file = create(&temporary)
            .map_err(|error| format!("cannot write {}: {error}", temporary.display()))?;
        let written = self.replace(&temporary, file, record);
        if written.is_err() {
            // The temporary file may not exist.
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

/// The path from the root on.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).unwrap_or(path.to_owned());
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!(
            "dlock.state-file {} is no file name; set a file name, or \"\" for none",
            path.display()
        ));
    };
    match fs::metadata(folder) {
        Ok(_) => Ok(folder.join(name)),
        Err(error) => Err(format!(
            "the folder of the state file {} cannot be used: {error}; create it, or set \
             dlock.state-file to a file elsewhere",
            path.display()
        )),
    }
}

/// Creates a file. A crash may have left one. Any other file is not removed and not opened: opening a pipe
/// would block for ever.
fn create(path: &Path) -> io::Result<File> {
    if look_at(path)? {
        fs::remove_file(path)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// True if there is a plain file, false if there is none.
///
/// # Errors
/// Fails if there is anything else.
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

/// Opens a plain file without blocking, even if it was replaced since the check.
fn open_plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    look_at(path)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = options.custom_flags(flags.bits()).open(path)?;
    let data = file.metadata()?;
    if data.is_file() { Ok(file) } else { Err(io::Error::other(kind_of(&data))) }
}

/// Locks out other servers, for as long as the file is open.
fn lock(path: &Path) -> Result<File, String> {
    let lock_path = beside(path, ".lock");
    let mut options =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = open_plain(&lock_path, &mut options).map_err(|error| {
        unwritable(path, &format!("cannot open {}: {error}", lock_path.display()))
    })?;
    match fcntl(&file, FcntlArg::F_SETLK(&WHOLE)) {
        Ok(_) => {
            // The process id is for the error message of a server that finds the file locked. A failure is
            // harmless.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(Errno::EAGAIN | Errno::EACCES) => {
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

/// A lock for writing, of the whole file.
const WHOLE: libc::flock = libc::flock {
    l_type: libc::F_WRLCK as libc::c_short,
    l_whence: libc::SEEK_SET as libc::c_short,
    l_start: 0,
    l_len: 0,
    l_pid: 0,
};

fn read(path: &Path) -> Result<Option<Record>, String> {
    if let Ok(data) = fs::symlink_metadata(path)
        && !data.is_file()
    {
        return Err(format!(
            "the state file {} is {}, not a plain file; set dlock.state-file to a plain file",
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
    // A longer file is not a state file.
    open_plain(path, OpenOptions::new().read(true))?
        .take(MAX_LENGTH + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An operator's way out when the file cannot be used. An older copy would have older promises.
const WHAT_TO_DO: &str = "it holds the fences and leases that this node may have granted, so \
                          the node does not start without it. Use no older copy: move the file \
                          away, and start once with dlock.newborn-quarantine set to the longest \
                          lease in use";

pub fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "the state file {} cannot be written: {error}; make its folder writable, free space, or \
         set dlock.state-file to a file elsewhere",
        path.display()
    )
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
