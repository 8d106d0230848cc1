//! Every page in a browser.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::endpoints::PAGES;
use crate::stage::{INVALID_RULE, Stage, get_json};
use crate::support::browser::Browser;
use crate::support::{DEADLINE, Server, http, put, wait_for};

/// Cells and links that are so narrow that their words are columns of letters, and what the header cuts off besides the name of the host.
const UNREADABLE: &str = "
    const lines = e => e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight);
    const shown = [...document.querySelectorAll('main td, main th, main td a')].filter(e => e.offsetParent);
    const narrow = shown.filter(e => e.offsetWidth < 90 && lines(e) > 3.5 && e.textContent.trim().length / lines(e) < 10);
    const header = document.querySelector('#instance');
    const cut = header.scrollWidth > header.clientWidth + 1 ? [header] : [];
    return [...narrow, ...cut].map(e => e.textContent.trim())";

#[test]
fn pages_work_in_a_browser() {
    let stage = Stage::new(&[]);
    let browser = Browser::start();
    stage.traffic();

    // Every page at desktop and phone width, light and dark: no horizontal overflow, no message on the console.
    for (width, theme) in [(1280, "light"), (390, "dark")] {
        browser.resize(width, 900, theme);
        for page in PAGES {
            browser.open(&stage.url(page));
            browser.wait("document.querySelector('#pause:not([hidden])')");
            let fits = browser.run("return document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(fits, true, "{page} at {width}");
            let marked = browser.run("return document.querySelector('nav a[aria-current]').pathname");
            assert_eq!(marked, *page);
            if width < 600 {
                assert_eq!(browser.run(UNREADABLE), serde_json::json!([]), "{page} at {width}");
            }
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
    if Browser::writes_pictures() {
        pictures(&stage, &browser);
    }
}

/// At the width of a phone.
#[test]
fn a_server_that_is_gone_is_shown_as_gone_until_it_is_back() {
    let mut stage = Stage::new(&[]);
    let browser = Browser::start();
    browser.resize(390, 900, "light");
    browser.open(&stage.url("/"));
    let state = |texts: &str| {
        browser.wait(&format!("[{texts}].includes(document.querySelector('#state')?.textContent)"));
    };
    state("'ready', 'degraded'");
    let host = get_json(&stage.url("/homej/"))["Hostname"].as_str().unwrap().to_owned();
    assert!(
        browser.text("#instance").contains(&host),
        "the header names the host: {}",
        browser.text("#instance")
    );
    browser.keep_both("idle");
    let ends = "[...document.querySelectorAll('main .drawing .until')].map(e => e.textContent)";
    let begins = "[...document.querySelectorAll('main .drawing .since')].map(e => e.textContent)";
    let live = format!(
        "{ends}.length > 0 && {ends}.every(e => e === 'now') && {begins}.every(e => e.endsWith(' min ago'))"
    );
    browser.wait(&live);
    // Nothing is read while it is paused.
    browser.press("p");
    browser.wait(&format!("{ends}.every(e => /^[0-9]+:/.test(e))"));
    browser.press("p");
    browser.wait(&live);
    assert_eq!(stage.server.terminate(), Ok(Some(0)));
    state("'gone'");
    // The plots end when it answered last.
    browser.wait(&format!(
        "{ends}.length > 0 && {ends}.every(e => document.querySelector('#gone').textContent.includes(`since ${{e}}. `)) && \
         {begins}.every(e => e.endsWith(' min before'))"
    ));
    browser.wait("document.querySelector('main #gone[role=alert]')");
    assert!(browser.text("#gone").contains("has not answered since"), "{}", browser.text("#gone"));
    let fits = browser.run("return document.documentElement.scrollWidth <= innerWidth");
    assert_eq!(fits, true);
    browser.keep_both("gone");
    let ports = stage.server.ports;
    // Answers of another program on its port, such as those of a proxy, are none of the server.
    let other = std::net::TcpListener::bind(("127.0.0.1", ports.ctrlz)).unwrap();
    for status in ["200 OK", "404 Not Found", "503 Service Unavailable"] {
        let (mut asked, _) = other.accept().unwrap();
        let mut request = [0; 4096];
        assert!(std::io::Read::read(&mut asked, &mut request).unwrap() > 0);
        let body = "<!doctype html><title>another</title><p>no page of this server";
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        std::io::Write::write_all(&mut asked, answer.as_bytes()).unwrap();
        drop(asked);
        browser.wait("document.querySelector('#refreshed').textContent === 'no answer'");
        assert_eq!(browser.text("#state"), "gone", "{status}");
    }
    drop(other);
    stage.server = Server::on(stage.configuration.path()).on_ports(ports).start();
    state("'ready', 'degraded'");
    browser.wait("document.querySelector('#gone') === null");
    browser.wait(&live);
}

/// Each process begins with the same number of its configuration.
#[test]
fn a_page_that_is_not_live_is_that_of_the_process_that_answers() {
    let mut stage = Stage::new(&[]);
    let browser = Browser::start();
    browser.open(&stage.url("/routesz/"));
    browser.run("document.querySelector('main').firstElementChild.textContent = 'of the process before'");
    browser.wait("document.querySelector('main').textContent.includes('of the process before')");
    assert_eq!(stage.server.terminate(), Ok(Some(0)));
    browser.wait("document.querySelector('#state')?.textContent === 'gone'");
    let ports = stage.server.ports;
    stage.server = Server::on(stage.configuration.path()).on_ports(ports).start();
    browser.wait("document.querySelector('#gone') === null");
    browser.wait("!document.querySelector('main').textContent.includes('of the process before')");
}

/// Their connections, on both widths.
#[test]
fn a_thousand_callers_fit_the_page() {
    let stage = Stage::new(&[]);
    let address = ("127.0.0.1", stage.server.ports.api);
    let held: Vec<_> = (0..1000).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let connected = || get_json(&stage.url("/callerj/")).as_array().unwrap().len();
    assert!(wait_for(DEADLINE, || (connected() == 1000).then_some(())).is_some(), "{}", connected());
    let browser = Browser::start();
    for (width, theme) in [(1280, "light"), (390, "dark")] {
        browser.resize(width, 900, theme);
        browser.open(&stage.url("/callerz/"));
        browser.wait("document.querySelectorAll('#callers table.cards tbody tr').length === 500");
        assert_eq!(browser.run("return document.documentElement.scrollWidth <= innerWidth"), true, "{width}");
        assert!(browser.text("#callers").contains("The first 500 of 1000"), "the rest is counted");
    }
    browser.keep_both("callers");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(held);
}

/// A rule whose name begins as that of another one.
fn rule_with_a_long_name(end: &str) -> String {
    let name = format!("refuse-{}-{end}", "x".repeat(240));
    format!(
        "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec:\n  match: (source.name | \"\") == \"{end}\"\n  actions: [{{handler: refuse-all, instances: [nothing-at-all]}}]\n---\n"
    )
}

/// Names of a cluster have up to 253 letters.
#[test]
fn denials_by_rules_with_long_names_lead_to_them_and_fit_the_page() {
    const OTHERS: &str = "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: refuse-all, namespace: istio-system}\n\
        spec: {compiledAdapter: denier}\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
        metadata: {name: nothing-at-all, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    let stage = Stage::new(&[]);
    let text = format!("{}{}{OTHERS}", rule_with_a_long_name("one"), rule_with_a_long_name("two"));
    put(&stage.configuration.path().join("long.yaml"), &text);
    let groups = || get_json(&stage.url("/denialgroupj/"))["groups"].clone();
    let by = |end: &str| {
        let of = |group: &serde_json::Value| group["by"].as_str().is_some_and(|by| by.contains(end));
        groups().as_array().unwrap().iter().any(of)
    };
    let told = wait_for(DEADLINE, || {
        stage.call(&["check", "-s", "source.name=one"]);
        stage.call(&["check", "-s", "source.name=two"]);
        (by("-one.rule.istio-system") && by("-two.rule.istio-system")).then_some(())
    });
    assert!(told.is_some(), "{}", groups());
    let browser = Browser::start();
    for (width, theme) in [(1280, "light"), (390, "dark")] {
        browser.resize(width, 900, theme);
        browser.open(&stage.url("/denialz/"));
        browser.wait("document.querySelectorAll('#groups a.resource').length >= 2");
        assert_eq!(browser.run("return document.documentElement.scrollWidth <= innerWidth"), true, "{width}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Nobody has looked at a page before.
#[test]
fn plots_begin_when_the_server_begins() {
    let stage = Stage::new(&[]);
    stage.traffic();
    let started = std::time::Instant::now();
    assert!(wait_for(DEADLINE, || (started.elapsed() > Duration::from_secs(7)).then_some(())).is_some());
    let page = http("GET", &stage.url("/"), "").unwrap().body;
    let lines = page.split("class=\"line s0\" d=\"").nth(1).unwrap_or_default();
    let points = lines.split('"').next().unwrap_or_default().matches('L').count();
    assert!(points >= 2, "{page}");
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
    let denied = "request.headers=clnt:abc";
    stage.call(&["check", "-s", "source.name=other", "--stringmap_attributes", denied]);
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
    // An unknown attribute is reported with a suggestion.
    browser.run("document.querySelector('textarea').value = 'source.nam = x'");
    browser.click("form.stack button.primary");
    browser.wait("document.querySelector('[role=alert]')");
    assert!(browser.text("[role=alert]").contains("source.name"));
}

fn changes_are_compared(stage: &Stage, browser: &Browser) {
    browser.open(&stage.url("/historyz/"));
    let fixed =
        INVALID_RULE.replace("= =", "==").replace("gate-keeper", "turn-away").replace("ann\"", "bob\"");
    std::fs::write(stage.configuration.path().join("only-ann.yaml"), fixed).unwrap();
    // The page refreshes itself.
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    browser.click("form#compare button");
    browser.wait("location.pathname === '/historyz/diff'");
    let diff = browser.text("main");
    assert!(diff.contains("source.user = = \"ann\"") && diff.contains("source.user == \"bob\""), "{diff}");
    browser.open(&stage.url("/configz/"));
    assert!(!browser.text("main").contains("Problems"), "the problem is fixed");
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

/// Writes the pictures in docs/img, under traffic.
fn pictures(stage: &Stage, browser: &Browser) {
    std::fs::write(stage.configuration.path().join("only-ann.yaml"), INVALID_RULE).unwrap();
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
        // The charts show a minute of traffic.
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
            browser.keep(name);
        }
        browser.resize(1280, 1000, "light");
        browser
            .open(&stage.url(
                "/explainz/?attributes=source.name%20%3D%20web%0Arequest.headers%5Bclnt%5D%20%3D%20abc",
            ));
        browser.click("form.stack button.primary");
        browser.wait("document.querySelector('#answer')");
        browser.keep("explain-light");
        done.store(true, Ordering::Relaxed);
    });
}
