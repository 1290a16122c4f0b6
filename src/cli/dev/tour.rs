//! Commands to try once the servers run.

use std::env;
use std::path::Path;

use super::server::Server;
use crate::say::shell::quoted;

/// Returns the commands, as text.
pub fn text(urls: &[String], servers: &[Server], program: &Path) -> String {
    let count = match urls.len() {
        1 => "One node is".to_owned(),
        count => format!("{count} nodes are"),
    };
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let path = path_line();
    let all = urls.join(",");
    let port = servers.first().map_or(0, |server| server.port);
    format!(
        "\
{count} ready ({name}): {all}

In another terminal, hold a lock while a command runs:

{path}  export DLOCK_NODES={all}
  dlock run job:42 -- sleep 60

In a third one, with the same DLOCK_NODES:

  dlock inspect job:42                    its holders and waiters
  dlock run -n job:42 -- echo mine        it is held: ends at once, with exit code 1
  dlock run job:42 -- echo mine           waits; try Ctrl-C in the other terminal
  dlock ls                                all locks
  dlock doctor                            whether the nodes are fit for it

One node by itself, from any client:

  redis-cli -p {port} DLOCK.ACQUIRE report alice 60000
  redis-cli -p {port} DLOCK.HELP

Ctrl-C here ends the nodes, and removes what they kept.

"
    )
}

/// The line that puts this program into a shell's PATH, if it is not there yet.
fn path_line() -> String {
    let (Ok(program), Some(path)) = (env::current_exe(), env::var_os("PATH")) else {
        return String::new();
    };
    let found = env::split_paths(&path).map(|folder| folder.join("dlock")).find(|at| at.is_file());
    let is_this = found.and_then(|at| at.canonicalize().ok()).is_some_and(|at| at == program);
    match program.parent() {
        Some(folder) if !is_this => {
            format!("  export PATH={}:$PATH\n", quoted(folder).display())
        }
        _ => String::new(),
    }
}
