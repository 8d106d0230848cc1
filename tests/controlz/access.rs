//! Who may read and change: origins, hosts, the token, `--ctrlz_readonly`.

use crate::stage::{SECRET, Stage, get_json};
use crate::support::browser::Browser;
use crate::support::{DEADLINE, Server, http, wait_for};

/// A handler whose key is in an environment variable.
const KEYED: &str = "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: fluent, namespace: istio-system}
spec: {compiledAdapter: fluentd, params: {address: 127.0.0.1:1, sharedKey: {keyEnvironment: FLUENT_AUTH}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: access, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: fluent, namespace: istio-system}
spec: {actions: [{handler: fluent, instances: [access]}]}
";

#[test]
fn a_variable_from_which_the_configuration_has_a_credential_is_masked() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), KEYED).unwrap();
    let server = Server::on(directory.path()).native();
    let server = server.env("FLUENT_AUTH", "open sesame").env("FLUENT_OTHER", "shown").start();
    let all = get_json(&format!("http://127.0.0.1:{}/envj/", server.ports.ctrlz));
    let value =
        |name: &str| all.as_array().unwrap().iter().find(|v| v["name"] == name).unwrap()["value"].clone();
    assert_eq!((value("FLUENT_AUTH"), value("FLUENT_OTHER")), ("***".into(), "shown".into()));
}

#[test]
fn requests_of_other_origins_and_hosts_are_refused() {
    let stage = Stage::new(&[]);
    let browser = Browser::start();
    // Another origin: the same server under another name.
    browser.open(&format!("http://localhost:{}/versionz/", stage.server.ports.ctrlz));
    let script = format!(
        "return fetch('{}', {{method: 'POST', mode: 'no-cors', body: new URLSearchParams('scope=api&output_level=none')}})\
         .then(() => 'sent', () => 'kept')",
        stage.url("/scopez/")
    );
    // The Content-Security-Policy of the page blocks the request; the server refuses it as well.
    assert_eq!(browser.run(&script), "kept");
    assert_eq!(get_json(&stage.url("/scopej/api"))["output_level"], "info");

    let ask = |head: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", stage.server.ports.ctrlz)).unwrap();
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
fn a_token_is_required_and_the_exit_button_stops_the_server() {
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
    let ended = wait_for(DEADLINE, || (!stage.server.is_alive()).then_some(()));
    assert!(ended.is_some(), "{}", stage.server.log());
}

#[test]
fn read_only_disables_changes_and_hides_secrets() {
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
