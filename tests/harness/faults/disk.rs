//! A disk for one server alone: small enough to be filled, or read-only.
//!
//! The disk is mounted in a namespace of the server's own and goes with the process, so nothing is left
//! behind. Root may do that anywhere; other users where the system lets them have a user namespace.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::builder::Builder;
use crate::server::Server;

impl Builder {
    /// Keeps the state file on a disk of 64 KB, which [`Server::fill_disk`] fills.
    pub fn with_small_disk(self) -> Builder {
        self.with_mounts("mkdir -p disk; mount -t tmpfs -o size=64k,mode=700 tmpfs disk")
            .config("dlock.state-file disk/dlock.state")
    }

    /// Runs shell commands in the server's folder before it starts. Each has to succeed. Their mounts are
    /// visible to the server only.
    pub fn with_mounts(self, commands: &str) -> Builder {
        let script = format!("{commands}\nexec \"$0\" \"$@\"");
        let mut wrapper = vec!["unshare", "--mount"];
        if !geteuid().is_root() {
            wrapper.push("--map-root-user");
        }
        // The kernel forgets to kill a process together with its parent when its rights change.
        wrapper.extend(["setpriv", "--pdeathsig", "KILL", "sh", "-ec", &script]);
        self.through(&wrapper)
    }
}

impl Server {
    /// The disk of a server that was built with one, as the server sees it.
    #[track_caller]
    pub fn disk(&self) -> PathBuf {
        let folder = self.folder().strip_prefix("/").expect("the folder's path is absolute");
        let process = Path::new("/proc").join(self.process_id().to_string());
        process.join("root").join(folder).join("disk")
    }

    /// Fills its small disk to the last byte.
    #[track_caller]
    pub fn fill_disk(&self) {
        let mut filler = File::create(self.filler()).expect("its disk can be written");
        let written = loop {
            if let Err(error) = filler.write_all(&[0; 512]) {
                break error;
            }
        };
        assert_eq!(written.kind(), ErrorKind::StorageFull, "{written}");
    }

    /// Frees what [`Server::fill_disk`] took.
    #[track_caller]
    pub fn free_disk(&self) {
        fs::remove_file(self.filler()).expect("the disk was filled");
    }

    fn filler(&self) -> PathBuf {
        self.disk().join("filler")
    }
}
