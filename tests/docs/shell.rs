//! Examples of a shell: lines that begin with `$`, with their output, and whole scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use harness::{Kind, Server, eventually, process, program};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::alike::assert_alike;
use crate::page::{self, Example, Page};

#[test]
fn examples_of_a_shell_give_what_they_show() {
    let mut tried = 0;
    for page in page::all() {
        let examples: Vec<Example> = page.examples().into_iter().filter(is_ours).collect();
        if !examples.is_empty() {
            let place = Place::make();
            for example in &examples {
                tried += place.try_out(&page, example);
            }
        }
    }
    assert!(tried >= 10, "only {tried} commands were found");
}

#[test]
fn targets_that_the_pages_name_are_in_the_makefile() {
    let makefile = page::read("Makefile").text;
    let mut seen = 0;
    for page in page::all() {
        for word in page.text.split('`').filter(|text| text.starts_with("make ")) {
            let target = word.split_whitespace().nth(1).unwrap_or_default();
            let is_there = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
            assert!(is_there, "{}: `{word}`", page.path.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "only {seen} were found");
}

/// Git takes `v0;true` for the name of a tag.
#[test]
fn the_name_of_a_tag_is_not_executed() {
    for tag in ["v0;echo executed", "v0$(echo executed)", "v0\";echo executed;\""] {
        let mut make = Command::new("make");
        make.args(["--silent", "check-release"]).current_dir(page::top()).env("TAG", tag);
        let said = program::run(&mut make);
        let printed = said.out + &said.err;
        assert!(printed.contains(&format!("the tag is {tag}")), "{printed}");
        assert!(printed.lines().all(|line| line != "executed"), "{printed}");
    }
}

#[test]
fn the_recipe_for_a_file_lets_no_late_holder_through() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let examples = page::read("docs/fences.md").examples();
    let mut texts = examples.iter().map(|example| example.lines.join("\n"));
    let recipe = texts.find(|text| text.contains("flock 9")).expect("it is there");
    let put = |fence: u64, text: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &recipe, "put.sh", text]).env("DLOCK_FENCE", fence.to_string());
        program::run(shell.current_dir(folder.path())).code
    };
    let data = || fs::read_to_string(folder.path().join("balance")).expect("it is there");
    assert_eq!(put(1_795_238_075_371_227, "one"), Some(0));
    assert_eq!(put(1_795_238_075_371_228, "two"), Some(0));
    assert_eq!((put(1_795_238_075_371_227, "late"), data()), (Some(75), "two\n".to_owned()));
    assert_eq!((put(1_795_238_075_371_228, "three"), data()), (Some(0), "three\n".to_owned()));
    fs::write(folder.path().join("balance.mark"), "no mark\n").expect("it can be written");
    assert_eq!((put(1_795_238_075_371_229, "four"), data()), (Some(75), "three\n".to_owned()));
    fs::remove_file(folder.path().join("balance.mark")).expect("it is there");
    std::thread::scope(|scope| {
        for fence in 1..=20 {
            let put = &put;
            scope.spawn(move || {
                assert!([Some(0), Some(75)].contains(&put(fence, &fence.to_string())));
            });
        }
    });
    assert_eq!(data(), "20\n");
}

/// Commands of a shell that can be run anywhere; `make` builds the tree itself.
fn is_ours(example: &Example) -> bool {
    let text = example.lines.join("\n");
    let is_shell = ["", "sh"].contains(&example.language.as_str());
    is_shell && text.contains("dlock ") && !text.contains("127.0.0.1:6379>") && !text.contains('[')
}

/// Three nodes, and a folder with the examples' programs.
struct Place {
    nodes: Vec<Server>,
    folder: TempDir,
}

impl Place {
    fn make() -> Place {
        let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
        fs::create_dir(folder.path().join("srv")).expect("a folder can be made");
        fs::create_dir(folder.path().join("bin")).expect("a folder can be made");
        let (dlock, patient) = (program::path().display(), program::PATIENT);
        let dlock = format!("exec '{dlock}' --node-timeout {patient} \"$@\"\n");
        let nothing = ["backup.sh", "transfer", "deploy.sh", "put.sh"].map(|name| (name, ""));
        for (name, script) in nothing.into_iter().chain([("bin/dlock", &*dlock)]) {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}")).expect("it can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        Place { nodes: (0..3).map(|_| Server::start(Kind::Redis82)).collect(), folder }
    }

    /// Runs an example. Returns the number of its commands.
    fn try_out(&self, page: &Page, example: &Example) -> usize {
        let place = example.place(page);
        let _holders: Vec<Holder> = example.notes("held").map(|key| self.hold(key)).collect();
        let code = example.notes("exits").next().map_or(0, |code| code.parse().expect("a number"));
        let text = format!("\n{}", example.lines.join("\n"));
        let (script, commands) = text.split_once("\n$ ").map_or((text.as_str(), ""), |parts| parts);
        if !script.trim().is_empty() {
            self.run(&place, script, code);
        }
        for exchange in commands.split("\n$ ").filter(|exchange| !exchange.is_empty()) {
            let (command, shown) = exchange.split_once('\n').unwrap_or((exchange, ""));
            let printed = self.run(&place, command, code);
            if !shown.is_empty() {
                assert_alike(&format!("{place} ({command})"), shown, &printed);
            }
        }
        example.lines.len()
    }

    /// Holds a lock until the holder is dropped.
    fn hold(&self, key: &str) -> Holder {
        let nodes: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let mut command = program::command(&nodes);
        command.args(["--node-timeout", program::PATIENT, "run", key, "--", "sleep", "600"]);
        let holder = Holder(process::spawn(command).expect("dlock can be started"));
        let is_held = |node: &Server| !node.run(&format!("DLOCK.INSPECT {key}")).is_null();
        eventually("the lock is held", || self.nodes.iter().all(is_held));
        holder
    }

    fn run(&self, place: &str, script: &str, code: i32) -> String {
        let mut nodes = Vec::new();
        let mut script = script.replace("/srv", "srv");
        for (index, node) in self.nodes.iter().enumerate() {
            nodes.push(format!("127.0.0.1:{}", node.port()));
            script = script.replace(&format!("10.0.0.{}", index + 1), &nodes[index]);
        }
        let bin = self.folder.path().join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(self.folder.path()).stdin(Stdio::null());
        bash.env("PATH", format!("{}:{path}", bin.display())).env("DLOCK_NODES", nodes.join(","));
        let said = program::run(&mut bash);
        assert_eq!(said.code, Some(code), "{place}: {script}\n{said:#?}");
        said.out + &said.err
    }
}

/// A `dlock run` that holds a lock. TERM ends its command, too, and releases the lock.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        process::signal(&self.0, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}
