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
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A variable of the environment of every server here.
const SECRET: (&str, &str) = ("BACKEND_PASSWORD", "open sesame");

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
        let mut arguments =
            ServerArguments::on(configuration.path()).with(&["--numCheckCacheEntries=1000"]).with(more);
        arguments.environment.push((SECRET.0.to_owned(), SECRET.1.to_owned()));
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

    /// What a busy caller does in about a second.
    fn calls_of(&self, caller: &str) {
        let names = format!("source.name={caller},destination.service=reviews.shop.svc.cluster.local");
        let quiet = ["--rate", "400", "--print_response=false", "-s", &names];
        let with = |first: &[&str], more: &[&str]| self.call(&[first, &quiet, more].concat());
        with(&["check", "-r", "300"], &["-q", "request-count=1"]);
        let refused = "request.headers=clnt:abc;:path:/cart;authorization:Bearer 123";
        with(&["check", "-r", "2"], &["--stringmap_attributes", refused]);
        let closed = format!("source.name={caller},destination.service=closed.ns.svc.cluster.local");
        self.call(&["check", "-s", &closed]);
        let reported =
            format!("context.protocol=http,source.workload.name={caller},destination.service.host=reviews");
        self.call(&["report", "-r", "30", "-s", &reported, "-t", "request.time=2019-01-02T03:04:05Z"]);
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

/// The pictures in docs/img, with traffic going on.
fn pictures(stage: &Stage, browser: &Browser) {
    std::fs::write(stage.configuration.path().join("only-ann.yaml"), CROOKED).unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/img");
    std::fs::create_dir_all(&directory).unwrap();
    let keep = |name: &str| {
        let picture = browser.picture();
        assert!(picture.len() < 150_000, "{name}: {} bytes", picture.len());
        std::fs::write(directory.join(format!("{name}.png")), picture).unwrap();
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for caller in ["web", "reviews", "batch"] {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    stage.calls_of(caller);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(80));
        for (name, page, width, height, theme) in [
            ("overview-light", "/", 1280, 960, "light"),
            ("configuration-dark", "/configz/", 1280, 900, "dark"),
            ("latency-dark", "/latencyz/", 1280, 900, "dark"),
            ("denials-light", "/denialz/", 1280, 700, "light"),
            ("handlers-light", "/handlerz/", 1280, 700, "light"),
            ("history-light", "/historyz/", 1280, 560, "light"),
            ("overview-phone", "/", 390, 844, "dark"),
        ] {
            browser.resize(width, height, theme);
            browser.open(&stage.url(page));
            std::thread::sleep(Duration::from_millis(300));
            keep(name);
        }
        browser.resize(1280, 1000, "light");
        browser
            .open(&stage.url(
                "/explainz/?attributes=source.name%20%3D%20web%0Arequest.headers%5Bclnt%5D%20%3D%20abc",
            ));
        browser.click("form.stack button.primary");
        browser.wait("document.querySelector('#answer')");
        keep("explain-light");
        done.store(true, Ordering::Relaxed);
    });
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
    let secret = |stage: &Stage| {
        let all = get_json(&stage.url("/envj/?reveal=1"));
        all.as_array().unwrap().iter().find(|v| v["name"] == SECRET.0).map(|v| v["value"].clone()).unwrap()
    };
    assert_eq!(secret(&stage), "***");
    let open = Stage::new(&[]);
    assert_eq!(secret(&open), SECRET.1);
    browser.open(&open.url("/envz/"));
    assert!(browser.text("main").contains(SECRET.0) && !browser.text("main").contains(SECRET.1));
}

/// Every answer for programs, of both ports.
const DOCUMENTS: &[&str] = &[
    "/homej/",
    "/scopej/",
    "/scopej/api",
    "/memj/",
    "/envj/",
    "/procj/",
    "/argj/",
    "/versionj/",
    "/metricj/",
    "/snapshotj/",
    "/routesj/",
    "/diagnosticsj/",
    "/historyj/",
    "/handlerj/",
    "/quotaj/",
    "/cachej/",
    "/callerj/",
    "/poolj/",
    "/denialj/",
    "/latencyj/",
];

fn header<'a>(answer: &'a process::HttpAnswer, name: &str) -> &'a str {
    answer.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
}

#[test]
fn every_endpoint_answers() {
    let stage = Stage::new(&[]);
    let get = |url: &str| http("GET", url, "").unwrap();
    for path in PAGES {
        let answer = get(&stage.url(path));
        assert_eq!(
            (answer.status, header(&answer, "content-type")),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(header(&answer, "content-security-policy").contains("default-src 'none'"), "{path}");
        if *path != "/" {
            let bare = get(&stage.url(path.trim_end_matches('/')));
            let is_scopes = *path == "/scopez/";
            assert_eq!(bare.status, if is_scopes { 200 } else { 301 }, "{path} without its slash");
        }
    }
    for path in DOCUMENTS {
        let answer = get(&stage.url(path));
        assert_eq!(
            (answer.status, header(&answer, "content-type")),
            (200, "application/json; charset=utf-8"),
            "{path}"
        );
        let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(document.is_object() || document.is_array(), "{path}");
    }
    assert_eq!(get(&stage.url("/nosuch/")).status, 404);
    assert_eq!(http("POST", &stage.url("/homej/exit"), "").unwrap().status, 405);
    assert_eq!(http("PUT", &stage.url("/memj/forcecollection"), "").unwrap().status, 202);
    assert_eq!(http("PUT", &stage.url("/signalj/SIGUSR1"), "").unwrap().status, 202);

    let monitored = |path: &str| get(&format!("http://127.0.0.1:{}{path}", stage.server.monitoring));
    for path in ["/metrics", "/version", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol"] {
        assert_eq!(monitored(path).status, 200, "{path}");
    }
    assert!(monitored("/debug/pprof/cmdline").body.contains("--numCheckCacheEntries=1000"));
    assert_eq!(monitored("/debug/pprof/mutex").status, 501);
    let expected = if cfg!(feature = "profiling") { 400 } else { 501 };
    assert_eq!(monitored("/debug/pprof/profile?seconds=0").status, expected);
}

/// Calls of this one are never answered.
const SLEEPY: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: sleeper, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: wait-for-ever, namespace: istio-system}
spec:
  match: source.name == "sleepy"
  actions: [{handler: sleeper, instances: [caller]}]
"#;

/// Ends a client that waits.
struct Waiting(std::process::Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn numbers_are_those_of_the_calls_made() {
    let stage = Stage::new(&[]);
    std::fs::write(stage.configuration.path().join("sleepy.yaml"), SLEEPY).unwrap();
    let handler = |name: &str| {
        let all = get_json(&stage.url("/handlerj/"));
        all.as_array().unwrap().iter().find(|h| h["resource"].as_str().unwrap().starts_with(name)).cloned()
    };
    wait_for(PATIENCE, || handler("sleeper.")).expect("the new handler is shown");

    stage.call(&["check", "-r", "100", "-s", "source.name=web"]);
    let third = ["--stringmap_attributes", "source.labels=version:v3", "-s", "source.name=web"];
    stage.call(&[["check", "-r", "3", "-q", "request-count=1"].as_slice(), &third].concat());
    stage.call(&[
        "check",
        "-r",
        "4",
        "-s",
        "source.name=web",
        "--stringmap_attributes",
        "request.headers=clnt:abc",
    ]);
    let report = "context.protocol=http,source.workload.name=web,destination.service.host=reviews";
    stage.call(&["report", "-r", "20", "-s", report, "-t", "request.time=2019-01-02T03:04:05Z"]);

    let quotas = get_json(&stage.url("/quotaj/"));
    let used = |quota: &serde_json::Value| {
        let top = quota["top"].as_array().unwrap().clone();
        top.iter().find(|of| of[0].as_str().unwrap().contains("v3")).map(|of| of[1].as_i64().unwrap())
    };
    assert_eq!(quotas.as_array().unwrap().iter().find_map(used), Some(3), "{quotas}");
    assert_eq!(handler("limits.").unwrap()["calls"], 3);
    assert_eq!(handler("turn-away.").unwrap()["errors"], 0);
    let cache = get_json(&stage.url("/cachej/"));
    let number =
        |of: &serde_json::Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"));
    assert!(number(&cache, "hits") >= 99 + 3 && number(&cache, "misses") >= 2, "{cache}");
    assert_eq!(get_json(&stage.url("/denialj/")).as_array().unwrap().len(), 4);
    let latency = get_json(&stage.url("/latencyj/"));
    let calls = latency["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|of| number(of, "count")).collect::<Vec<_>>(), [107, 20], "{latency}");
    let series = handler("prometheus-http.").unwrap()["queues"].clone();
    assert!(series.as_array().unwrap().iter().any(|of| number(of, "length") == 1), "{series}");

    let connections = || get_json(&stage.url("/callerj/")).as_array().unwrap().len();
    assert!(wait_for(PATIENCE, || (connections() == 0).then_some(())).is_some(), "all have gone");
    let address = ("127.0.0.1", stage.server.api);
    let held =
        [std::net::TcpStream::connect(address).unwrap(), std::net::TcpStream::connect(address).unwrap()];
    assert!(wait_for(PATIENCE, || (connections() == 2).then_some(())).is_some());
    drop(held);

    let asleep = |_| {
        let mut client = std::process::Command::new(programs().path("mixc"));
        client.args(["check", "--mixer", &stage.server.address(), "-s", "source.name=sleepy"]);
        Waiting(client.stdin(std::process::Stdio::null()).spawn().unwrap())
    };
    let asleep: Vec<Waiting> = (0..3).map(asleep).collect();
    let pools = || get_json(&stage.url("/poolj/"));
    let under_way = || (number(&pools()["api"], "inFlight"), number(&pools()["adapter"], "inFlight"));
    assert!(wait_for(PATIENCE, || (under_way() == (3, 3)).then_some(())).is_some(), "{}", pools());
    let queue = handler("sleeper.").unwrap()["queues"][0].clone();
    assert_eq!((queue["name"].as_str(), queue["length"].as_u64()), (Some("calls under way"), Some(3)));
    let metrics =
        http("GET", &format!("http://127.0.0.1:{}/metrics", stage.server.monitoring), "").unwrap().body;
    assert!(metrics.contains("mixer_pool_in_flight{pool=\"api\"} 3"), "{metrics}");
    drop(asleep);
    assert!(wait_for(PATIENCE, || (under_way() == (0, 0)).then_some(())).is_some(), "{}", pools());
}

#[cfg(not(feature = "profiling"))]
#[test]
fn a_build_without_profiler_says_how_to_get_one() {
    let stage = Stage::new(&["--heap-profile-rate=16384"]);
    let monitored =
        |path: &str| http("GET", &format!("http://127.0.0.1:{}{path}", stage.server.monitoring), "").unwrap();
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        let answer = monitored(path);
        let text = "this build has no profiler; build it with `cargo build --release --features profiling`\n";
        assert_eq!((answer.status, answer.body.as_str()), (501, text), "{path}");
    }
    assert!(monitored("/debug/pprof/").body.contains("not in this build (Cargo feature `profiling`):\nheap"));
    assert!(stage.server.log().contains("--heap-profile-rate has no effect"), "{}", stage.server.log());
}

/// The members of `perftools.profiles.Profile` that are looked at.
#[cfg(feature = "profiling")]
#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

#[cfg(feature = "profiling")]
#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[cfg(feature = "profiling")]
#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[cfg(feature = "profiling")]
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
#[cfg(feature = "profiling")]
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

#[cfg(feature = "profiling")]
#[test]
fn profiles_name_what_runs_and_what_holds_memory() {
    let stage = Stage::new(&[]);
    let (cpu, heap) = std::thread::scope(|scope| {
        let cpu = scope.spawn(|| Profile::get(&stage, "/debug/pprof/profile?seconds=4"));
        let heap = scope.spawn(|| Profile::get(&stage, "/debug/pprof/heap?seconds=5"));
        // Configuration is kept as long as it is in effect.
        let rules =
            |number: u32| format!("---\n{}", CROOKED.replace("only-ann", &format!("only-ann-{number}")));
        let many: String = (0..1000).map(rules).collect();
        std::fs::write(stage.configuration.path().join("many.yaml"), many).unwrap();
        // On a busy machine a profile begins late.
        while !cpu.is_finished() {
            stage.call(&[
                "check",
                "-r",
                "1000",
                "-c",
                "2",
                "--print_response=false",
                "-s",
                "source.name=web",
            ]);
        }
        (cpu.join().unwrap(), heap.join().unwrap())
    });
    assert_eq!(cpu.types(), [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(cpu.names("mixer_net::") && cpu.names("worker-0"));
    assert!(cpu.total() > 100_000_000, "{} ns", cpu.total());
    assert_eq!(heap.types(), [("inuse_objects", "count"), ("inuse_space", "bytes")]);
    assert!(heap.total() > 64 << 10, "{} bytes", heap.total());
    assert!(heap.names("mixer_config::"), "{:?}", heap.string_table);
    assert!(!heap.names("SampledAllocator"), "{:?}", heap.string_table);
}

#[cfg(feature = "profiling")]
#[test]
fn memory_can_be_sampled_from_the_start() {
    let stage = Stage::new(&["--heap-profile-rate=16384"]);
    let heap = Profile::get(&stage, "/debug/pprof/heap");
    assert!(heap.names("mixer_engine::snapshot::"), "sampled before the first request");
}
