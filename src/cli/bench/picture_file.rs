//! The file of `--plot`: whether it can be written is known before the load, and there is never
//! half of it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use dlock_client::Token;

use crate::say::failure::Failure;

/// A file that will be written, or not at all.
#[derive(Debug)]
pub struct PictureFile {
    path: PathBuf,
    /// Beside it, on the same disk. Gone when this is dropped.
    draft: PathBuf,
}

impl PictureFile {
    /// Makes sure that it can be written, and changes nothing about it.
    pub fn prepare(path: &Path) -> Result<PictureFile, Failure> {
        let refuse = |why: &dyn std::fmt::Display| {
            Failure::usage(format_args!("--plot {}: {why}", path.display()))
        };
        // A link stays a link.
        let path = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(_) => path.to_owned(),
        };
        let older = fs::metadata(&path).ok();
        if let Some(found) = &older {
            if !found.is_file() {
                return Err(refuse(&"it is there, and is no file"));
            }
            File::options().append(true).open(&path).map_err(|error| refuse(&error))?;
        }
        let Some(name) = path.file_name() else { return Err(refuse(&"it has no name")) };
        let mut draft = name.to_owned();
        draft.push(format!(".{}.part", &Token::random().as_str()[..8]));
        let draft = path.with_file_name(draft);
        File::create_new(&draft).map_err(|error| refuse(&error))?;
        let file = PictureFile { path, draft };
        // Who may read it does not change by a new picture.
        if let Some(older) = older {
            fs::set_permissions(&file.draft, older.permissions())
                .map_err(|error| refuse(&error))?;
        }
        Ok(file)
    }

    /// Writes all of it, in place of what was there.
    pub fn write(self, picture: &str) -> Result<(), Failure> {
        let written = File::create(&self.draft).and_then(|mut file| {
            file.write_all(picture.as_bytes())?;
            file.sync_all()?;
            fs::rename(&self.draft, &self.path)
        });
        written
            .map_err(|error| Failure::internal(&format_args!("{}: {error}", self.path.display())))
    }
}

impl Drop for PictureFile {
    fn drop(&mut self) {
        // Not there any more if it was written.
        let _ = fs::remove_file(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder that is gone in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn make() -> Folder {
            let path = std::env::temp_dir().join(format!("dlock-{}", Token::random()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn count(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_written_at_once_or_not_at_all() {
        let folder = Folder::make();
        let path = folder.0.join("waits.svg");
        drop(PictureFile::prepare(&path).unwrap());
        assert_eq!(folder.count(), 0);
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let file = PictureFile::prepare(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(folder.count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let folder = Folder::make();
        for path in ["/dev/null", "/dev/null/x.svg", "/", ".."] {
            assert!(PictureFile::prepare(Path::new(path)).is_err(), "{path}");
        }
        assert!(PictureFile::prepare(&folder.0).is_err());
        assert!(PictureFile::prepare(&folder.0.join("none/x.svg")).is_err());
        assert_eq!(folder.count(), 0);
    }
}
