//! The picture that `dlock bench --plot` draws: whole or not there, and true to what was measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::{Kind, Quorum, Server, program};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::bench::{start, until_contended};
use crate::running::{Running, dlock};
use crate::svg::Picture;
use crate::{address, dlock_at};

/// A folder, and the path of a picture in it.
fn somewhere() -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder can be made");
    let file = folder.path().join("picture.svg").display().to_string();
    (folder, file)
}

/// The names of the files in a folder.
#[track_caller]
fn files(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("it is there").flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[track_caller]
fn read(file: impl AsRef<Path>) -> String {
    fs::read_to_string(file).expect("it is there")
}

#[test]
fn a_picture_says_what_was_measured() {
    let quorum = Quorum::start(3);
    let (folder, file) = somewhere();
    let options = ["--time", "200ms", "--clients", "7", "--hold", "3ms", "--plot", &file];
    let said = dlock(&quorum, &[&["bench", "--json"], &options[..]].concat()).with_code(0);
    assert_eq!(said.err, "");
    assert!(said.json().len() >= 5, "the figures are printed as well: {said:#?}");
    assert_eq!(files(folder.path()), ["picture.svg"]);
    let picture = Picture::read(&read(&file));
    picture.assert_inside();
    let words = picture.texts.join("\n");
    for word in ["3 nodes", "7 clients", "3 ms", "99.9"] {
        assert!(words.contains(word), "no {word:?}: {words}");
    }
    assert!(picture.count("rect") >= 7, "a bar for each client");
}

#[test]
fn a_picture_of_the_least_that_can_be_measured_is_one_too() {
    let quorum = Quorum::start(1);
    let (_folder, file) = somewhere();
    let least = ["--time", "100ms", "--clients", "1", "--hold", "0", "--plot", &file];
    let only = ["--only", "contended"];
    dlock(&quorum, &[&["bench"], &least[..], &only[..]].concat()).with_code(0);
    let picture = Picture::read(&read(&file));
    picture.assert_inside();
    assert!(picture.texts.iter().any(|text| text.contains("1 client")), "{:?}", picture.texts);
}

#[test]
fn a_picture_has_room_for_many_clients_and_for_some_who_get_nothing() {
    let server = Server::start(Kind::Redis82);
    let (_folder, file) = somewhere();
    let many = ["--time", "100ms", "--clients", "300", "--hold", "50ms", "--timeout", "1s"];
    let only = ["--only", "contended", "--plot", &file];
    dlock_at(&[address(&server)], &[&["bench"], &many[..], &only[..]].concat()).with_code(0);
    let picture = Picture::read(&read(&file));
    picture.assert_inside();
    let words = picture.texts.join("\n");
    for word in ["of 300 were never served", "not known"] {
        assert!(words.contains(word), "no {word:?}: {words}");
    }
}

#[test]
fn the_name_of_a_node_is_no_markup() {
    let server = Server::build(Kind::Redis82).config("unixsocket \"a&b.sock\"").start();
    let (_folder, file) = somewhere();
    let node = format!("unix://{}/a&b.sock", server.folder().display());
    let options = ["bench", "--time", "100ms", "--clients", "2", "--plot", &file];
    dlock_at(&[node], &options).with_code(0);
    Picture::read(&read(&file)).assert_inside();
}

#[test]
fn a_picture_shows_no_password() {
    let servers = crate::servers(Kind::Redis82, 1);
    servers[0].run("ACL SETUSER app on >sesame ~* +@all");
    let (_folder, file) = somewhere();
    let node = format!("redis://app:sesame@{}", address(&servers[0]));
    dlock_at(&[node], &["bench", "--time", "100ms", "--plot", &file]).with_code(0);
    assert!(!read(&file).contains("sesame"));
}

#[test]
fn a_picture_may_have_a_name_without_a_folder() {
    let server = Server::start(Kind::Redis82);
    let (folder, _) = somewhere();
    let mut command = program::command(&[address(&server)]);
    command.current_dir(folder.path());
    let said = program::run(command.args(["bench", "--time", "100ms", "--plot", "here.svg"]));
    said.with_code(0);
    assert_eq!(files(folder.path()), ["here.svg"]);
    Picture::read(&read(folder.path().join("here.svg")));
}

#[test]
fn an_older_picture_is_there_until_the_new_one_is_finished() {
    let quorum = Quorum::start(1);
    let (folder, file) = somewhere();
    fs::write(&file, "older").expect("it can be written");
    let options = ["--time", "400ms", "--only", "contended", "--clients", "3", "--plot", &file];
    let running = start(&quorum, &options);
    until_contended(&quorum[0]);
    assert_eq!(read(&file), "older");
    running.ended().with_code(0);
    assert_eq!(files(folder.path()), ["picture.svg"]);
    Picture::read(&read(&file));
}

#[test]
fn a_run_that_is_interrupted_or_fails_leaves_no_picture_and_no_part_of_one() {
    let mut quorum = Quorum::start(3);
    let start = |quorum: &Quorum, older: Option<&'static str>| {
        let (folder, file) = somewhere();
        older.inspect(|older| fs::write(&file, older).expect("it can be written"));
        let options = ["--time", "10m", "--only", "contended", "--clients", "3", "--plot", &file];
        let running = start(quorum, &options);
        until_contended(&quorum[0]);
        (running, folder, file, older)
    };
    let assert_as_before = |folder: TempDir, file: String, older: Option<&str>| {
        assert_eq!(files(folder.path()), older.map(|_| "picture.svg").as_slice());
        assert!(older.is_none_or(|older| read(&file) == older));
    };
    for (older, signal) in [(Some("older"), Signal::SIGINT), (None, Signal::SIGTERM)] {
        let (running, folder, file, older) = start(&quorum, older);
        running.signal(signal);
        running.ended_within(SOON).with_code(128 + signal as i32);
        assert_as_before(folder, file, older);
    }
    let both = [Some("older"), None].map(|older| start(&quorum, older));
    quorum[1].kill();
    quorum[2].kill();
    for (running, folder, file, older) in both {
        running.ended().with_code(69);
        assert_as_before(folder, file, older);
    }
}

const SOON: Duration = Duration::from_millis(500);

#[test]
fn a_folder_that_goes_away_in_the_middle_is_said_and_the_figures_are_not_lost() {
    let quorum = Quorum::start(1);
    let (folder, file) = somewhere();
    let options = ["--json", "--time", "500ms", "--only", "contended", "--plot", &file];
    let running: Running = start(&quorum, &options);
    until_contended(&quorum[0]);
    fs::remove_dir_all(folder.path()).expect("it can be removed");
    let said = running.ended();
    assert!(said.code != Some(0) && !said.err.contains("panicked"), "{said:#?}");
    assert!(said.err.contains(&file), "{}", said.err);
    assert!(said.out.contains("\"contended\""), "{said:#?}");
    quorum.assert_empty_within(Duration::ZERO);
}
