//! Prometheus itself, with the metrics of `dlock exporter`: its answers to PromQL, and to every query of the
//! dashboard for Grafana.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use harness::exporter::Exporter;
use harness::{Kind, Server, eventually, ports, process};
use serde_json::Value;
use tempfile::TempDir;

use crate::installed;
use crate::monitoring;

/// Prometheus with the configuration of docs/monitoring, once a second, and what it scrapes.
struct Prometheus {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Prometheus {
    #[track_caller]
    fn of(exporter: &Exporter) -> Prometheus {
        let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
        let config = monitoring::file("prometheus.yml")
            .replace("127.0.0.1:9763", &exporter.at)
            .replace("scrape_interval: 15s", "scrape_interval: 1s");
        assert!(config.contains(&exporter.at) && config.contains(": 1s"), "{config}");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("prometheus.yml"), config).expect("there is room");
        fs::write(path("alerts.yml"), monitoring::file("alerts.yml")).expect("there is room");
        let port = ports::free();
        let mut command = Command::new(installed("prometheus/usr/bin/prometheus"));
        command.arg(format!("--config.file={}", path("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", path("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = process::spawn(command).expect("it is there: scripts/world.sh");
        let prometheus = Prometheus { child, port, _folder: folder };
        eventually("it has scraped", || prometheus.number("up{job=\"dlock\"}") == Some(1.0));
        prometheus
    }

    /// The answer to a question; `None`: Prometheus does not listen yet.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }

    /// The series that a question in PromQL gives now.
    #[track_caller]
    fn series(&self, question: &str) -> Vec<Value> {
        let Some(answer) = self.ask(&format!("query?query={}", encoded(question))) else {
            return Vec::new();
        };
        // Prometheus has no answer while it starts.
        if answer["errorType"] == "unavailable" {
            return Vec::new();
        }
        assert_eq!(answer["status"], "success", "{question}: {answer}");
        answer["data"]["result"].as_array().expect("it is a list").clone()
    }

    /// The value of the only series, if there is one.
    #[track_caller]
    fn number(&self, question: &str) -> Option<f64> {
        let series = self.series(question);
        assert!(series.len() <= 1, "{question}: {series:?}");
        series.first()?["value"][1].as_str()?.parse().ok()
    }

    #[track_caller]
    fn until_it_says(&self, question: &str, value: f64) {
        eventually(&format!("{question} is {value}"), || self.number(question) == Some(value));
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn every_question_of_the_dashboard_has_an_answer() {
    // A figure with a limit is shown with it.
    let server = Server::build(Kind::Redis82).config("maxmemory 1gb").start();
    let exporter = Exporter::start(&[format!("127.0.0.1:{}", server.port())], &[]);
    let prometheus = Prometheus::of(&exporter);
    server.run("DLOCK.ACQUIRE job:42 alice 600000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job:42 bob 600000 WAIT 0");
    let _carol = server.waiter("DLOCK.ACQUIRE job:42 carol 600000 WAIT 0");
    prometheus.until_it_says("sum(dlock_waiters)", 2.0);
    server.run("DLOCK.RELEASE job:42 alice");
    bob.recv();
    let dashboard: Value =
        serde_json::from_str(&monitoring::file("grafana.json")).expect("it is JSON");
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("there are panels") {
        let title = panel["title"].as_str().expect("it has a title");
        let targets = panel["targets"].as_array().expect("it asks something");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let question = target["expr"].as_str().expect("it is PromQL");
            assert!(asked.insert(question.to_owned()), "{title} asks what another one asks");
            let question = question
                .replace("$job", ".*")
                .replace("$node", ".*")
                .replace("$__rate_interval", "1m");
            assert!(!question.contains('$'), "{question}");
            if EMPTY.contains(&title) {
                assert_eq!(prometheus.series(&question), [] as [Value; 0], "{title}");
            } else {
                eventually(&format!("{title}: {question} has an answer"), || {
                    let series = prometheus.series(&question);
                    series.iter().any(|one| one["value"][1].as_str().is_some_and(|n| n != "NaN"))
                });
            }
        }
    }
    assert!(asked.len() >= 15, "{asked:?}");
    for list in dashboard["templating"]["list"].as_array().expect("there are variables") {
        let Some(query) = list["query"].as_str().filter(|query| query.contains("label_values"))
        else {
            continue;
        };
        let (selector, label) = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(", "))
            .expect("it asks for the values of a label");
        let question = format!("count by ({label}) ({})", selector.replace("$job", ".*"));
        assert_eq!(prometheus.series(&question).len(), 1, "{question}");
    }
}

/// Panels that are empty while all is well: every node grants.
const EMPTY: [&str; 1] = ["Why nodes do not grant"];
