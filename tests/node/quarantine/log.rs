//! Quarantine after a crash, with a log: there is none if the log was complete, which takes four
//! settings, in force during the whole of the life that ended, and now.

use std::time::Instant;

use harness::Builder;
use harness::quarantine::{CRASHED, assert_bound, assert_no_shorter};
use harness::{
    Client, Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

/// The settings with which a log is complete, and for each a value with which it is not.
const COMPLETE: [(&str, &str, &str); 4] = [
    ("appendonly", "yes", "no"),
    ("appendfsync", "always", "everysec"),
    ("no-appendfsync-on-rewrite", "no", "yes"),
    ("aof-load-truncated", "no", "yes"),
];

/// A server whose log is complete but for these settings.
fn build(kind: Kind, but: &[&str]) -> Builder {
    let lines = COMPLETE.iter().map(|(name, good, _)| format!("{name} {good}"));
    let server = lines.fold(Server::build(kind), |server, line| server.config(&line));
    but.iter().fold(server, |server, line| server.config(line))
}

/// Somebody takes a lock, and the server crashes.
fn crash_with_a_lease(server: &mut Server) {
    assert!(server.run("DLOCK.ACQUIRE job alice 60000").int() > 0);
    server.kill();
}

#[apply(on_every_server)]
fn with_a_complete_log_there_is_none_and_nothing_is_forgotten(kind: Kind) {
    let mut server = build(kind, &[]).start();
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    server.run("DLOCK.ACQUIRE pool alice 60000 LIMIT 2");
    for _ in 0..2 {
        server.kill();
        server.start_again();
        server.assert_grants();
        assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
        assert!(server.run("DLOCK.ACQUIRE job bob 1000").is_null());
        assert!(server.run("DLOCK.ACQUIRE free bob 60000").int() > fence);
        assert_eq!(server.run("DLOCK.RELEASE free bob").int(), 1);
    }
    assert!(server.run("DLOCK.ACQUIRE pool bob 60000 LIMIT 2").int() > 0);
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}

#[apply(on_every_server)]
fn a_rewritten_complete_log_is_as_good(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("BGREWRITEAOF");
    server.run("DLOCK.ACQUIRE other alice 60000");
    eventually("the log is rewritten", || {
        let state = server.info("persistence");
        state["aof_rewrite_in_progress"] == "0" && state["aof_rewrite_scheduled"] == "0"
    });
    server.kill();
    server.start_again();
    server.assert_grants();
    assert_eq!(server.node("leases").int(), 2);
}

#[apply(on_two_servers)]
fn one_setting_in_the_ended_life_makes_a_log_incomplete(kind: Kind) {
    for (name, good, bad) in COMPLETE {
        let mut server = build(kind, &[&format!("{name} {bad}")]).start();
        crash_with_a_lease(&mut server);
        server.add_config(&format!("{name} {good}"));
        let since = Instant::now();
        server.start_again();
        println!("{name} {bad}");
        assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    }
}

#[apply(on_two_servers)]
fn one_setting_of_now_makes_a_log_incomplete(kind: Kind) {
    for (name, _, bad) in COMPLETE {
        let mut server = build(kind, &[]).start();
        crash_with_a_lease(&mut server);
        server.add_config(&format!("{name} {bad}"));
        let since = Instant::now();
        server.start_again();
        println!("{name} {bad}");
        assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    }
}

/// The server may cut a log that is not complete when the load begins.
#[apply(on_two_servers)]
fn a_setting_that_is_made_during_the_load_does_not_make_a_log_complete(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.until_its_log_is_complete();
    server.client().pipeline((0..5_000).map(|n| format!("SET text {n}")));
    crash_with_a_lease(&mut server);
    server.add_config("aof-load-truncated yes");
    server.add_config("key-load-delay 400");
    let port = server.port();
    let setting = std::thread::spawn(move || {
        eventually("it loads", || Client::connect(port).is_ok());
        let set = "CONFIG SET aof-load-truncated no";
        let mut client = Client::connect(port).expect("it listens");
        client.pipeline(["INFO persistence", set, "INFO persistence"].map(str::to_owned))
    });
    let since = Instant::now();
    server.start_again();
    let answers = setting.join().expect("it answers");
    assert!([0, 2].iter().all(|at| answers[*at].text().contains("loading:1")), "{answers:?}");
    assert_eq!(answers[1].text(), "OK");
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// A grant in that moment may be lost.
#[apply(on_two_servers)]
fn a_setting_that_was_changed_for_a_moment_makes_a_log_incomplete(kind: Kind) {
    for (name, good, bad) in COMPLETE {
        let mut server = build(kind, &[]).start();
        assert_eq!(server.run(&format!("CONFIG SET {name} {bad}")).text(), "OK", "{name}");
        server.run("DLOCK.ACQUIRE meanwhile alice 60000");
        assert_eq!(server.run(&format!("CONFIG SET {name} {good}")).text(), "OK", "{name}");
        eventually("the log is whole", || {
            let state = server.info("persistence");
            state["aof_rewrite_in_progress"] == "0" && state["aof_rewrite_scheduled"] == "0"
        });
        crash_with_a_lease(&mut server);
        let since = Instant::now();
        server.start_again();
        println!("{name} {bad} for a moment");
        assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    }
}

#[apply(on_two_servers)]
fn settings_that_were_made_later_do_not_make_a_log_complete(kind: Kind) {
    let mut server = Server::start(kind);
    server.run("DLOCK.ACQUIRE early alice 60000");
    for (name, good, _) in COMPLETE {
        assert_eq!(server.run(&format!("CONFIG SET {name} {good}")).text(), "OK", "{name}");
        server.add_config(&format!("{name} {good}"));
    }
    eventually("the log is whole", || {
        let state = server.info("persistence");
        state["aof_rewrite_in_progress"] == "0" && state["aof_rewrite_scheduled"] == "0"
    });
    crash_with_a_lease(&mut server);
    server.start_again();
    server.assert_in_quarantine(CRASHED);

    // The next life has them from its beginning, and nothing of this quarantine is left.
    server.leave_quarantine();
    server.run("CONFIG SET dlock.quarantine auto");
    server.until_its_log_is_complete();
    crash_with_a_lease(&mut server);
    server.start_again();
    server.assert_grants();
    assert_eq!(server.holders("job"), ["alice"]);
}

#[apply(on_one_server)]
fn a_complete_log_does_not_end_the_quarantine_of_the_life_before(kind: Kind) {
    let mut server = build(kind, &["appendfsync everysec"]).start();
    crash_with_a_lease(&mut server);
    server.add_config("appendfsync always");
    server.start_again();
    for _ in 0..2 {
        let since = Instant::now();
        let left = server.assert_in_quarantine(CRASHED);
        server.kill();
        server.start_again();
        let next = server.assert_in_quarantine(CRASHED);
        assert_no_shorter(next, left, since);
    }
}

#[apply(on_one_server)]
fn the_quarantine_of_a_node_with_a_log_ends_by_itself(kind: Kind) {
    let mut server = build(kind, &["appendfsync everysec"]).start();
    server.run("DLOCK.ACQUIRE lost alice 300");
    server.kill();
    let begun = Instant::now();
    server.start_again();
    assert!(server.client().run("DLOCK.ACQUIRE lost bob 60000 WAIT 0").int() > 0);
    assert!(begun.elapsed().as_millis() >= 300, "{:?}", begun.elapsed());
    server.assert_grants();
}

/// The server switches the log off and on again when another setting of the same command is
/// refused, and begins a new log then, which is not whole for a while.
#[apply(on_every_server)]
fn a_refused_command_that_would_have_switched_it_makes_a_log_incomplete(kind: Kind) {
    let mut server = build(kind, &[]).start();
    let other = Server::start(kind);
    server.until_its_log_is_complete();
    let refused = server.run(&format!("CONFIG SET appendonly no port {}", other.port()));
    refused.assert_error("ERR", "'port'");
    assert_eq!(server.run("CONFIG GET appendonly").at("appendonly").text(), "yes");
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

#[apply(on_two_servers)]
fn a_complete_log_that_is_gone_is_noticed(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.until_its_log_is_complete();
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    std::fs::remove_dir_all(server.folder().join("appendonlydir")).expect("it is there");
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// Redis 8 answers from other threads, before the log is written.
#[apply(on_every_server)]
fn a_log_of_a_server_with_threads_that_answer_is_not_complete(kind: Kind) {
    let mut server = build(kind, &["io-threads 2"]).start();
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// The file claims that the log is complete, and something else is where it has to be corrected.
#[apply(on_two_servers)]
fn nothing_is_granted_while_the_file_claims_more_than_is_true(kind: Kind) {
    let server = build(kind, &[]).start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.until_its_log_is_complete();
    let (file, aside) = (server.state_file(), server.state_file().with_extension("aside"));
    std::fs::rename(&file, &aside).expect("the folder can be written");
    std::fs::create_dir(&file).expect("the folder can be written");
    assert_eq!(server.run("CONFIG SET appendfsync everysec").text(), "OK");
    assert_eq!(server.run("DLOCK.ACQUIRE other bob 1000").code(), "NOTDURABLE");
    assert_eq!(server.node("granting").text(), "not-durable");
    let mut waiter = server.waiter("DLOCK.ACQUIRE other carol 1000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    std::fs::remove_dir(&file).expect("it was just made");
    std::fs::rename(&aside, &file).expect("it was there");
    assert!(waiter.recv().int() > 0);
}

/// The server can take back that the log is complete, though it can write nothing else.
#[apply(on_two_servers)]
fn on_a_full_disk_a_log_does_not_count_as_complete_after_an_eviction_or_a_setting(kind: Kind) {
    // The disk goes with the process, and the next one gets a copy.
    let mounts = "mkdir -p disk; mount -t tmpfs -o size=64k,mode=700 tmpfs disk
        test ! -e copy || cp copy disk/dlock.state";
    for evicts in [true, false] {
        let server = build(kind, &["dlock.state-file disk/dlock.state"]).with_mounts(mounts);
        let mut server = server.start();
        let since = Instant::now();
        server.run("DLOCK.ACQUIRE job alice 60000");
        let file = server.disk().join("dlock.state");
        eventually("the state file says that the log is complete", || {
            std::fs::read_to_string(&file).is_ok_and(|text| text.contains("log complete"))
        });
        server.fill_disk();
        if evicts {
            server.evict_all();
        } else {
            server.run("CONFIG SET appendfsync everysec");
        }
        assert!(server.run("DLOCK.ACQUIRE other bob 60000").int() > 0, "the file claims nothing");
        std::fs::copy(&file, server.folder().join("copy")).expect("its folder has room");
        server.kill();
        server.start_again();
        println!("evicts: {evicts}");
        assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    }
}

/// Redis 8.4 and later cut a damaged end off, also where `aof-load-truncated` is no.
#[apply(on_every_server)]
fn a_log_whose_damaged_end_is_cut_off_is_not_complete(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.until_its_log_is_complete();
    let has_it = !server.run("CONFIG GET aof-load-corrupt-tail-max-size").items().is_empty();
    assert_eq!(has_it, kind == Kind::Redis86);
    if !has_it {
        return;
    }
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    let folder = server.folder().join("appendonlydir");
    let files = std::fs::read_dir(folder).expect("it is there").map(|file| file.unwrap().path());
    let log = files.into_iter().find(|file| file.to_string_lossy().ends_with(".incr.aof"));
    let log = log.expect("it has a log");
    let mut text = std::fs::read(&log).expect("it can be read");
    let lock = text.windows(3).rposition(|at| at == b"job").expect("the lock is there");
    let command =
        text[..lock].iter().rposition(|byte| *byte == b'*').expect("its command is there");
    text[command] = b'x';
    std::fs::write(&log, text).expect("it can be written");
    server.add_config("aof-load-corrupt-tail-max-size 1000000");
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// Each of the two logs is complete, and the older one lacks what was granted with the other.
#[apply(on_two_servers)]
fn a_log_that_is_used_again_after_another_is_not_that_of_the_life_before(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.until_its_log_is_complete();
    server.add_config("appenddirname other");
    server.kill();
    server.start_again();
    server.run("CONFIG SET dlock.quarantine off");
    server.run("CONFIG SET dlock.quarantine auto");
    server.until_its_log_is_complete();
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    server.add_config("appenddirname appendonlydir");
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// The next rewrite would begin a log elsewhere, and a start would read the older one.
#[apply(on_two_servers)]
fn a_log_whose_folder_is_changed_is_not_complete(kind: Kind) {
    let mut server = build(kind, &["enable-protected-configs yes"]).start();
    server.until_its_log_is_complete();
    let other = server.folder().join("elsewhere");
    std::fs::create_dir(&other).expect("the folder can be written");
    for folder in [other.display().to_string(), server.folder().display().to_string()] {
        assert_eq!(server.run(&format!("CONFIG SET dir {folder}")).text(), "OK");
    }
    let since = Instant::now();
    crash_with_a_lease(&mut server);
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

/// A question for settings changes none.
#[apply(on_two_servers)]
fn a_log_whose_settings_are_read_stays_complete(kind: Kind) {
    let mut server = build(kind, &[]).start();
    server.until_its_log_is_complete();
    server.run("CONFIG GET appendonly appendfsync");
    server.run("CONFIG SET maxmemory-samples 6");
    crash_with_a_lease(&mut server);
    server.start_again();
    server.assert_grants();
}
