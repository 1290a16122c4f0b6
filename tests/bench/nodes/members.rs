//! etcd and ZooKeeper, as their makers say that they are set up, each member a process with files of
//! its own on a disk. scripts/peers.sh installs them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::{ports, process};
use tempfile::TempDir;

use super::Service;
use crate::links::Links;

/// The members of one service; they end with this.
pub struct Members {
    children: Vec<Child>,
    _links: Option<Links>,
    _folder: TempDir,
}

/// The ports of a member.
struct Member {
    /// The port for clients.
    clients: u16,
    /// The ports at which it listens for the other members. etcd uses the first alone.
    own: [u16; 2],
    /// The ports at which the others find it: these, or the near ends of links.
    outer: [u16; 2],
}

/// The file that is missing, if one is.
pub fn missing(service: Service) -> Option<String> {
    let file = match service {
        Service::Etcd => etcd(),
        _ => ZOOKEEPER.into(),
    };
    (!file.is_file()).then(|| format!("{} is missing", file.display()))
}

fn etcd() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers/etcd/usr/bin/etcd")
}

/// Debian's, which names all other files that it needs.
const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar";
/// Members may take this long to start, and to choose a leader over long links.
const PATIENCE: Duration = Duration::from_secs(60);

impl Members {
    /// Starts this many members, each this far from the others. Returns their ports without a link,
    /// too.
    pub fn start(
        service: Service,
        count: usize,
        each_way: Option<Duration>,
    ) -> Result<(Members, Vec<u16>), String> {
        let own: Vec<[u16; 2]> = (0..count).map(|_| [ports::free(), ports::free()]).collect();
        let links = each_way.map(|each_way| Links::start(own.as_flattened(), each_way)).transpose();
        let links = links.map_err(|error| format!("no links: {error}"))?;
        let outer = links.as_ref().map_or(own.as_flattened(), Links::ports);
        let member = |(own, outer): (&[u16; 2], &[u16])| Member {
            clients: ports::free(),
            own: *own,
            outer: [outer[0], outer[1]],
        };
        let all: Vec<Member> = own.iter().zip(outer.chunks_exact(2)).map(member).collect();
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut members = Members { children: Vec::new(), _links: links, _folder: folder };
        for number in 0..count {
            let files = members._folder.path().join(number.to_string());
            let child = begin(service, &all, number, &files);
            members.children.push(child.map_err(|error| error.to_string())?);
        }
        let deadline = Instant::now() + PATIENCE;
        let ports: Vec<u16> = all.iter().map(|member| member.clients).collect();
        while !ports.iter().all(|port| serves(service, *port)) {
            if Instant::now() > deadline {
                return Err(format!("{service:?}: no leader in {PATIENCE:?}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok((members, ports))
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn begin(service: Service, all: &[Member], number: usize, files: &Path) -> std::io::Result<Child> {
    fs::create_dir(files)?;
    let mut command = match service {
        Service::Etcd => etcd_member(all, number, files),
        _ => zookeeper_member(all, number, files)?,
    };
    let log = fs::File::create(files.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    process::spawn(command)
}

fn etcd_member(all: &[Member], number: usize, files: &Path) -> Command {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let name = |number: usize| format!("member-{number}");
    let cluster = all.iter().enumerate();
    let cluster = cluster.map(|(number, one)| format!("{}={}", name(number), url(one.outer[0])));
    let member = &all[number];
    let mut command = Command::new(etcd());
    command.arg("--data-dir").arg(files).args(["--name", &name(number)]);
    for (option, port) in [
        ("--listen-client-urls", member.clients),
        ("--advertise-client-urls", member.clients),
        ("--listen-peer-urls", member.own[0]),
        ("--initial-advertise-peer-urls", member.outer[0]),
    ] {
        command.args([option, &url(port)]);
    }
    command.args(["--initial-cluster", &cluster.collect::<Vec<_>>().join(",")]);
    command
}

fn zookeeper_member(all: &[Member], number: usize, files: &Path) -> std::io::Result<Command> {
    let mut config = format!(
        "dataDir={}\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n\
         admin.enableServer=false\n",
        files.display()
    );
    for (other, one) in all.iter().enumerate() {
        let [peers, election] = if other == number { one.own } else { one.outer };
        let clients = one.clients;
        config += &format!("server.{other}=127.0.0.1:{peers}:{election};127.0.0.1:{clients}\n");
    }
    let file = files.join("zoo.cfg");
    fs::write(&file, config)?;
    fs::write(files.join("myid"), number.to_string())?;
    let mut command = Command::new("java");
    command.args(["-cp", ZOOKEEPER, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]).arg(file);
    Ok(command)
}

/// True if a member has a leader, or is the leader.
fn serves(service: Service, port: u16) -> bool {
    let (question, answer) = match service {
        Service::Etcd => ("GET /health HTTP/1.0\r\n\r\n", "\"health\":\"true\""),
        _ => ("srvr", "Mode: "),
    };
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(question.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|text| text.contains(answer))
}
