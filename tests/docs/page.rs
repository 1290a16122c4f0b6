//! A page of the documentation, taken apart.

use std::fs;
use std::path::{Path, PathBuf};

/// A page of text.
pub struct Page {
    /// The path from the top of the tree.
    pub path: PathBuf,
    pub text: String,
}

/// An example: what stands between two lines of backticks.
#[derive(Clone, Debug, Default)]
pub struct Example {
    /// Its first line.
    pub line: usize,
    /// The language behind the backticks.
    pub language: String,
    pub lines: Vec<String>,
    /// The notes of the comments above it, each a name and a text.
    pub notes: Vec<(String, String)>,
}

/// The pages at the top of the tree and all of docs/.
pub fn all() -> Vec<Page> {
    let folders = [".", "docs", "docs/contributing"];
    let mut paths: Vec<PathBuf> = folders.iter().flat_map(|folder| pages_in(folder)).collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn pages_in(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(top().join(folder)).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("the entry can be read").file_name());
    let paths = names.map(|name| Path::new(folder).join(name));
    let pages = paths.filter(|path| path.extension() == Some("md".as_ref()));
    pages.map(|path| path.strip_prefix(".").map_or(path.clone(), Path::to_path_buf)).collect()
}

/// The page at this path.
pub fn read(path: impl Into<PathBuf>) -> Page {
    let path = path.into();
    let text = fs::read_to_string(top().join(&path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Page { path, text }
}

/// The top of the tree.
pub fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

impl Page {
    /// Its examples, in order.
    pub fn examples(&self) -> Vec<Example> {
        let mut found = Vec::new();
        let mut notes = Vec::new();
        let mut open: Option<Example> = None;
        for (index, line) in self.text.lines().enumerate() {
            let text = line.trim_start();
            match (&mut open, text.strip_prefix("```")) {
                (None, Some(language)) => {
                    let (line, language) = (index + 1, language.to_owned());
                    let notes = std::mem::take(&mut notes);
                    open = Some(Example { line, language, notes, ..Example::default() });
                }
                (Some(_), Some(_)) => found.extend(open.take()),
                (Some(example), None) => example.lines.push(line.to_owned()),
                (None, None) => notes.extend(note(text)),
            }
        }
        assert!(open.is_none(), "{}: an example without an end", self.path.display());
        assert!(notes.is_empty(), "{}: notes without an example: {notes:?}", self.path.display());
        // In a list an example is indented.
        for example in &mut found {
            let indent = |line: &String| line.len() - line.trim_start().len();
            let filled = example.lines.iter().filter(|line| !line.trim().is_empty());
            let least = filled.map(indent).min().unwrap_or(0);
            let in_list =
                self.text.lines().nth(example.line - 1).is_some_and(|l| l.starts_with(' '));
            for line in example.lines.iter_mut().filter(|_| in_list) {
                *line = line.get(least..).unwrap_or_default().to_owned();
            }
        }
        found
    }
}

impl Example {
    /// The example's page and line, for error messages.
    pub fn place(&self, page: &Page) -> String {
        format!("{}:{}", page.path.display(), self.line)
    }

    /// The texts of the notes with this name.
    pub fn notes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.notes.iter().filter(move |(n, _)| n == name).map(|(_, text)| text.as_str())
    }
}

fn note(line: &str) -> Option<(String, String)> {
    let inner = line.strip_prefix("<!--")?.strip_suffix("-->")?;
    let (name, text) = inner.split_once(':')?;
    Some((name.trim().to_owned(), text.trim().to_owned()))
}

#[test]
fn a_page_falls_into_its_examples() {
    let text = "# a\n<!-- before: SET a b -->\n```sh\n$ x\n```\n- y\n  ```\n  in\n    two\n  ```\n";
    let page = Page { path: "a.md".into(), text: text.to_owned() };
    let [first, second] = <[Example; 2]>::try_from(page.examples()).expect("two");
    assert_eq!((first.line, first.language.as_str()), (3, "sh"));
    assert_eq!(first.lines, ["$ x"]);
    assert_eq!(first.notes("before").collect::<Vec<_>>(), ["SET a b"]);
    assert_eq!(second.lines, ["in", "  two"]);
}
