//! A headless Chromium, driven over WebDriver.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use super::{DEADLINE, free_port, is_listening, wait_for};

/// The key of an element id in answers of WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it. Panics with the names of missing Debian packages.
    pub(crate) fn start() -> Self {
        let port = free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("this test needs a browser ({error}): install Debian's packages `chromium` and `chromium-driver`")
            });
        let profile = tempfile::Builder::new().prefix("mixer-chromium").tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        wait_for(DEADLINE, || is_listening(port).then_some(())).expect("chromedriver answers");
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
        }}});
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Sends a request to the driver; returns the member `value`.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver answers");
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (head, body) = read_answer(stream);
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page.
    pub(crate) fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// The URL of the current page.
    pub(crate) fn address(&self) -> String {
        self.command("GET", "/url", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Runs the body of a function in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        if wait_for(DEADLINE, || (self.run(&script) == json!(true)).then_some(())).is_none() {
            panic!("`{expression}` does not become true: {}", self.text("main"));
        }
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Clicks the first match of the selector.
    pub(crate) fn click(&self, selector: &str) {
        self.command("POST", &format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types into the first match of the selector.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        self.command("POST", &format!("/element/{}/value", self.element(selector)), &json!({ "text": text }));
    }

    /// The visible text of the first match of the selector.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.command("GET", &format!("/element/{}/text", self.element(selector)), &Value::Null);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.command("POST", "/actions", &body);
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// A window of that size and theme (`light` or `dark`).
    pub(crate) fn resize(&self, width: u32, height: u32, theme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// A picture of the window, as PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let shot = self.devtools("Page.captureScreenshot", &json!({"format": "png"}));
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap_or_default()).unwrap()
    }

    /// Whether the pictures in docs/img are to be written.
    pub(crate) fn writes_pictures() -> bool {
        std::env::var_os("UPDATE_SCREENSHOTS").is_some()
    }

    /// Writes a picture of the window to docs/img, once the page stands still.
    pub(crate) fn keep(&self, name: &str) {
        self.wait("document.readyState === 'complete' && document.fonts.status === 'loaded' && document.getAnimations().every(a => a.playState !== 'running')");
        let picture = self.picture();
        assert!(picture.len() < 150_000, "{name}: {} bytes", picture.len());
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/img");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), picture).unwrap();
    }

    /// Writes pictures of the page that is open, as desktops and phones show it, if pictures are to be written. The window then has the
    /// width of a phone.
    pub(crate) fn keep_both(&self, name: &str) {
        if Self::writes_pictures() {
            for (width, height) in [(1280, 800), (390, 844)] {
                self.resize(width, height, "light");
                self.keep(&format!("{name}-{width}"));
            }
        }
    }

    /// Messages on the console since the last call.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().into_iter().flatten();
        entries.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Head and body of an HTTP response. The driver keeps the connection open in spite of its headers.
fn read_answer(stream: TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("an HTTP answer"), 0, "{head}");
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.expect("a length")];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).expect("text"))
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Ends Chromium too; a driver that does not answer is killed below.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.ask("DELETE", &format!("/session/{}", self.session), &json!({}))
            }));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
