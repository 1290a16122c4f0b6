//! Finds the module and the server's program.

use std::env;
use std::path::{Path, PathBuf};

/// The module: the one that was named, or the nearest.
pub fn module(named: Option<&Path>) -> Result<PathBuf, String> {
    let candidates = match named {
        Some(path) => vec![path.to_owned()],
        None => module_places(),
    };
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display())),
        None => Err(format!(
            "no module found at {}\nbuild it with `make build`, or name it: --module PATH/libdlock.so",
            list(&candidates)
        )),
    }
}

/// The server's program. A link is not resolved: some programs depend on their name.
pub fn server(named: Option<&Path>) -> Result<PathBuf, String> {
    let candidates = match named {
        Some(path) if path.components().count() > 1 => vec![path.to_owned()],
        Some(name) => servers_called(&[name]),
        None => servers_called(&KNOWN.map(Path::new)),
    };
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => {
            std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
        }
        None if named.is_some() => Err(format!("no server found at {}", list(&candidates))),
        None => Err("no Redis or Valkey found: install redis-server (7.0 or later) or \
             valkey-server (7.2 or later),\nor name it: --server PATH/redis-server"
            .to_owned()),
    }
}

/// Places of the module: beside this program, in the release build beside a debug build, and in the folders of
/// distributions.
fn module_places() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    let mut places = vec![folder.join(MODULE)];
    if let Some(target) = folder.parent() {
        places.push(target.join("release").join(MODULE));
        places.push(target.join("lib/dlock").join(MODULE));
    }
    places.extend(LIBRARIES.iter().map(|folder| Path::new(folder).join(MODULE)));
    places.dedup();
    places
}

/// Programs with these names in PATH.
fn servers_called(names: &[&Path]) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path);
    folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).collect()
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}

const MODULE: &str = "libdlock.so";

const LIBRARIES: [&str; 4] =
    ["/usr/local/lib/dlock", "/usr/lib/dlock", "/usr/lib/redis/modules", "/usr/lib/valkey/modules"];

/// The names of servers, the preferred one first.
const KNOWN: [&str; 2] = ["redis-server", "valkey-server"];
