//! What operators see and ask.

use crate::support::browser::Browser;
use crate::support::galley::Galley;
use crate::support::{DEADLINE, Server, http, wait_for};
use crate::{GATEWAY, RULE};

/// A rule that a server can use.
const SERVED: &str = "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: pass, namespace: istio-system}
spec: {compiledAdapter: noop}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: close, namespace: istio-system}
spec: {match: 'true', actions: [{handler: pass, instances: [nothing]}]}
";

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

/// An edit that is withheld is none of those that sinks have.
#[test]
fn an_edit_that_is_withheld_cannot_be_waited_for() {
    let galley = Galley::of_files(&[("rule.yaml", SERVED)], &[]);
    galley.synced();
    let url = format!("mcp://127.0.0.1:{}", galley.sinks);
    let server = Server::on_store(&url).native().start();
    let done = galley.ask(&["wait"]);
    assert_eq!(done.status, 0, "{done:?}\n{}", server.log());
    galley.write("rule.yaml", &SERVED.replace("match", "macth"));
    let withheld = wait_for(DEADLINE, || {
        let report = galley.document("/progressj/?target=latest");
        report["withheld"][0]["why"].as_str().is_some_and(|why| why.contains("macth")).then_some(())
    });
    assert!(withheld.is_some(), "{}", galley.document("/progressj/?target=latest"));
    let status = galley.ask(&["status"]);
    assert!(
        status.stdout.contains("changes are withheld") && status.stdout.contains(": 1 pending: "),
        "{}",
        status.stdout
    );
    assert_eq!(galley.document("/statusj/")["groups"][0]["pendingEvents"], 1);
    assert_eq!(galley.document("/sourcej/")[1]["pending"], 1);
    let metrics = galley.metrics();
    assert!(metrics.contains("galley_pending_events{group=\"default\"} 1"), "{metrics}");
    let page = http("GET", &format!("http://{}/", galley.address()), "").expect("an answer").body;
    assert!(page.contains("Not published: files ") && page.contains("1 pending: "), "{page}");
    let refused = galley.ask(&["wait"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(
        refused.stdout.contains("not published: files ") && refused.stdout.contains("macth"),
        "{refused:?}"
    );
    galley.write("rule.yaml", SERVED);
    let done = wait_for(DEADLINE, || (galley.ask(&["wait"]).status == 0).then_some(()));
    assert!(done.is_some(), "{}", galley.log());
}

/// A resource is there although others of its collection change all the time.
#[test]
fn a_resource_is_waited_for_while_others_change() {
    let galley = Galley::of_files(&[("rule.yaml", SERVED)], &[]);
    galley.synced();
    let url = format!("mcp://127.0.0.1:{}", galley.sinks);
    let server = Server::on_store(&url).native().start();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let rule = SERVED.rsplit("---\n").next().expect("a document");
                let other = rule.replace("close", "other").replace("'true'", &format!("'{number} == 0'"));
                galley.write("other.yaml", &other);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let done: Vec<_> =
            (0..5).map(|_| galley.ask(&["wait", "rule/istio-system/close", "--timeout", "10s"])).collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        for finished in done {
            assert_eq!(finished.status, 0, "{finished:?}\n{}", server.log());
        }
    });
}

/// What accepts connections is restarted, and readiness tells that it was down.
#[test]
fn the_port_of_sinks_outlives_a_panic() {
    let galley = Galley::in_environment(&[("rule.yaml", SERVED)], &[], &[("MIXER_FAULTS", "1")]);
    galley.synced();
    let ready = || {
        let url = format!("http://127.0.0.1:{}/readyz", galley.monitoring);
        http("GET", &url, "").is_ok_and(|answer| answer.status == 200)
    };
    assert!(wait_for(DEADLINE, || ready().then_some(())).is_some(), "{}", galley.log());
    // The pause doubles: after some failures it is long enough to be seen.
    let told = wait_for(DEADLINE, || {
        let body = "task=mcp+port";
        let asked = http("POST", &format!("http://{}/taskz/panic", galley.address()), body);
        assert_eq!(asked.map(|answer| answer.status).ok(), Some(303), "{}", galley.log());
        wait_for(std::time::Duration::from_millis(200), || (!ready()).then_some(()))
    });
    assert!(told.is_some(), "{}", galley.log());
    assert!(wait_for(DEADLINE, || ready().then_some(())).is_some(), "{}", galley.log());
    let url = format!("mcp://127.0.0.1:{}", galley.sinks);
    let server = Server::on_store(&url).native().start();
    let done = galley.ask(&["wait"]);
    assert_eq!(done.status, 0, "{done:?}\n{}\n{}", galley.log(), server.log());
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

/// A handler with a secret in its parameters, and in the object as it was applied.
const SECRET: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: handler
metadata:
  name: sfx
  namespace: istio-system
  annotations:
    last-applied: '{"spec":{"params":{"accessToken":"hunter2secret"}}}'
spec:
  compiledAdapter: signalfx
  params: {accessToken: hunter2secret, datapointInterval: 10s, metrics: [{name: requests, type: COUNTER}]}
"#;

#[test]
fn secrets_are_masked_unless_they_are_revealed() {
    let resource = "resource?group=default&collection=istio/policy/v1beta1/handlers&name=istio-system/sfx";
    let [json, page] = ["configj", "configz"].map(|path| format!("/{path}/{resource}"));
    for flags in [&[][..], &["--ctrlz-readonly"]] {
        let may_reveal = flags.is_empty();
        let galley = Galley::of_files(&[("sfx.yaml", SECRET)], flags);
        galley.synced();
        let get = |path: &str| {
            let answer = http("GET", &format!("http://{}{path}", galley.address()), "").expect("an answer");
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            answer.body
        };
        for path in ["/snapshotj/", &json, &page] {
            let shown = get(path);
            assert!(shown.contains("accessToken") && !shown.contains("hunter2secret"), "{path}: {shown}");
            let separator = if path.contains('?') { '&' } else { '?' };
            let revealed = get(&format!("{path}{separator}reveal=1"));
            assert_eq!(revealed.contains("hunter2secret"), may_reveal, "{path}: {revealed}");
        }
        let dump = galley.ask(&["snapshot", "dump"]).stdout;
        assert!(dump.contains("accessToken") && !dump.contains("hunter2secret"), "{dump}");
        let dump = galley.ask(&["snapshot", "dump", "--show-secrets"]).stdout;
        assert_eq!(dump.contains("hunter2secret"), may_reveal, "{dump}");
        if !may_reveal {
            continue;
        }
        let [whole, masked] = ["whole", "masked"].map(|name| galley.path(name).display().to_string());
        std::fs::write(&whole, &dump).expect("a file");
        std::fs::write(&masked, galley.ask(&["snapshot", "dump"]).stdout).expect("a file");
        let same = galley.ask(&["snapshot", "diff", &whole]);
        assert_eq!((same.status, &*same.stdout), (0, ""), "{}", same.stderr);
        let unknown = galley.ask(&["snapshot", "diff", &masked]);
        let told =
            "changed istio/policy/v1beta1/handlers istio-system/sfx\nmasked values cannot be compared\n";
        assert_eq!((unknown.status, &*unknown.stdout), (1, told), "{}", unknown.stderr);
        galley.write("sfx.yaml", &SECRET.replace("hunter2secret", "hunter3secret"));
        let changed = wait_for(DEADLINE, || {
            let diff = galley.ask(&["snapshot", "diff", &whole]);
            (diff.status == 1).then_some(diff.stdout)
        });
        let changed = changed.unwrap_or_else(|| panic!("no difference: {}", galley.log()));
        let told = "changed istio/policy/v1beta1/handlers istio-system/sfx\na secret, which is not shown\n";
        assert_eq!(changed, told);
    }
}

/// The names of a collection that is published.
fn published(galley: &Galley, collection: &str) -> Vec<String> {
    let configj = galley.document("/configj/?group=default");
    let mut entries = configj["Snapshots"].as_array().into_iter().flatten();
    let entry = entries.find(|entry| entry["Collection"] == collection);
    let names = entry.and_then(|entry| entry["Names"].as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// What changed before `wait` is waited for, also what galley has not noticed or does not believe yet.
#[test]
fn a_file_that_changed_just_now_is_waited_for() {
    const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    let wait = || {
        let done = galley.ask(&["wait", "latest", "--sinks", "0", "--timeout", "20s"]);
        assert_eq!(done.status, 0, "{done:?}\n{}", galley.log());
        published(&galley, GATEWAYS)
    };
    for _ in 0..3 {
        galley.write("gateway.yaml", GATEWAY);
        assert_eq!(wait(), ["shop/front"], "it is published");
        std::fs::remove_file(galley.path("config").join("gateway.yaml")).expect("it is there");
        let report = galley.document("/progressj/?target=latest&look=1");
        assert!(report["pendingEvents"].as_u64().is_some_and(|count| count > 0), "{report}");
        assert_eq!(wait(), Vec::<String>::new(), "its deletion is published");
    }
    let is_settled = || galley.document("/progressj/?target=latest&look=1")["pendingEvents"] == 0;
    assert!(wait_for(DEADLINE, || is_settled().then_some(())).is_some(), "{}", galley.log());
}

/// A directory that is being filled again is published by itself: that is a matter of time.
#[test]
fn what_is_published_by_itself_is_waited_for() {
    let galley = Galley::of_files(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], &[]);
    galley.synced();
    let withheld = |why: &str| {
        let is_so = || {
            let report = galley.document("/progressj/?target=latest");
            report["withheld"][0]["why"].as_str().is_some_and(|text| text.contains(why)).then_some(report)
        };
        wait_for(DEADLINE, is_so).unwrap_or_else(|| panic!("not {why}: {}", galley.log()))
    };
    for name in ["rule.yaml", "gateway.yaml"] {
        std::fs::remove_file(galley.path("config").join(name)).expect("it is there");
    }
    let report = withheld("the store has no configuration");
    assert_eq!(report["withheld"][0]["isDelay"], false, "{report}");
    galley.write("rule.yaml", RULE);
    let report = withheld("being filled again");
    assert_eq!(report["withheld"][0]["isDelay"], true, "{report}");
    let late = galley.ask(&["wait", "--sinks", "0", "--timeout", "1s"]);
    assert_eq!(late.status, 5, "{late:?}");
    assert!(late.stdout.contains("not published: files "), "{late:?}");
    let done = galley.ask(&["wait", "--sinks", "0", "--timeout", "30s"]);
    assert_eq!(done.status, 0, "{done:?}\n{}", galley.log());
    assert!(published(&galley, "istio/networking/v1alpha3/gateways").is_empty());
}
