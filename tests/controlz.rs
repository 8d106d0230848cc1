//! ControlZ of a running server, in a real browser and by plain HTTP.
//!
//! `UPDATE_SCREENSHOTS=1 cargo test --test controlz` writes the pictures in docs/img/.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[expect(clippy::allow_attributes, reason = "each test program uses its part of the support")]
#[allow(dead_code, reason = "see above")]
#[path = "support/process.rs"]
mod process;

#[path = "support/browser.rs"]
mod browser;

use std::path::Path;
use std::time::Duration;

use browser::Browser;
use process::{PATIENCE, Server, ServerArguments, http, programs, run, wait_for};

/// Every page of the navigation.
const PAGES: &[&str] = &[
    "/",
    "/latencyz/",
    "/denialz/",
    "/callerz/",
    "/poolz/",
    "/configz/",
    "/historyz/",
    "/routesz/",
    "/explainz/",
    "/handlerz/",
    "/quotaz/",
    "/cachez/",
    "/scopez/",
    "/memz/",
    "/envz/",
    "/procz/",
    "/argz/",
    "/versionz/",
    "/metricz/",
    "/signalz/",
];

/// A rule with two mistakes.
const CROOKED: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: rule
metadata:
  name: only-ann
  namespace: istio-system
spec:
  match: source.user = = "ann"
  actions:
  - handler: gate-keeper
    instances: [caller]
"#;

/// A server on the sample configuration and something wrong, with some traffic behind it.
struct Stage {
    server: Server,
    configuration: tempfile::TempDir,
}

impl Stage {
    fn new(more: &[&str]) -> Self {
        let configuration = tempfile::Builder::new().prefix("mixer-conf").tempdir().unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/config");
        for entry in std::fs::read_dir(sample).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), configuration.path().join(entry.file_name())).unwrap();
        }
        std::fs::write(configuration.path().join("only-ann.yaml"), CROOKED).unwrap();
        let arguments =
            ServerArguments::on(configuration.path()).with(&["--numCheckCacheEntries=1000"]).with(more);
        let server = Server::start(&arguments).unwrap();
        Self { server, configuration }
    }

    fn call(&self, arguments: &[&str]) {
        let mut all = vec![arguments[0].to_owned(), "--mixer".to_owned(), self.server.address()];
        all.extend(arguments[1..].iter().map(|a| (*a).to_owned()));
        let done = run(&programs().path("mixc"), &all, &[], None, None, PATIENCE).unwrap();
        assert_eq!(done.status, 0, "{}", done.stderr);
    }

    fn traffic(&self) {
        let name = "source.name=web,destination.service=reviews";
        self.call(&["check", "-r", "200", "-s", name, "-q", "request-count=1"]);
        let refused = "request.headers=clnt:abc;authorization:Bearer 123";
        self.call(&["check", "-r", "3", "-s", name, "--stringmap_attributes", refused]);
        let report = "context.protocol=http,source.workload.name=web,destination.service.host=reviews";
        self.call(&["report", "-r", "20", "-s", report, "-t", "request.time=2019-01-02T03:04:05Z"]);
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.server.ctrlz)
    }
}

fn get_json(url: &str) -> serde_json::Value {
    serde_json::from_str(&http("GET", url, "").unwrap().body).unwrap()
}

#[test]
fn pages_work_in_a_browser() {
    let stage = Stage::new(&[]);
    let browser = Browser::start();
    stage.traffic();

    // Every page, at the width of a desk and of a phone, light and dark: nothing sticks out, nothing complains.
    for (width, theme) in [(1280, "light"), (390, "dark")] {
        browser.resize(width, 900, theme);
        for page in PAGES {
            browser.open(&stage.url(page));
            browser.wait("document.querySelector('#pause:not([hidden])')");
            let fits = browser.run("return document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(fits, true, "{page} at {width}");
            let marked = browser.run("return document.querySelector('nav a[aria-current]').pathname");
            assert_eq!(marked, *page);
        }
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }

    browser.resize(1280, 900, "light");
    levels_change(&stage, &browser);
    keys_and_filters(&stage, &browser);
    pages_refresh_themselves(&stage, &browser);
    denials_are_explained(&stage, &browser);
    changes_are_compared(&stage, &browser);
    themes_change(&browser);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        pictures(&stage, &browser);
    }
}

fn levels_change(stage: &Stage, browser: &Browser) {
    browser.open(&stage.url("/scopez/"));
    let menu = "select[form=scope-api][name=output_level]";
    browser.run(&format!(
        "const m = document.querySelector('{menu}'); m.value = 'debug'; m.dispatchEvent(new Event('change', {{bubbles: true}}))"
    ));
    browser.wait("document.querySelector('#refreshed').textContent === 'saved'");
    assert_eq!(get_json(&stage.url("/scopej/api"))["output_level"], "debug");
    browser.wait(&format!("document.querySelector('{menu}').value === 'debug'"));
}

fn keys_and_filters(stage: &Stage, browser: &Browser) {
    browser.press("gc");
    browser.wait("location.pathname === '/configz/'");
    assert!(browser.text("main").contains("only-ann.rule.istio-system"), "the problem is shown");
    assert_eq!(browser.run("return document.querySelector('pre.source mark').textContent.length > 0"), true);
    browser.press("/");
    browser.wait("document.activeElement.id === 'filter'");
    browser.type_into("#filter", "memquota");
    browser.wait("location.search === '?q=memquota'");
    browser.type_into("#filter", "\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}limits");
    browser.wait("document.querySelectorAll('#resources tbody tr').length === 1");
    browser.press("\u{e00c}");
    browser.press("]");
    browser.wait("location.pathname === '/historyz/'");
    browser.press("?");
    browser.wait("document.querySelector('#help').open");
    browser.press("\u{e00c}");
    browser.wait("!document.querySelector('#help').open");
    browser.open(&stage.url("/configz/resource?name=limits.handler.istio-system"));
    assert!(browser.text("main").contains("Effective parameters"));
}

fn pages_refresh_themselves(stage: &Stage, browser: &Browser) {
    browser.open(&stage.url("/denialz/"));
    let kept = "document.querySelectorAll('.denials > li').length";
    let before = browser.run(&format!("return {kept}")).as_u64().unwrap();
    assert!(before >= 3, "{before}");
    browser.run("document.querySelector('.denials details').open = true");
    let refused = "request.headers=clnt:abc";
    stage.call(&["check", "-s", "source.name=other", "--stringmap_attributes", refused]);
    browser.wait(&format!("{kept} === {}", before + 1));
    browser.wait("document.querySelectorAll('.denials details[open]').length === 1");
    assert!(!browser.text("main").contains("Bearer"), "secrets are masked");
}

fn denials_are_explained(stage: &Stage, browser: &Browser) {
    browser.open(&stage.url("/denialz/"));
    browser.run("document.querySelector('.denials details').open = true");
    browser.click(".denials li a.button");
    browser.wait("location.pathname === '/explainz/'");
    browser.click("form.stack button.primary");
    browser.wait("document.querySelector('#answer')");
    let answer = browser.text("#answer");
    assert!(answer.contains("Refused") && answer.contains("unwelcome-client"), "{answer}");
    // A wrong name is told, with what was meant.
    browser.run("document.querySelector('textarea').value = 'source.nam = x'");
    browser.click("form.stack button.primary");
    browser.wait("document.querySelector('[role=alert]')");
    assert!(browser.text("[role=alert]").contains("source.name"));
}

fn changes_are_compared(stage: &Stage, browser: &Browser) {
    browser.open(&stage.url("/historyz/"));
    let mended = CROOKED.replace("= =", "==").replace("gate-keeper", "turn-away").replace("ann\"", "bob\"");
    std::fs::write(stage.configuration.path().join("only-ann.yaml"), mended).unwrap();
    // The page notices by itself.
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    browser.click("form#compare button");
    browser.wait("location.pathname === '/historyz/diff'");
    let diff = browser.text("main");
    assert!(diff.contains("source.user = = \"ann\"") && diff.contains("source.user == \"bob\""), "{diff}");
    browser.open(&stage.url("/configz/"));
    assert!(!browser.text("main").contains("Problems"), "mended");
}

fn themes_change(browser: &Browser) {
    let colour = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(colour);
    browser.press("t");
    browser.press("t");
    assert_eq!(browser.run("return document.documentElement.dataset.theme"), "dark");
    assert_ne!(browser.run(colour), light);
    browser.press("t");
}

fn pictures(stage: &Stage, browser: &Browser) {
    std::fs::write(stage.configuration.path().join("only-ann.yaml"), CROOKED).unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/img");
    std::fs::create_dir_all(&directory).unwrap();
    for _ in 0..6 {
        stage.traffic();
        std::thread::sleep(Duration::from_millis(1500));
    }
    for (name, page, width, height, theme) in [
        ("overview-light", "/", 1280, 900, "light"),
        ("configuration-dark", "/configz/", 1280, 900, "dark"),
        ("latency-light", "/latencyz/", 1280, 900, "light"),
        ("denials-dark", "/denialz/", 1280, 700, "dark"),
        ("routes-light", "/routesz/?q=check", 1280, 700, "light"),
        ("history-light", "/historyz/", 1280, 560, "light"),
        ("overview-phone", "/", 390, 844, "dark"),
        ("handlers-phone", "/handlerz/", 390, 844, "light"),
    ] {
        browser.resize(width, height, theme);
        browser.open(&stage.url(page));
        std::thread::sleep(Duration::from_millis(300));
        std::fs::write(directory.join(format!("{name}.png")), browser.picture()).unwrap();
    }
    browser.resize(1280, 1000, "light");
    browser.open(
        &stage.url("/explainz/?attributes=source.name%20%3D%20web%0Arequest.headers%5Bclnt%5D%20%3D%20abc"),
    );
    browser.click("form.stack button.primary");
    browser.wait("document.querySelector('#answer')");
    std::fs::write(directory.join("explain-light.png"), browser.picture()).unwrap();
}

#[test]
fn foreign_pages_and_names_are_kept_out() {
    let stage = Stage::new(&[]);
    let browser = Browser::start();
    // A page of another origin: the same server under another name is one to the browser.
    browser.open(&format!("http://localhost:{}/versionz/", stage.server.ctrlz));
    let script = format!(
        "return fetch('{}', {{method: 'POST', mode: 'no-cors', body: new URLSearchParams('scope=api&output_level=none')}})\
         .then(() => 'sent', () => 'kept')",
        stage.url("/scopez/")
    );
    // The policy of our own pages stops it already; the server does as well.
    assert_eq!(browser.run(&script), "kept");
    assert_eq!(get_json(&stage.url("/scopej/api"))["output_level"], "info");

    let ask = |head: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", stage.server.ctrlz)).unwrap();
        stream
            .write_all(format!("{head}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes())
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(ask("PUT /scopej/api HTTP/1.1\r\nHost: localhost"), "202");
    assert_eq!(ask("PUT /scopej/api HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example"), "403");
    assert_eq!(ask("GET /envj/ HTTP/1.1\r\nHost: evil.example"), "421");
}

#[test]
fn a_token_opens_and_the_page_stops_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "open sesame\n").unwrap();
    let mut stage = Stage::new(&[&format!("--ctrlz_token_file={}", file.display())]);
    assert_eq!(http("GET", &stage.url("/memj/"), "").unwrap().status, 401);
    let browser = Browser::start();
    browser.open(&stage.url("/memz/"));
    browser.type_into("input[name=token]", "open sesame");
    browser.click("button");
    browser.wait("document.querySelector('h1').textContent === 'Overview'");

    browser.run("document.querySelector('details.danger').open = true");
    browser.click("details.danger button");
    browser.wait("document.querySelector('dialog.ask[open]')");
    browser.click("dialog.ask button.danger");
    browser.wait("document.querySelector('[data-stopping]')");
    assert_eq!(browser.address(), stage.url("/exit"));
    browser.wait("document.querySelector('[data-stopping]').textContent === 'The process has ended.'");
    let ended = wait_for(PATIENCE, || (!stage.server.is_alive()).then_some(()));
    assert!(ended.is_some(), "{}", stage.server.log());
}

#[test]
fn read_only_shows_and_changes_nothing() {
    let stage = Stage::new(&["--ctrlz_readonly"]);
    let browser = Browser::start();
    browser.open(&stage.url("/scopez/"));
    assert_eq!(browser.run("return document.querySelectorAll('main select:not([disabled])').length"), 0);
    assert_eq!(http("PUT", &stage.url("/scopej/api"), "{}").unwrap().status, 403);
    assert_eq!(http("PUT", &stage.url("/homej/exit"), "").unwrap().status, 403);
}

/// The members of `perftools.profiles.Profile` that are looked at.
#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

impl Profile {
    /// Reads what the server answers on that path.
    fn get(stage: &Stage, path: &str) -> Self {
        use prost::Message as _;
        use std::io::Read as _;
        let url = format!("http://127.0.0.1:{}{path}", stage.server.monitoring);
        let answer = http_bytes(&url);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(answer.as_slice()).read_to_end(&mut bytes).unwrap();
        Self::decode(bytes.as_slice()).unwrap()
    }

    fn types(&self) -> Vec<(&str, &str)> {
        let text = |at: i64| self.string_table[usize::try_from(at).unwrap()].as_str();
        self.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect()
    }

    /// Values of all samples, added up.
    fn total(&self) -> i64 {
        self.sample.iter().filter_map(|sample| sample.value.last()).sum()
    }

    fn names(&self, part: &str) -> bool {
        self.string_table.iter().any(|text| text.contains(part))
    }
}

/// The body of an answer that is no text.
fn http_bytes(url: &str) -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert!(bytes.starts_with(b"HTTP/1.0 200") || bytes.starts_with(b"HTTP/1.1 200"), "{url}");
    bytes.split_off(end + 4)
}

#[test]
fn profiles_name_what_runs_and_what_holds_memory() {
    let stage = Stage::new(&[]);
    let (cpu, heap) = std::thread::scope(|scope| {
        let cpu = scope.spawn(|| Profile::get(&stage, "/debug/pprof/profile?seconds=3"));
        let heap = scope.spawn(|| Profile::get(&stage, "/debug/pprof/heap?seconds=2"));
        stage.call(&["check", "-r", "4000", "-c", "2", "--print_response=false", "-s", "source.name=web"]);
        std::fs::write(stage.configuration.path().join("more.yaml"), CROOKED.replace("only-ann", "more"))
            .unwrap();
        (cpu.join().unwrap(), heap.join().unwrap())
    });
    assert_eq!(cpu.types(), [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(cpu.names("mixer::core::") && cpu.names("worker-0"));
    assert!(cpu.total() > 100_000_000, "{} ns", cpu.total());
    assert_eq!(heap.types(), [("inuse_objects", "count"), ("inuse_space", "bytes")]);
    assert!(heap.total() > 64 << 10, "{} bytes", heap.total());
    assert!(heap.names("mixer::core::") && !heap.names("SampledAllocator"));
}

#[test]
fn memory_can_be_sampled_from_the_start() {
    let stage = Stage::new(&["--heap-profile-rate=16384"]);
    let heap = Profile::get(&stage, "/debug/pprof/heap");
    assert!(heap.names("mixer::core::snapshot::"), "the configuration was read before anybody asked");
}
