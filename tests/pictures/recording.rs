//! A recording of a real run: `dlock run` on two hosts. The first one is killed, and the second one runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use harness::tmux::Tmux;
use harness::{Kind, Server, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::terminal;

/// Records the run, and draws it.
pub fn recording() -> String {
    let servers: Vec<Server> = (0..3).map(|_| Server::start(Kind::Redis82)).collect();
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let script = folder.path().join("deploy.sh");
    fs::write(&script, DEPLOY).expect("there is room");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let host = |name: &str| {
        let nodes: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let mut command = program::command(&nodes);
        command.env("PS1", format!("{name}$ "));
        let bin = program::path().parent().expect("it is in a folder").display();
        let script = format!("cd {}; PATH={bin}:$PATH exec sh -i", folder.path().display());
        Tmux::start(HOST, &command, &script)
    };
    let mut camera = Camera::start(host("web-1"), host("web-2"));
    camera.until(|first, _| first.contains("web-1$"));
    camera.first.press(&[COMMAND, "Enter"]);
    camera.until(|first, _| first.contains("step 2"));
    camera.second.press(&[COMMAND, "Enter"]);
    camera.until(|first, second| first.contains("step 5") && second.contains("wait"));
    kill(holder(&camera.first), Signal::SIGKILL).expect("the holder runs");
    camera.until(|_, second| second.contains("step 3"));
    camera.picture()
}

/// Each host's part of the screen.
const HOST: (u16, u16) = (84, 9);
const COMMAND: &str = "dlock run --verbose --ttl 5s deploy -- ./deploy.sh";
const DEPLOY: &str =
    "#!/bin/sh\nfor step in 1 2 3 4 5 6 7 8 9; do echo \"deploying: step $step\"; sleep 1; done\n";

/// The `dlock run` on this screen: the parent of the process that it reports.
fn holder(host: &Tmux) -> Pid {
    let screen = host.screen();
    let child = screen.split("dlock: process ").nth(1).and_then(|rest| rest.split(' ').next());
    let status = fs::read_to_string(format!("/proc/{}/status", child.expect("it is shown")));
    let status = status.expect("the process runs");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent = parent.and_then(|pid| pid.trim().parse().ok());
    Pid::from_raw(parent.expect("each process has a parent"))
}

/// Both hosts' screens, whenever they have changed.
struct Camera {
    first: Tmux,
    second: Tmux,
    began: Instant,
    screens: Vec<(Duration, String)>,
}

impl Camera {
    fn start(first: Tmux, second: Tmux) -> Camera {
        Camera { first, second, began: Instant::now(), screens: Vec::new() }
    }

    /// Goes on until the screens show that.
    fn until(&mut self, is_shown: impl Fn(&str, &str) -> bool) {
        while !is_shown(&self.first.screen(), &self.second.screen()) {
            self.look();
            thread::sleep(EACH);
        }
        self.look();
    }

    fn look(&mut self) {
        let (above, below) = (self.first.painted(), self.second.painted());
        let lines = usize::from(HOST.1);
        let above = above.lines().chain(std::iter::repeat("")).take(lines);
        let both: Vec<&str> = above.chain([""]).chain(below.lines().take(lines)).collect();
        let both = both.join("\n");
        if self.screens.last().is_none_or(|(_, last)| *last != both) {
            self.screens.push((self.began.elapsed(), both));
        }
    }

    fn picture(self) -> String {
        let size = (HOST.0, 2 * HOST.1 + 1);
        // The first screen is there from the beginning, and the last one stays for a while.
        let begin = self.screens.first().map_or(Duration::ZERO, |(at, _)| *at);
        let screens: Vec<(Duration, String)> =
            self.screens.into_iter().map(|(at, screen)| (at - begin, screen)).collect();
        let end = screens.last().map_or(Duration::ZERO, |(at, _)| *at) + STAYS;
        terminal::film(&screens, end, size)
    }
}

const EACH: Duration = Duration::from_millis(200);
const STAYS: Duration = Duration::from_secs(3);
