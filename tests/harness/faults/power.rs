//! A disk that forgets in a power cut what was not synced: the content of files without fsync, and the
//! entries of folders without fsync. It can also flip a bit, as a worn disk does.
//!
//! Folder and file are forgotten or kept one by one, at random, as a file system writes back in any order.
//! The disk is mounted with FUSE in a mount namespace of the test's thread, so it takes root, and goes with
//! the test.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rand::seq::IteratorRandom;
use rand::{Rng, RngExt};

use crate::builder::Builder;
use crate::server::Server;

impl Builder {
    /// Keeps all its files on a disk that forgets: see [`Server::cut_power`]. Only threads that the calling thread
    /// starts from now on see the disk.
    #[track_caller]
    pub fn on_forgetful_disk(mut self) -> Builder {
        OWN_MOUNTS.with(|own| *own.get_or_init(|| own_mounts().expect("it takes root")));
        self.forgets = true;
        self.config(&format!("dir {FOLDER}"))
    }
}

impl Server {
    /// Kills it, and lets its disk forget what was not synced.
    #[track_caller]
    pub fn cut_power(&mut self, rng: &mut impl Rng) {
        self.kill();
        let disk = self.power.as_mut().expect("on_forgetful_disk");
        disk.cut(rng).expect("the disk can be mounted again");
    }

    /// Flips a bit of a file on the disk of a stopped server. `None`: there is no file.
    pub fn flip_bit(&mut self, rng: &mut impl Rng) -> Option<PathBuf> {
        let files = fs::read_dir(self.folder().join(FOLDER)).expect("it is a folder");
        let files = files.map(|file| file.expect("it can be read").path());
        let file =
            files.filter(|file| file.metadata().is_ok_and(|data| data.is_file() && data.len() > 0));
        let file = file.choose(rng)?;
        let mut bytes = fs::read(&file).expect("it can be read");
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        fs::write(&file, bytes).expect("it can be written");
        Some(file)
    }

    /// Removes all its files, as an operator does with a damaged disk.
    pub fn empty_disk(&mut self) {
        let disk = self.power.as_mut().expect("on_forgetful_disk");
        disk.start_with(Files::empty()).expect("the disk can be mounted again");
    }
}

/// The disk's folder in the server's folder.
const FOLDER: &str = "disk";

/// A mounted disk.
pub(crate) struct Disk {
    path: PathBuf,
    files: Shared,
    session: Option<BackgroundSession>,
}

impl Disk {
    /// Mounts an empty one in a server's folder.
    pub(crate) fn mount(folder: &Path) -> io::Result<Disk> {
        let path = folder.join(FOLDER);
        fs::create_dir(&path)?;
        let files = Shared(Arc::new(Mutex::new(Files::empty())));
        let session = Some(fuser::spawn_mount(files.clone(), &path, &Config::default())?);
        Ok(Disk { path, files, session })
    }

    /// Cuts the power. A child of the server may still write: to the former disk.
    fn cut(&mut self, rng: &mut impl Rng) -> io::Result<()> {
        let kept = self.files.lock().after_a_cut(rng);
        self.start_with(kept)
    }

    fn start_with(&mut self, files: Files) -> io::Result<()> {
        self.unmount()?;
        self.files = Shared(Arc::new(Mutex::new(files)));
        self.session =
            Some(fuser::spawn_mount(self.files.clone(), &self.path, &Config::default())?);
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        umount2(&self.path, MntFlags::MNT_DETACH)?;
        self.session = None;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The namespace ends with the test.
        let _ = self.unmount();
    }
}

thread_local! {
    static OWN_MOUNTS: OnceCell<()> = const { OnceCell::new() };
}

/// Gives this thread, and the threads and processes that it starts, mounts of their own.
fn own_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    Ok(mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?)
}

/// All files and folders of a disk, by number.
struct Files {
    nodes: BTreeMap<u64, Inode>,
    last: u64,
}

#[derive(Clone)]
struct Inode {
    now: Content,
    synced: Content,
    mode: u16,
}

#[derive(Clone)]
enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, u64>),
}

type Outcome<T> = Result<T, Errno>;

impl Files {
    fn empty() -> Files {
        let mut files = Files { nodes: BTreeMap::new(), last: 0 };
        files.add(Content::Folder(BTreeMap::new()), 0o755);
        files
    }

    fn add(&mut self, empty: Content, mode: u32) -> u64 {
        self.last += 1;
        let inode = Inode { now: empty.clone(), synced: empty, mode: (mode & 0o7777) as u16 };
        self.nodes.insert(self.last, inode);
        self.last
    }

    /// The files after a power cut: each file and folder is as it was synced, or as it was.
    fn after_a_cut(&self, rng: &mut impl Rng) -> Files {
        let nodes = self.nodes.iter().map(|(number, inode)| {
            let kept = if rng.random_ratio(3, 4) { &inode.synced } else { &inode.now };
            (*number, Inode { now: kept.clone(), synced: kept.clone(), mode: inode.mode })
        });
        Files { nodes: nodes.collect(), last: self.last }
    }

    fn inode(&mut self, number: INodeNo) -> Outcome<&mut Inode> {
        self.nodes.get_mut(&number.0).ok_or(Errno::ENOENT)
    }

    fn folder(&mut self, number: INodeNo) -> Outcome<&mut BTreeMap<OsString, u64>> {
        match &mut self.inode(number)?.now {
            Content::Folder(entries) => Ok(entries),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    fn file(&mut self, number: INodeNo) -> Outcome<&mut Vec<u8>> {
        match &mut self.inode(number)?.now {
            Content::File(bytes) => Ok(bytes),
            Content::Folder(_) => Err(Errno::EISDIR),
        }
    }

    fn look_up(&mut self, parent: INodeNo, name: &OsStr) -> Outcome<FileAttr> {
        let number = *self.folder(parent)?.get(name).ok_or(Errno::ENOENT)?;
        self.attributes(INodeNo(number))
    }

    fn attributes(&mut self, number: INodeNo) -> Outcome<FileAttr> {
        let inode = self.inode(number)?;
        let (kind, size) = match &inode.now {
            Content::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Content::Folder(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: inode.mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn make(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        empty: Content,
        mode: u32,
    ) -> Outcome<FileAttr> {
        let number = self.add(empty, mode);
        self.folder(parent)?.insert(name.to_owned(), number);
        self.attributes(INodeNo(number))
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Outcome<()> {
        self.folder(parent)?.remove(name).map(drop).ok_or(Errno::ENOENT)
    }

    fn rename(&mut self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Outcome<()> {
        let number = self.folder(from.0)?.remove(from.1).ok_or(Errno::ENOENT)?;
        self.folder(to.0)?.insert(to.1.to_owned(), number);
        Ok(())
    }

    fn resize(
        &mut self,
        number: INodeNo,
        size: Option<u64>,
        mode: Option<u32>,
    ) -> Outcome<FileAttr> {
        if let Some(size) = size {
            self.file(number)?.resize(size as usize, 0);
        }
        if let Some(mode) = mode {
            self.inode(number)?.mode = (mode & 0o7777) as u16;
        }
        self.attributes(number)
    }

    fn write(&mut self, number: INodeNo, offset: u64, data: &[u8]) -> Outcome<u32> {
        let bytes = self.file(number)?;
        let (from, to) = (offset as usize, offset as usize + data.len());
        bytes.resize(bytes.len().max(to), 0);
        bytes[from..to].copy_from_slice(data);
        Ok(data.len() as u32)
    }

    fn sync(&mut self, number: INodeNo) -> Outcome<()> {
        let inode = self.inode(number)?;
        inode.synced = inode.now.clone();
        Ok(())
    }
}

/// The files, as the kernel asks for them.
#[derive(Clone)]
struct Shared(Arc<Mutex<Files>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Nothing else changes the files, so the kernel may cache attributes.
const REMEMBERED: Duration = Duration::from_secs(60);
const GENERATION: Generation = Generation(0);
const NO_HANDLE: FileHandle = FileHandle(0);

/// Sends the outcome of a request.
macro_rules! answer {
    ($reply:ident, $outcome:expr, $value:pat => $sent:expr) => {
        match $outcome {
            Ok($value) => $sent,
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for Shared {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.lock().look_up(parent, name);
        answer!(reply, found, data => reply.entry(&REMEMBERED, &data, GENERATION));
    }

    fn getattr(&self, _: &Request, file: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.lock().attributes(file);
        answer!(reply, found, data => reply.attr(&REMEMBERED, &data));
    }

    fn setattr(
        &self,
        _: &Request,
        file: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.lock().resize(file, size, mode);
        answer!(reply, changed, data => reply.attr(&REMEMBERED, &data));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.lock().make(parent, name, Content::Folder(BTreeMap::new()), mode);
        answer!(reply, made, data => reply.entry(&REMEMBERED, &data, GENERATION));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.lock().make(parent, name, Content::File(Vec::new()), mode);
        let flags = FopenFlags::empty();
        answer!(reply, made, data => reply.created(&REMEMBERED, &data, GENERATION, NO_HANDLE, flags));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.lock().remove(parent, name), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.lock().remove(parent, name), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.lock().rename((parent, name), (to, new)), () => reply.ok());
    }

    fn read(
        &self,
        _: &Request,
        file: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut files = self.lock();
        answer!(reply, files.file(file), bytes => {
            let from = bytes.len().min(offset as usize);
            let to = bytes.len().min(from + size as usize);
            reply.data(&bytes[from..to]);
        });
    }

    fn write(
        &self,
        _: &Request,
        file: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.lock().write(file, offset, data), size => reply.written(size));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, file: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.lock().sync(file), () => reply.ok());
    }

    fn fsyncdir(&self, _: &Request, folder: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.lock().sync(folder), () => reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut files = self.lock();
        let entries = match files.folder(folder) {
            Ok(entries) => entries.clone(),
            Err(error) => return reply.error(error),
        };
        for (place, (name, number)) in (1..).zip(&entries).skip(offset as usize) {
            let kind = match files.nodes.get(number).map(|inode| &inode.now) {
                Some(Content::Folder(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(*number), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
