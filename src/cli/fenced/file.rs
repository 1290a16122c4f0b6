//! Data in files.
//!
//! The mark is a number in a file, of constant width, so that it is overwritten in place. A process locks the
//! file, compares and writes the mark, and runs its program. The lock ends when dlock and the program have ended,
//! and all that has inherited the file from it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::mem;
use std::path::Path;

use dlock_client::Late;
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::syncfs;

use crate::run::child::Start;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::signals;

/// Runs the program under a lock on the mark's file, unless a later holder has been there.
pub fn run(
    path: &Path,
    fence: u64,
    command: Vec<OsString>,
    as_json: bool,
) -> Result<Exit, Failure> {
    let broken = |error: io::Error| {
        Failure::internal(&format_args!("cannot use the mark {}: {error}", path.display()))
    };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(broken)?;
    let mut mark =
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| broken(error.into()))?;
    match read(&mut mark).map_err(broken)? {
        Some(seen) if fence < seen => return Err(Failure::new(Kind::Lost, Late::Stale { seen })),
        Some(seen) if fence == seen => {}
        _ => write(&mut mark, fence).map_err(broken)?,
    }
    // Syncs an unchanged mark, too: an earlier try may have written it and failed to sync.
    sync(&mark, path).map_err(broken)?;
    if command.is_empty() {
        return Ok(Exit::OK);
    }
    // The file lock lasts as long as the file is open anywhere. It is open in the program, because dlock may be
    // killed, and here, because the program may close inherited files.
    fcntl(&*mark, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| broken(error.into()))?;
    // Dropping it would unlock the file for every process that has it open.
    mem::forget(mark);
    signals::do_not_ignore_children().map_err(broken)?;
    let start = Start {
        command,
        environment: Vec::new(),
        takes_terminal: false,
        if_dlock_dies: Signal::SIGTERM,
        as_json,
    };
    start.status().map(Exit::of)
}

/// Reads the largest fence so far; `None`: the file is new.
fn read(file: &mut File) -> io::Result<Option<u64>> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let fence = text.strip_suffix('\n').and_then(|digits| digits.parse().ok());
    let wrong = || io::Error::new(ErrorKind::InvalidData, "it has other data than a mark of dlock");
    fence.map(Some).ok_or_else(wrong)
}

fn write(file: &mut File, fence: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    // One call: a mark that is cut short cannot be read.
    file.write_all(format!("{fence:0WIDTH$}\n").as_bytes())
}

/// Syncs the file and its folder.
fn sync(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))) {
        // A folder that may not be read is synced with its file system.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(syncfs(file)?),
        folder => folder?.sync_all(),
    }
}

const WIDTH: usize = 16;
/// Limit of bytes to read; a mark is shorter.
const LONGEST: u64 = 64;
