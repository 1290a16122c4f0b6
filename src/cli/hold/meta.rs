//! The text about a holder: `host=web1 pid=4711 user=backup cmd=nightly.sh`.

use std::ffi::OsStr;
use std::path::Path;

use nix::unistd::{Uid, User, gethostname};

/// `name=value`, as `--meta` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    key: String,
    value: String,
}

/// Parses the value of `--meta`.
pub fn parse(text: &str) -> Result<Meta, String> {
    match text.split_once('=') {
        Some((key, _)) if key.is_empty() || key.contains(char::is_whitespace) => {
            Err("the name before = must be one word".to_owned())
        }
        Some((key, value)) => Ok(Meta::new(key, value)),
        None => Err("expected name=value".to_owned()),
    }
}

/// Returns the text about this holder. A name that the user gives replaces dlock's own.
pub fn text(pid: u32, program: Option<&OsStr>, given: &[Meta]) -> String {
    let known = [
        Some(Meta::new("host", &gethostname().unwrap_or_default().to_string_lossy())),
        Some(Meta::new("pid", &pid.to_string())),
        Some(Meta::new("user", &user())),
        program.map(|program| Meta::new("cmd", &name_of(program))),
    ];
    joined(known.into_iter().flatten(), given)
}

impl Meta {
    fn new(key: &str, value: &str) -> Meta {
        Meta { key: key.to_owned(), value: value.to_owned() }
    }
}

/// The last value of a name counts, in the place of the first.
fn joined(known: impl Iterator<Item = Meta>, given: &[Meta]) -> String {
    let mut all: Vec<Meta> = Vec::new();
    for meta in known.chain(given.iter().cloned()) {
        match all.iter_mut().find(|other| other.key == meta.key) {
            Some(other) => other.value = meta.value,
            None => all.push(meta),
        }
    }
    let words: Vec<String> =
        all.iter().map(|meta| format!("{}={}", meta.key, meta.value)).collect();
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
        assert_eq!(parse("a=b"), Ok(Meta::new("a", "b")));
        assert_eq!(parse("url=x?y=z"), Ok(Meta::new("url", "x?y=z")));
        assert_eq!(parse("empty="), Ok(Meta::new("empty", "")));
        for text in ["a", "=b", "a b=c"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_users_word_counts() {
        let known = [Meta::new("host", "a"), Meta::new("pid", "1")];
        let given = [Meta::new("why", "x y"), Meta::new("host", "b"), Meta::new("why", "z")];
        assert_eq!(joined(known.into_iter(), &given), "host=b pid=1 why=z");
    }

    #[test]
    fn a_program_is_named_without_its_folder() {
        let text = text(7, Some(OsStr::new("/usr/bin/backup")), &[]);
        assert!(text.ends_with(" cmd=backup"), "{text}");
        assert!(text.contains(" pid=7 "), "{text}");
    }
}
