//! What operators see and ask.

use crate::support::browser::Browser;
use crate::support::galley::Galley;
use crate::support::{DEADLINE, wait_for};
use crate::{GATEWAY, RULE};

#[test]
fn what_is_published_is_shown_dumped_and_compared() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    let status = galley.ask(&["status"]);
    assert_eq!(status.status, 0, "{}", status.stderr);
    assert!(status.stdout.contains("istio/policy/v1beta1/rules"), "{}", status.stdout);
    let configj = galley.document("/configj/?group=default");
    let rules = configj["Snapshots"].as_array().into_iter().flatten();
    let rules = rules.clone().find(|entry| entry["Collection"] == "istio/policy/v1beta1/rules");
    assert_eq!(rules.map(|rules| rules["Names"].clone()), Some(serde_json::json!(["istio-system/close"])));
    let resource = galley.document(
        "/configj/resource?group=default&collection=istio/policy/v1beta1/rules&name=istio-system/close",
    );
    assert_eq!(resource["Body"]["match"], "true", "{resource}");
    assert_eq!(galley.document("/configj/resource?group=default"), serde_json::Value::Null);
    let dump = galley.ask(&["snapshot", "dump", "--output", "json"]);
    std::fs::write(galley.path("before.json"), &dump.stdout).expect("a file");
    let before = galley.path("before.json").display().to_string();
    assert_eq!(galley.ask(&["snapshot", "diff", &before]).status, 0);
    let missing = galley.ask(&["snapshot", "diff", "befroe.json"]);
    let told = "there is no file `befroe.json`, and no galley at this address";
    assert!(missing.status != 0 && missing.stderr.contains(told), "{missing:?}");
    galley.write("gateway.yaml", GATEWAY);
    let changed = wait_for(DEADLINE, || {
        let diff = galley.ask(&["snapshot", "diff", &before]);
        (diff.status == 1).then_some(diff.stdout)
    });
    let changed = changed.unwrap_or_else(|| panic!("no difference: {}", galley.log()));
    assert!(changed.contains("added istio/networking/v1alpha3/gateways shop/front"), "{changed}");
    let events = galley.ask(&["watch", "--once"]);
    assert!(events.stdout.contains("added") && events.stdout.contains("shop/front"), "{}", events.stdout);
}

#[test]
fn what_has_no_meaning_cannot_be_waited_for() {
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    let unknown = galley.ask(&["wait", "kettle/a/b"]);
    assert_eq!(unknown.status, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("`kettle` is no kind of resource"), "{}", unknown.stderr);
    let missing = galley.ask(&["wait", "rule/istio-system/nosuch", "--timeout", "100ms"]);
    assert_eq!(missing.status, 5, "{}", missing.stdout);
    assert!(missing.stdout.contains("was not published"), "{}", missing.stdout);
}

#[test]
fn every_page_works_in_a_browser() {
    let galley =
        Galley::of_files(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], &["--enable-validation"]);
    galley.synced();
    let browser = Browser::start();
    let base = format!("http://{}", galley.address());
    for (path, text) in [
        ("/", "Publication"),
        ("/configz/", "istio/policy/v1beta1/rules"),
        ("/configz/?collection=istio/policy/v1beta1/rules", "istio-system/close"),
        ("/sinkz/", "No sink has connected yet"),
        ("/sourcez/", "synced"),
        ("/eventz/", "full sync"),
        ("/admissionz/", "Nothing was refused"),
        ("/metricz/", "galley_runtime_state_type_instances_total"),
        ("/scopez/", "default"),
        ("/signalz/", "SIGUSR1"),
    ] {
        browser.open(&format!("{base}{path}"));
        let shown = browser.text("main");
        assert!(shown.contains(text), "{path}: {shown}");
        if let Some(directory) = std::env::var_os("MIXER_PICTURES") {
            let name = path.trim_matches('/').split('/').next().unwrap_or_default();
            let name = if name.is_empty() { "overview" } else { name };
            let file = std::path::Path::new(&directory).join(format!("{name}.png"));
            std::fs::write(file, browser.picture()).expect("a file");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
