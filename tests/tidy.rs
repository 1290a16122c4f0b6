//! House style, as far as a machine can judge it. Each rule is a test that lists what breaks it.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};

/// A longer function does two things.
const FUNCTION_LINES: usize = 60;
/// A doc comment that opens with one of these leaves its subject to the code below it.
const OPENERS: [&str; 7] = ["What", "How", "Whether", "When", "Who", "Why", "It"];
/// Tables, with an entry a line, and a function that makes all random choices for a new client.
const LARGE_FUNCTIONS: [(&str, &str); 3] = [
    ("src/module/entry/load.rs", "missing_function"),
    ("src/core/reason.rs", "fmt"),
    ("tests/proof/sim/wishes.rs", "spawn"),
];

#[test]
fn unsafe_code_stays_in_two_folders() {
    let files = files(&["src"], &["rs"]);
    let boundary = ["src/module/entry", "src/module/ffi"];
    let outside = files.iter().filter(|file| !boundary.iter().any(|folder| file.is_in(folder)));
    refuse(
        outside
            .flat_map(|file| file.code().filter(|line| line.words().any(|word| word == "unsafe"))),
    );
}

#[test]
fn input_cannot_panic_the_server() {
    let panics = [
        ".unwrap()",
        ".expect(",
        ".unwrap_err()",
        "panic!",
        "unreachable!",
        "unimplemented!",
        "todo!",
    ];
    let files = files(&["src/core", "src/module"], &["rs"]);
    let shipped = files.iter().filter(|file| !file.is_test());
    refuse(shipped.flat_map(|file| {
        file.shipped_code().filter(|line| panics.iter().any(|panic| line.text.contains(panic)))
    }));
}

#[test]
fn functions_are_short() {
    let files = files(&["src", "tests"], &["rs"]);
    let long = files.iter().flat_map(|file| {
        let functions = file.functions().filter(|(_, lines)| *lines > FUNCTION_LINES);
        functions.map(|(line, _)| line).filter(|line| !is_large(line))
    });
    refuse(long);
}

fn is_large(function: &Line) -> bool {
    let name = function.words().skip_while(|word| *word != "fn").nth(1);
    let same = |path: &str, large: &str| function.path == Path::new(path) && name == Some(large);
    LARGE_FUNCTIONS.iter().any(|(path, large)| same(path, large))
}

#[test]
fn files_open_with_what_they_are() {
    let files = files(&["src", "tests"], &["rs"]);
    refuse(
        files
            .iter()
            .filter(|file| !file.text.starts_with("//!"))
            .map(|file| file.line(1, "the file does not open with a //! comment")),
    );
}

#[test]
fn comments_name_their_subject() {
    let files = files(&["src", "tests"], &["rs"]);
    let opens_badly = |line: &Line| {
        let opener = line.words().find(|word| !word.is_empty());
        opener.is_some_and(|opener| OPENERS.contains(&opener))
    };
    refuse(files.iter().flat_map(|file| file.comments().filter(opens_badly)));
}

#[test]
fn lines_hold_no_tabs_and_end_in_no_spaces() {
    refuse(all_text().iter().flat_map(|file| {
        let makefile = file.path.ends_with("Makefile");
        file.lines().filter(move |line| line.text.ends_with([' ', '\t']) || has_tab(line, makefile))
    }));
}

/// In a Makefile a tab is syntax at the beginning of a line.
fn has_tab(line: &Line, makefile: bool) -> bool {
    let text = if makefile { line.text.trim_start_matches('\t') } else { line.text };
    text.contains('\t')
}

#[test]
fn no_test_is_skipped() {
    let ignore = concat!("#[", "ignore");
    let files = files(&["src", "tests"], &["rs"]);
    refuse(containing(&files, &[ignore]));
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    refuse(containing(&all_text(), &marks));
}

#[test]
fn nothing_names_the_machine_it_was_made_on() {
    let folders =
        [concat!("/wo", "rk/"), concat!("/tm", "p/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    refuse(containing(&all_text(), &folders));
}

/// Words that stand where the noun of an actor should: client, waiter, holder, caller, operator, user.
const NAMELESS: [&str; 6] = ["who", "whoever", "whom", "whose", "nobody", "somebody"];
/// So many of them are left in 1,000 words.
const NAMELESS_IN_DOCS: f64 = 0.5;
const NAMELESS_IN_COMMENTS: f64 = 0.3;

#[test]
fn pages_name_their_actors() {
    let mut pages = files(&["docs"], &["md"]);
    pages.extend(["README.md", "CHANGELOG.md"].map(|name| read(Path::new(name)).expect("a page")));
    refuse_nameless(NAMELESS_IN_DOCS, pages.iter().flat_map(File::prose).collect());
}

#[test]
fn comments_name_their_actors() {
    let files = files(&["src", "tests"], &["rs"]);
    let is_comment = |line: &Line| line.text.trim_start().starts_with("//");
    refuse_nameless(
        NAMELESS_IN_COMMENTS,
        files.iter().flat_map(|file| file.lines().filter(is_comment)).collect(),
    );
}

/// Names the worst lines if there are more than `most` of those words in 1,000.
#[track_caller]
fn refuse_nameless(most: f64, mut lines: Vec<Line>) {
    let nameless = |line: &Line| {
        line.words()
            .filter(|word| NAMELESS.iter().any(|bad| word.eq_ignore_ascii_case(bad)))
            .count()
    };
    let is_word = |word: &&str| word.starts_with(|letter: char| letter.is_alphabetic());
    let words: usize = lines.iter().map(|line| line.words().filter(is_word).count()).sum();
    let found: usize = lines.iter().map(nameless).sum();
    let share = 1000.0 * found as f64 / words as f64;
    println!("{found} of {words} words: {share:.2} in 1,000, and {most} are allowed");
    if share > most {
        lines.sort_by_key(|line| std::cmp::Reverse(nameless(line)));
        refuse(lines.into_iter().filter(|line| nameless(line) > 0).take(40));
    }
}

/// proptest reads the seeds of src/CRATE/PATH.rs from src/proptest-regressions/PATH.txt. Where a test moves, its seeds
/// move along.
#[test]
fn saved_failures_are_where_proptest_looks_for_them() {
    const SEEDS: &str = "src/proptest-regressions";
    let seeds = files(&[SEEDS], &["txt"]);
    assert!(!seeds.is_empty());
    let has_test = |seeds: &File| {
        let path = seeds.path.strip_prefix(SEEDS).expect("it is there").with_extension("rs");
        ["src/core", "src/client"].iter().any(|root| {
            read(&Path::new(root).join(&path)).is_some_and(|file| file.text.contains("proptest!"))
        })
    };
    let lost = seeds.iter().filter(|seeds| !has_test(seeds));
    refuse(lost.map(|seeds| seeds.line(1, "no test reads these seeds")));
}

/// One option stands for all. The program, `src/cli`, declares options of its own.
#[test]
fn an_option_of_a_lock_is_in_few_files() {
    let languages: [(&str, &[&str], &str, usize); 3] = [
        ("src", &["rs"], "max_hold", 3),
        ("src/python/dlock", &["py", "pyi"], "max_hold", 2),
        ("src/nodejs/dlock", &["ts", "mts"], "maxHold", 2),
    ];
    for (folder, endings, option, most) in languages {
        let knows = |file: &File| {
            let mut code = file.shipped_code();
            code.any(|line| line.code_words().any(|word| word == option))
        };
        let mut known = files(&[folder], endings);
        known.retain(|file| !file.is_in("src/cli") && knows(file));
        let paths: Vec<_> = known.iter().map(|file| file.path.display().to_string()).collect();
        assert!((1..=most).contains(&paths.len()), "{option} is in {paths:?}; {most} are allowed");
    }
}

// --- reading the tree --------------------------------------------------------------------------

struct File {
    /// The path from the top of the tree.
    path: PathBuf,
    text: String,
}

struct Line<'a> {
    path: &'a Path,
    number: usize,
    text: &'a str,
}

impl File {
    fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// True for a file of tests: `tests.rs`, in a folder `tests`, or the server in memory for tests.
    fn is_test(&self) -> bool {
        let named = |part: &str| matches!(part, "tests" | "tests.rs" | "simulated.rs");
        self.path.iter().filter_map(|part| part.to_str()).any(named)
    }

    fn line<'a>(&'a self, number: usize, text: &'a str) -> Line<'a> {
        let path = &self.path;
        Line { path, number, text }
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let numbered = self.text.lines().enumerate();
        numbered.map(|(index, text)| self.line(index + 1, text))
    }

    /// The lines of a page outside of its examples.
    fn prose(&self) -> impl Iterator<Item = Line<'_>> {
        let mut in_example = false;
        self.lines().filter(move |line| {
            let is_mark = line.text.trim_start().starts_with("```");
            in_example ^= is_mark;
            !is_mark && !in_example
        })
    }

    /// The first line of each comment.
    fn comments(&self) -> impl Iterator<Item = Line<'_>> {
        let mut inside = false;
        self.lines().filter(move |line| {
            let text = line.text.trim_start();
            let is_comment = text.starts_with("//");
            let was_inside = mem::replace(&mut inside, is_comment);
            is_comment && !was_inside
        })
    }

    /// Each function's first line, and how many it has. What rustfmt has formatted ends a function
    /// at the first line that is indented like its beginning and closes it.
    fn functions(&self) -> impl Iterator<Item = (Line<'_>, usize)> {
        let begins = |line: &Line| {
            let mut words = line.words().skip_while(|word| MODIFIERS.contains(word));
            words.next() == Some("fn") && !line.text.ends_with(['}', ';'])
        };
        self.code().filter(begins).map(|first| {
            let indent = first.text.len() - first.text.trim_start().len();
            let ends = |line: &Line| line.text.get(indent..).is_some_and(|rest| rest == "}");
            let after = self.lines().skip(first.number).position(|line| ends(&line));
            (first, after.map_or(1, |after| after + 2))
        })
    }

    /// Lines without their comments.
    fn code(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines()
            .map(|line| Line { text: line.text.split("//").next().unwrap_or_default(), ..line })
    }

    /// Code without the items under `#[cfg(test)]`. What rustfmt has formatted ends an item at the
    /// first line that is indented like its beginning and closes it.
    fn shipped_code(&self) -> impl Iterator<Item = Line<'_>> {
        let mut test_item: Option<usize> = None;
        self.code().filter(move |line| {
            let code = line.text.trim();
            let indent = line.text.len() - line.text.trim_start().len();
            match test_item {
                None if code == "#[cfg(test)]" => test_item = Some(indent),
                None => return true,
                Some(start) if indent == start && code.ends_with(['}', ';']) => test_item = None,
                Some(_) => {}
            }
            false
        })
    }
}

/// The words that can be before `fn`. The empty word is the text before and between others.
const MODIFIERS: [&str; 9] =
    ["", "pub", "crate", "super", "const", "async", "unsafe", "extern", "C"];

impl<'a> Line<'a> {
    fn words(&self) -> impl Iterator<Item = &'a str> {
        words(self.text)
    }

    /// The words outside of strings.
    fn code_words(&self) -> impl Iterator<Item = &'a str> {
        self.text.split('"').step_by(2).flat_map(words)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

fn containing<'a>(files: &'a [File], needles: &'a [&str]) -> impl Iterator<Item = Line<'a>> {
    let lines = files.iter().flat_map(File::lines);
    lines.filter(|line| needles.iter().any(|needle| line.text.contains(needle)))
}

/// All text written by hand.
fn all_text() -> Vec<File> {
    let endings = [
        "rs", "toml", "md", "sh", "c", "Makefile", "run", "yml", "py", "js", "mjs", "ts", "php",
        "rb",
    ];
    let mut all = files(&["src", "tests", "scripts", "docs", ".ci", ".github"], &endings);
    let top = ["Cargo.toml", "Makefile", "README.md", "CHANGELOG.md"];
    all.extend(top.into_iter().filter_map(|name| read(Path::new(name))));
    all
}

fn files(folders: &[&str], endings: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    for folder in folders {
        collect(Path::new(folder), endings, &mut found);
    }
    assert!(!found.is_empty(), "no files in {folders:?}");
    found
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<File>) {
    let entries = fs::read_dir(top().join(folder)).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}", folder.display());
    });
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        if top().join(&path).is_dir() {
            if name != "target" && name != "node_modules" && name != "lib" {
                collect(&path, endings, found);
            }
            continue;
        }
        let ending = path.extension().unwrap_or(&name);
        if endings.iter().any(|known| ending == *known) {
            found.extend(read(&path));
        }
    }
}

fn read(path: &Path) -> Option<File> {
    let text = fs::read_to_string(top().join(path)).ok()?;
    let path = path.to_path_buf();
    Some(File { path, text })
}

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[track_caller]
fn refuse<'a>(lines: impl Iterator<Item = Line<'a>>) {
    let list: Vec<String> = lines
        .map(|line| format!("{}:{}: {}", line.path.display(), line.number, line.text))
        .collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}
