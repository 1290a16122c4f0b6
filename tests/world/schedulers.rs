//! docs/schedulers.md: its units, as systemd judges them, and its line for cron.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use harness::{Quorum, eventually, process, program, wall_clock};
use nix::unistd::Uid;
use tempfile::TempDir;

use crate::top;

#[test]
fn systemd_finds_the_service_and_its_timer_good() {
    let page = page();
    let units = blocks(&page, "ini");
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, unit) in ["nightly.service", "nightly.timer"].iter().zip(units) {
        let program = program::path().display().to_string();
        let path = folder.path().join(name);
        fs::write(&path, unit.replace("/usr/bin/dlock", &program)).expect("there is room");
        verify.arg(path);
    }
    assert_eq!(verify.get_args().count(), 4, "the page has two units");
    let said = program::run(&mut verify);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:#?}");
}

/// The hosts' clocks differ by two seconds: at two o'clock the job has ended on the first before the second
/// one begins.
#[test]
fn cron_on_two_hosts_runs_the_job_once() {
    assert!(Uid::effective().is_root(), "cron is for root, who can be any user");
    let (quorum, page) = (Quorum::start(3), page());
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let [ledger, said] = ["ledger", "said"].map(|name| folder.path().join(name));
    let job = format!("sh -c 'echo works >>{}' 2>>{}", ledger.display(), said.display());
    let table = blocks(&page, "crontab").next().expect("the page has a crontab");
    let mut table = table.replace("0 2 * * *", "* * * * *");
    table = table.replace("dlock", &program::path().display().to_string());
    table = table.replace("./backup.sh", &job);
    for (number, url) in (1..).zip(quorum.direct_urls()) {
        table = table.replace(&format!("redis://10.0.0.{number}"), &url);
    }
    let table = format!("MAILTO=\"\"\n{table}");
    let _hosts = [6, 8].map(|seconds| Cron::start(folder.path(), &table, seconds));
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    eventually("both hosts have come", || lines(&ledger) + lines(&said) >= 2);
    assert_eq!(fs::read_to_string(&ledger).expect("it is there"), "works\n");
    let said = fs::read_to_string(&said).expect("it is there");
    assert!(said.contains("lock 'nightly' is done for 11 h 59 min more"), "{said}");
}

/// Debian's cron of a host with a clock of its own, without the machine's own tables.
struct Cron(Child);

const ON_A_HOST: &str = "
    for folder in /run /var/spool /etc/cron.d; do mount -t tmpfs none $folder; done
    mkdir -p /var/spool/cron/crontabs
    cp \"$0\" /var/spool/cron/crontabs/root
    chmod 600 /var/spool/cron/crontabs/root
    [ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
    exec /usr/sbin/cron -f";

impl Cron {
    /// Starts it so many seconds before its clock begins a minute.
    fn start(folder: &Path, table: &str, seconds: i64) -> Cron {
        let [tables, clock] =
            ["table", "clock"].map(|name| folder.join(format!("{name}-{seconds}")));
        fs::write(&tables, table).expect("there is room");
        wall_clock::set(&clock, 60 - seconds - wall_clock::micros(0) / 1_000_000 % 60);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", ON_A_HOST]).arg(tables);
        wall_clock::preload(&mut command, &clock);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Cron(process::spawn(command).expect("it can be started"))
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn page() -> String {
    fs::read_to_string(top().join("docs/schedulers.md")).expect("it is there")
}

/// The page's blocks in a language.
fn blocks<'p>(page: &'p str, language: &str) -> impl Iterator<Item = &'p str> {
    let begin = format!("```{language}\n");
    let rests: Vec<&str> = page.split(&*begin).skip(1).collect();
    rests.into_iter().filter_map(|rest| rest.split("```").next())
}
