//! A page as a person sees it: in Chromium without a window, which the test drives over two pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process;
use crate::wait::{PATIENCE, eventually};

/// A browser with one page.
pub struct Browser {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    orders_given: u64,
    /// Errors of the page's script, and requests that its policy forbids.
    pub complaints: Vec<String>,
    _home: TempDir,
}

/// The colour scheme that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Browser {
    /// Starts it with an empty page.
    #[track_caller]
    pub fn start() -> Browser {
        let home = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
        let mut command = Command::new("sh");
        // Chromium reads commands at 3 and answers at 4.
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", home.path().display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::spawn(command).expect("there is a shell");
        let orders = child.stdin.take().expect("it is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (heard, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in answers.split(0) {
                let message = message.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let Some(message) = message else { return };
                if heard.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (None, Vec::new());
        let mut browser =
            Browser { child, orders, messages, session, orders_given: 0, complaints, _home: home };
        browser.attach();
        browser
    }

    #[track_caller]
    fn attach(&mut self) {
        let target = self.order("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.order("Target.attachToTarget", attach);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            self.order(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Opens a page in a window of this size.
    #[track_caller]
    pub fn open(&mut self, url: &str, (width, height): (u32, u32), scheme: Scheme) {
        self.complaints.clear();
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.order("Emulation.setDeviceMetricsOverride", size);
        let likes = if scheme == Scheme::Dark { "dark" } else { "light" };
        let likes = json!([{"name": "prefers-color-scheme", "value": likes}]);
        self.order("Emulation.setEmulatedMedia", json!({"features": likes}));
        let opened = self.order("Page.navigate", json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// Evaluates an expression in the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.order("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// The text that is seen, hidden parts left out.
    #[track_caller]
    pub fn text(&mut self) -> String {
        let text = self.value("document.body ? document.body.innerText : ''");
        text.as_str().expect("it is text").to_owned()
    }

    /// Waits until a text is seen.
    #[track_caller]
    pub fn until_it_shows(&mut self, text: &str) {
        eventually(&format!("the page shows {text:?}"), || self.text().contains(text));
    }

    /// A picture of the window, as PNG.
    #[track_caller]
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.order("Page.captureScreenshot", json!({"format": "png"}));
        STANDARD.decode(picture["data"].as_str().expect("it is text")).expect("it is base64")
    }

    #[track_caller]
    fn order(&mut self, method: &str, params: Value) -> Value {
        self.orders_given += 1;
        let mut order = json!({"id": self.orders_given, "method": method, "params": params});
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let bytes = [order.to_string().as_bytes(), b"\0"].concat();
        self.orders.write_all(&bytes).expect(MISSING);
        loop {
            let mut message = self.messages.recv_timeout(PATIENCE).expect(MISSING);
            if message["id"] == self.orders_given {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(params["exceptionDetails"].to_string());
            }
            Some("Runtime.consoleAPICalled") => self.complaints.push(params["args"].to_string()),
            Some("Log.entryAdded") => self.complaints.push(params["entry"].to_string()),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const MISSING: &str = "chromium answers: `make test-world` installs it";
