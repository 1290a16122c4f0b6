//! The text about a holder: `host=web1 pid=4711 user=backup cmd=nightly.sh`.

use std::ffi::OsStr;
use std::path::Path;

use nix::unistd::{Uid, User, gethostname};

/// `name=value`, as `--meta` takes it.
pub type Meta = (String, String);

/// Parses the value of `--meta`.
pub fn parse(text: &str) -> Result<Meta, String> {
    match text.split_once('=') {
        Some((name, _)) if name.is_empty() || name.contains(char::is_whitespace) => {
            Err("the name before = must be one word".to_owned())
        }
        Some((name, value)) => Ok(meta(name, value)),
        None => Err("expected name=value".to_owned()),
    }
}

fn meta(name: &str, value: &str) -> Meta {
    (name.to_owned(), value.to_owned())
}

/// Returns the text about this holder. A name that the user gives replaces dlock's own.
pub fn text(pid: u32, program: Option<&OsStr>, given: &[Meta]) -> String {
    let known = [
        Some(meta("host", &gethostname().unwrap_or_default().to_string_lossy())),
        Some(meta("pid", &pid.to_string())),
        Some(meta("user", &user())),
        program.map(|program| meta("cmd", &name_of(program))),
    ];
    joined(known.into_iter().flatten(), given)
}

/// The last value of a name counts, in the place of the first.
fn joined(known: impl Iterator<Item = Meta>, given: &[Meta]) -> String {
    let mut all: Vec<Meta> = Vec::new();
    for (name, value) in known.chain(given.iter().cloned()) {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, other)) => *other = value,
            None => all.push((name, value)),
        }
    }
    let words: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.join(" ")
}

fn user() -> String {
    let uid = Uid::effective();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// The program without its folder and arguments, which may be secret, and shortened.
fn name_of(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    name.to_string_lossy().chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_a_name_and_a_value() {
        assert_eq!(parse("a=b"), Ok(meta("a", "b")));
        assert_eq!(parse("url=x?y=z"), Ok(meta("url", "x?y=z")));
        assert_eq!(parse("empty="), Ok(meta("empty", "")));
        for text in ["a", "=b", "a b=c"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_users_word_counts() {
        let known = [meta("host", "a"), meta("pid", "1")];
        let given = [meta("why", "x y"), meta("host", "b"), meta("why", "z")];
        assert_eq!(joined(known.into_iter(), &given), "host=b pid=1 why=z");
    }

    #[test]
    fn a_program_is_named_without_its_folder() {
        let text = text(7, Some(OsStr::new("/usr/bin/backup")), &[]);
        assert!(text.ends_with(" cmd=backup"), "{text}");
        assert!(text.contains(" pid=7 "), "{text}");
    }
}
