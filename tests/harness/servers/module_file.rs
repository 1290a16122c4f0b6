//! The module's file. A test of an outdated module would prove nothing, so a module that is missing or older
//! than its sources is refused. The same holds for the program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The module: `release/libdlock.so` in the target folder of this build, or DLOCK_MODULE.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("DLOCK_MODULE") {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "DLOCK_MODULE: no file {}", path.display());
            path
        }
        None => built("libdlock.so"),
    })
}

/// The module that calls the other one: `libcaller.so` beside it.
pub fn caller() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let release = path().parent().expect("a file is in a folder");
        checked(release.join("libcaller.so"))
    })
}

/// A file of the release build.
pub(crate) fn built(name: &str) -> PathBuf {
    checked(target_folder().join("release").join(name))
}

fn checked(file: PathBuf) -> PathBuf {
    assert!(file.is_file(), "{} is missing: run `make test`", file.display());
    let built = modified(&file);
    for source in sources(&file.with_extension("d")) {
        assert!(
            modified(&source) <= built,
            "{} is older than {}: run `make build`",
            file.display(),
            source.display()
        );
    }
    file
}

/// The folder above the running test with cargo's file about its compiler. (A folder that was there before,
/// such as that of `make python`, has no CACHEDIR.TAG.)
fn target_folder() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let marked = test.ancestors().find(|folder| folder.join(".rustc_info.json").exists());
    marked.expect("a test runs inside cargo's target folder").to_path_buf()
}

/// The source files of the module, as cargo lists them beside it, in make's syntax.
fn sources(list: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(list)
        .unwrap_or_else(|error| panic!("{}: {error}: run `make build`", list.display()));
    let (_, sources) =
        text.split_once(": ").unwrap_or_else(|| panic!("{} lists no sources", list.display()));
    sources
        .replace("\\ ", "\0")
        .split_whitespace()
        .map(|path| PathBuf::from(path.replace('\0', " ")))
        .collect()
}

fn modified(path: &Path) -> SystemTime {
    let metadata = fs::metadata(path).and_then(|metadata| metadata.modified());
    metadata.unwrap_or_else(|error| panic!("{}: {error}: run `make build`", path.display()))
}
