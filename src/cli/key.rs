//! The key of a subcommand's lock: any bytes, typed plainly or escaped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use dlock_client::Key;

use crate::say::bytes;
use crate::say::failure::Failure;

/// The lock, as an argument.
#[derive(Debug, clap::Args)]
pub struct KeyArg {
    /// The lock; after -- if it begins with -, as in `-- -key`
    #[arg(value_name = "KEY")]
    key: OsString,

    #[command(flatten)]
    escaped: Escaped,
}

/// The form of keys on the command line.
#[derive(Debug, clap::Args)]
pub struct Escaped {
    /// Read keys in the escaped form that `dlock ls` prints, as in \x00
    #[arg(long)]
    escaped: bool,
}

/// A key, and its form on the command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub key: Key,
    pub typed: OsString,
}

impl KeyArg {
    pub fn named(&self) -> Result<Named, Failure> {
        self.escaped.read(&self.key)
    }

    /// The key's form, which other arguments share.
    pub fn escaped(&self) -> &Escaped {
        &self.escaped
    }
}

impl Escaped {
    /// Reads a key that was typed in this form.
    pub fn read(&self, typed: &OsStr) -> Result<Named, Failure> {
        Ok(Named { key: self.bytes(typed)?.into(), typed: typed.to_owned() })
    }

    /// Reads the bytes of a word that was typed in this form.
    pub fn bytes(&self, typed: &OsStr) -> Result<Vec<u8>, Failure> {
        bytes::typed(typed.as_bytes(), self.escaped).map_err(Failure::usage)
    }
}
