use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tower::ServiceExt as _;

use super::*;
use mixer_base::budget::Share;
use mixer_base::log::LogOptions;
use mixer_base::metrics::Family;
use mixer_config::store::MemoryStore;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{ConfigPolicy, Configurator, ConfiguratorOptions};
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};

/// A server with a rule that refuses, one that hands out quota, and one that is wrong.
const CONFIGURATION: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
    destination.namespace: {valueType: STRING}
    context.reporter.kind: {valueType: STRING}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: gate, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: <b>closed</b>}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: knock, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: close, namespace: istio-system}
spec:
  match: source.user == "smuggler"
  actions: [{handler: gate, instances: [knock]}]
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limits, namespace: istio-system}
spec:
  compiledAdapter: memquota
  params: {quotas: [{name: berths.instance.istio-system, maxAmount: 9, validDuration: 60s}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: berths, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | "nobody"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: moor, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [berths]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: crooked, namespace: istio-system}
spec:
  match: sorce.user == "x"
  actions: [{handler: gate, instances: [knock]}]
"#;

struct Fixture {
    router: Router,
    server: Shared,
    store: Arc<MemoryStore>,
    configurator: Configurator,
    runtime: Arc<Runtime>,
    /// The threads that rendered pages.
    rendered_on: Arc<Mutex<Vec<std::thread::ThreadId>>>,
}

impl Fixture {
    async fn new(guard: Guard) -> Self {
        Self::of(guard, CONFIGURATION, ConfigPolicy::serve_valid()).await
    }

    async fn of(guard: Guard, configuration: &str, policy: ConfigPolicy) -> Self {
        let store = Arc::new(MemoryStore::new("memory://", [("conf.yaml", configuration)]));
        let metrics = Arc::new(Metrics::new());
        let builder = SnapshotBuilder::new(SnapshotOptions::new(Registry {
            adapters: mixer_adapters::INVENTORY,
            extensions: &[],
        }));
        let limits = CheckCacheLimits { entries: 10, bytes: 10_000 };
        let runtime = Arc::new(Runtime::new(builder.empty(), Some(limits)));
        let options = ConfiguratorOptions {
            store: Arc::clone(&store) as Arc<dyn ConfigStore>,
            environment: HandlerEnvironment {
                clock: Arc::new(SystemClock),
                runtime: tokio::runtime::Handle::current(),
                metrics_port: 0,
                metrics: Arc::clone(&metrics),
                commons: Arc::new(Commons::default()),
                build_timeout: Duration::from_secs(5),
            },
            metrics: Arc::clone(&metrics),
            policy,
        };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
        configurator.apply().await;
        let rendered_on = Arc::new(Mutex::new(Vec::new()));
        let rendering = Arc::clone(&rendered_on);
        let engine = Engine {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store) as Arc<dyn ConfigStore>,
            connections: Arc::new(ConnectionRegistry::default()),
            envoy: None,
            shedding: Shedding::Enforce,
        };
        let parts = Introspection {
            metrics,
            log: Log::new(&LogOptions { targets: Vec::new(), ..LogOptions::default() }).unwrap(),
            conditions: Arc::new(move || {
                rendering.lock().push(std::thread::current().id());
                vec![("configuration".to_owned(), Ok(()))]
            }),
            large_answers: Arc::new(LargeAnswers::new(&Arc::new(Share::new(8 << 20)))),
            degradations: Degradations::default(),
            actions: vec![Action { name: "SIGUSR1", about: "tells", run: Arc::new(|| {}) }],
            settings: vec![("APIPort", "9091".to_owned())],
            guard,
            scopes_as_istio: false,
            program: Program::mixer(&runtime),
        };
        let server = Arc::new(Server::new(parts, engine));
        let router = routes_of(Arc::clone(&server));
        Self { router, server, store, configurator, runtime, rendered_on }
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> (u16, BTreeMap<String, String>, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .body(Body::from(body.to_owned()));
        let response = self.router.clone().oneshot(request.unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers = headers.map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
        let body: Body = response.into_body();
        let body = body.collect().await.unwrap().to_bytes();
        (status, headers, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> String {
        let (status, _, body) = self.ask(Method::GET, path, "").await;
        assert_eq!(status, 200, "{path}");
        body
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_navigation_responds() {
    let fixture = Fixture::new(Guard::default()).await;
    for topic in page::TOPICS.iter().flat_map(|(_, topics)| *topics) {
        let (status, headers, body) = fixture.ask(Method::GET, topic.path, "").await;
        assert_eq!(status, 200, "{}", topic.path);
        assert_eq!(headers.get("content-type").unwrap(), "text/html; charset=utf-8");
        assert!(headers.get("content-security-policy").unwrap().contains("default-src 'none'"));
        assert!(body.contains("aria-current=\"page\""), "{} is marked", topic.path);
        for inline in ["<style", "style=\"", "onclick", "javascript:", "http://", "https://"] {
            let shown = body.replace("http://www.w3.org/2000/svg", "");
            assert!(!shown.contains(inline), "{}: {inline}", topic.path);
        }
        let without_slash = topic.path.trim_end_matches('/');
        if !matches!(without_slash, "" | "/scopez") {
            let (status, headers, _) = fixture.ask(Method::GET, without_slash, "").await;
            assert_eq!((status, headers.get("location").unwrap().as_str()), (301, topic.path));
        }
    }
    assert_eq!(fixture.ask(Method::GET, "/nosuch", "").await.0, 404);
    assert_eq!(fixture.ask(Method::HEAD, "/", "").await.0, 405);
}

/// Of three rules one does not compile.
#[tokio::test(flavor = "multi_thread")]
async fn rules_that_do_not_compile_are_not_in_effect() {
    let fixture = Fixture::new(Guard::default()).await;
    for path in ["/", "/configz/", "/rulez/"] {
        let page = fixture.get(path).await;
        assert!(page.contains(">2</a>") || page.contains(">2<small>"), "{path}: {page}");
        assert!(page.contains("1 not compiled"), "{path}: {page}");
    }
    let rules: serde_json::Value = serde_json::from_str(&fixture.get("/rulej/").await).unwrap();
    let states: Vec<_> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["name"].as_str().unwrap(), rule["state"].as_str().unwrap()))
        .collect();
    let expected = [("close", "in effect"), ("crooked", "not compiled"), ("moor", "in effect")];
    let expected = expected.map(|(name, state)| (format!("{name}.rule.istio-system"), state));
    assert_eq!(states, expected.each_ref().map(|(name, state)| (name.as_str(), *state)));
}

/// Those that are configured; what was called before may be gone.
#[tokio::test(flavor = "multi_thread")]
async fn handlers_of_routes_and_latencies_lead_to_their_resources() {
    let fixture = Fixture::new(Guard::default()).await;
    let metrics = &fixture.server.metrics;
    for handler in ["gate.istio-system", "gone.istio-system"] {
        metrics.dispatch(handler, "denier", "checknothing").record(Duration::from_micros(7), false);
    }
    let link = "href=\"/configz/resource?name=gate.handler.istio-system\">gate.istio-system</a>";
    for path in ["/routesz/", "/latencyz/"] {
        let page = fixture.get(path).await;
        assert!(page.contains(link), "{path}: {page}");
    }
    let page = fixture.get("/latencyz/").await;
    assert!(page.contains("gone.istio-system") && !page.contains("gone.istio-system</a>"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_counts_the_entries_of_access_logs() {
    let fixture = Fixture::new(Guard::default()).await;
    assert!(!fixture.get("/").await.contains("Log entries"));
    let metrics = &fixture.server.metrics;
    metrics.counter(Family::BridgeLogMessages, &[]).add(2);
    for (log, count) in [("ingress", 30), ("egress", 1)] {
        metrics.counter(Family::BridgeLogEntries, &[log, "reported", "http"]).add(count);
    }
    let page = fixture.get("/").await;
    assert!(page.contains("<dt>Log entries</dt><dd>31<"), "{page}");
    assert!(page.contains("2 of them messages of access logs"), "{page}");
}

/// Three of four checks fail; two of them are shed.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_fail_are_told_on_the_overview_and_by_status() {
    let fixture = Fixture::new(Guard::default()).await;
    let idle = fixture.get("/").await;
    assert!(idle.contains("<dt>Failed</dt>") && idle.contains("0 total"), "{idle}");
    assert!(!idle.contains("Unanswered"), "{idle}");
    let metrics = &fixture.server.metrics;
    let checks = metrics.rpc("istio.mixer.v1.Mixer/Check");
    for code in [0, 13, 14, 14, 1] {
        checks.record(code, Duration::from_millis(1), 10, 10);
    }
    metrics.counter(Family::LoadSheddingThrottled, &[]).add(2);
    for path in ["/", "/callz/"] {
        let page = fixture.get(path).await;
        for told in [
            "<small>3 total, 1 INTERNAL, 2 UNAVAILABLE</small>",
            "<small>1 total, whose callers left before the answer</small>",
            "<small>2 total, among the failed ones</small>",
            "class=\"bad\" href=\"/callz/\"",
        ] {
            assert!(page.contains(told), "{path}: {told}: {page}");
        }
    }
    let page = fixture.get("/callz/").await;
    assert!(page.contains("Load shedding refused 2 of them"), "{page}");
    let page = fixture.get("/latencyz/").await;
    assert!(page.contains("4 calls</a> that failed or had no answer"), "{page}");
    let calls: serde_json::Value = serde_json::from_str(&fixture.get("/callj/").await).unwrap();
    assert_eq!(calls["failedByStatus"], serde_json::json!({"INTERNAL": 1, "UNAVAILABLE": 2}), "{calls}");
    let counted = ["calls", "failed", "unanswered", "shed"].map(|name| calls[name].as_u64().unwrap());
    assert_eq!(counted, [5, 3, 1, 2], "{calls}");
    assert_eq!(calls["loadShedding"], "enforce");
    assert_eq!(calls["methods"][0]["completed"]["OK"], 1, "{calls}");
}

/// One goes on in its previous version, and a new one does not serve.
#[tokio::test(flavor = "multi_thread")]
async fn what_serves_of_rules_with_errors_is_told_alike_on_the_page_and_in_json() {
    let (valid, crooked) = CONFIGURATION.rsplit_once("---\n").unwrap();
    let mut fixture = Fixture::of(Guard::default(), valid, ConfigPolicy::default()).await;
    let states = async |fixture: &Fixture| {
        let rules: Vec<serde_json::Value> = serde_json::from_str(&fixture.get("/rulej/").await).unwrap();
        let state = |rule: &serde_json::Value| {
            let name = rule["name"].as_str().unwrap().split('.').next().unwrap().to_owned();
            (name, rule["state"].as_str().unwrap().to_owned(), rule["previousVersion"] == true)
        };
        rules.iter().map(state).collect::<Vec<_>>()
    };
    let of = |name: &str, state: &str, kept: bool| (name.to_owned(), state.to_owned(), kept);
    assert_eq!(states(&fixture).await, [of("close", "in effect", false), of("moor", "in effect", false)]);
    let edited = format!(
        "{}---\n{crooked}",
        valid.replace("source.user == \"smuggler\"", "source.user = \"smuggler\"")
    );
    fixture.store.set([("conf.yaml", edited.as_str())]);
    fixture.configurator.apply().await;
    assert_eq!(
        states(&fixture).await,
        [
            of("close", "previous version", true),
            of("moor", "in effect", false),
            of("crooked", "not served", false)
        ]
    );
    let page = fixture.get("/rulez/").await;
    for state in ["previous version", "not served"] {
        assert_eq!(page.matches(&format!("<span class=\"pill warn\">{state}</span>")).count(), 1, "{page}");
    }
    for path in ["/", "/configz/", "/rulez/"] {
        let page = fixture.get(path).await;
        assert!(page.contains("1 of them in the previous version"), "{path}: {page}");
    }
}

/// Its handler could not be built.
#[tokio::test(flavor = "multi_thread")]
async fn rules_without_handler_are_not_in_effect() {
    let mut fixture = Fixture::new(Guard::default()).await;
    // The adapter refuses a window without length.
    let failing =
        CONFIGURATION.replace("memquota", "redisquota").replace("validDuration: 60s", "validDuration: 0s");
    fixture.store.set([("conf.yaml", failing.as_str())]);
    fixture.configurator.apply().await;
    for path in ["/", "/configz/", "/rulez/"] {
        let page = fixture.get(path).await;
        assert!(page.contains(">1</a>") || page.contains(">1<small>"), "{path}: {page}");
        assert!(page.contains("1 without handler") && page.contains("1 not compiled"), "{path}: {page}");
    }
    let page = fixture.get("/rulez/").await;
    assert!(!page.contains("counted with other rules"), "{page}");
    let rules: serde_json::Value = serde_json::from_str(&fixture.get("/rulej/").await).unwrap();
    let rule =
        rules.as_array().unwrap().iter().find(|rule| rule["name"] == "moor.rule.istio-system").unwrap();
    assert_eq!((&rule["state"], &rule["counts"]["hits"]), (&"without handler".into(), &0.into()), "{rules}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_without_counters_of_their_own_are_told_together() {
    let fixture = Fixture::new(Guard::default()).await;
    let metrics = &fixture.server.metrics;
    let row = "other rules together";
    let rule = "/configz/resource?name=close.rule.istio-system";
    let page = fixture.get("/rulez/").await;
    assert!(!page.contains(row) && !page.contains("counted by themselves"), "{page}");
    let page = fixture.get(rule).await;
    assert!(page.contains("0 hits, 0 denials, "), "one that has done nothing is counted by itself: {page}");
    // Rules of other configurations have taken all counters.
    let held: Vec<_> = (0..500).map(|n| metrics.rule(&format!("r{n}.rule.shop"))).collect();
    held.iter().for_each(|rule| rule.hit());
    let close = metrics.rule("close.rule.istio-system");
    (0..3).for_each(|_| close.hit());
    close.denied();
    let page = fixture.get("/rulez/").await;
    assert!(page.contains(row) && page.contains(">3</td>"), "{page}");
    assert!(page.contains("2 of 3 rules are counted by themselves, and the others together"), "{page}");
    let page = fixture.get(rule).await;
    assert!(
        page.contains("Counted together with other rules") && page.contains("3 hits, 1 denials, "),
        "{page}"
    );
    let rules: Vec<serde_json::Value> = serde_json::from_str(&fixture.get("/rulej/").await).unwrap();
    let of = |name: &str| rules.iter().find(|rule| rule["name"] == name).unwrap();
    assert!(of("close.rule.istio-system")["counts"].is_null(), "{rules:?}");
    assert_eq!(of("moor.rule.istio-system")["counts"]["hits"], 0, "{rules:?}");
    let others = rules.last().unwrap();
    assert_eq!((&others["name"], &others["state"]), (&"other".into(), &"counted together".into()));
    assert_eq!(others["counts"], serde_json::json!({"hits": 3, "denials": 1, "errors": 0}));
    let metrics = fixture.get("/rulez/?q=nothing-like-it").await;
    assert!(metrics.contains("No rule matches."), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_conditions_are_masked() {
    let mut fixture = Fixture::new(Guard::default()).await;
    let condition = r#"(request.headers["authorization"] | "") != "Bearer hunterR""#;
    let broken = r#"sorce.user == "Basic hunterB""#;
    let changed = CONFIGURATION
        .replace(r#"source.user == "smuggler""#, condition)
        .replace(r#"sorce.user == "x""#, broken);
    fixture.store.set([("conf.yaml", changed.as_str())]);
    fixture.configurator.apply().await;
    let close = "close.rule.istio-system";
    for path in
        ["/rulez/", "/rulej/", "/routesz/", "/routesj/", "/snapshotj/", "/configz/", "/diagnosticsj/", "/"]
    {
        let page = fixture.get(path).await;
        assert!(!page.contains("hunter"), "{path}: {page}");
    }
    let resource = fixture.get(&format!("/configz/resource?name={close}")).await;
    assert!(resource.contains("Bearer ***") && !resource.contains("hunter"), "{resource}");
    assert!(fixture.get("/rulez/").await.contains("Bearer ***"));
    let form = "attributes=request.headers[authorization]%3DBearer%20other-token";
    let (_, _, answer) = fixture.ask(Method::POST, "/explainz/", form).await;
    assert!(answer.contains("Bearer ***") && !answer.contains("hunter"), "{answer}");
}

/// From a rule to what it uses, and back, with the places.
#[tokio::test(flavor = "multi_thread")]
async fn rules_handlers_and_instances_lead_to_each_other() {
    let fixture = Fixture::new(Guard::default()).await;
    let names = ["close.rule.istio-system", "gate.handler.istio-system", "knock.instance.istio-system"];
    let [rule, handler, instance] = names;
    for (from, to) in [(rule, [handler, instance]), (handler, [rule, rule]), (instance, [rule, rule])] {
        let page = fixture.get(&format!("/configz/resource?name={from}")).await;
        for to in to {
            let link = format!("href=\"/configz/resource?name={to}\"");
            let (_, after) = page.split_once(&link).unwrap_or_else(|| panic!("{from} to {to}: {page}"));
            assert!(after.get(..200).unwrap().contains("conf.yaml:"), "the place of {to}: {page}");
        }
    }
    let page = fixture.get("/rulez/").await;
    for name in names {
        assert!(page.contains(&format!("name={name}\"")), "{name}: {page}");
    }
    assert!(page.contains("conf.yaml:"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_members_of_istio_mixer() {
    let fixture = Fixture::new(Guard::default()).await;
    let members = async |path: &str| {
        let (status, headers, body) = fixture.ask(Method::GET, path, "").await;
        assert_eq!(
            (status, headers.get("content-type").unwrap().as_str()),
            (200, "application/json; charset=utf-8")
        );
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        value.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    assert_eq!(
        members("/homej").await,
        ["ProcessName", "HeapSize", "NumGC", "CurrentTime", "Hostname", "IP"]
    );
    assert_eq!(
        members("/versionj/").await,
        ["version", "revision", "user", "host", "golang_version", "hub", "status", "tag"]
    );
    let process = members("/procj/").await;
    let wanted = [
        "egid",
        "euid",
        "gid",
        "groups",
        "pid",
        "ppid",
        "uid",
        "wd",
        "hostname",
        "tempdir",
        "threads",
        "goroutines",
    ];
    assert_eq!(process.get(..12).unwrap(), wanted);
    assert!(members("/memj/").await.iter().any(|m| m == "HeapAlloc"));
    let families: serde_json::Value = serde_json::from_str(&fixture.get("/metricj/").await).unwrap();
    let threads = families.as_array().unwrap().iter().find(|f| f["name"] == "mixer_process_threads").unwrap();
    assert_eq!(threads["type"], "GAUGE");
    assert!(threads["metrics"][0]["value"].is_string());
    assert!(fixture.get("/argj/").await.starts_with('['));
    assert_eq!(fixture.ask(Method::PUT, "/signalj/SIGUSR1", "").await.0, 202);
    assert_eq!(fixture.ask(Method::POST, "/signalj/SIGUSR1", "").await.0, 202);
    assert_eq!(fixture.ask(Method::PUT, "/signalj/SIGHUP", "").await.0, 405);
    assert_eq!(fixture.ask(Method::GET, "/homej/exit", "").await.0, 404);
    assert_eq!(fixture.ask(Method::POST, "/homej/exit", "").await.0, 405);
    for path in [
        "/diagnosticsj/",
        "/historyj/",
        "/handlerj/",
        "/quotaj/",
        "/cachej/",
        "/callerj/",
        "/denialj/",
        "/latencyj/",
    ] {
        serde_json::from_str::<serde_json::Value>(&fixture.get(path).await).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnostics_are_shown_with_their_source() {
    let fixture = Fixture::new(Guard::default()).await;
    let body = fixture.get("/configz/").await;
    assert!(body.contains("crooked.rule.istio-system"), "{body}");
    assert!(body.contains("attribute-unknown"));
    assert!(body.contains("<mark>"), "the place is marked");
    assert!(body.contains("did you mean <code>source.user</code>?"), "{body}");
    assert!(!body.contains('`'), "{body}");
    let source = fixture.get("/configz/resource?name=gate.handler.istio-system").await;
    assert!(source.contains("&lt;b&gt;closed&lt;/b&gt;"), "everything is escaped");
    assert!(source.contains("close.rule.istio-system"), "who uses it");
    assert_eq!(fixture.ask(Method::GET, "/configz/resource?name=x.y.z", "").await.0, 404);
    assert!(fixture.get("/configz/?q=crooked").await.contains("crooked"));
    assert!(fixture.get("/configz/?q=nosuch").await.contains("No resource matches."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_explained() {
    let fixture = Fixture::new(Guard { read_only: true, ..Guard::default() }).await;
    let (status, _, body) = fixture
        .ask(Method::POST, "/explainz/", "attributes=source.user+%3D+smuggler%0Adestination.namespace%3Dx")
        .await;
    assert_eq!(status, 200);
    assert!(body.contains("<strong>Refused</strong>") && body.contains("gate.istio-system"), "{body}");
    assert!(body.contains("source.user EXACT"));
    let (_, _, body) = fixture.ask(Method::POST, "/explainz/", "attributes=source.user%3Dann").await;
    assert!(body.contains("<strong>Allowed</strong>"), "{body}");
    let (_, _, body) = fixture.ask(Method::POST, "/explainz/", "attributes=sorce.user%3Dann").await;
    assert!(body.contains("unknown attribute <code>sorce.user</code>"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_masks_secrets() {
    let mut fixture = Fixture::new(Guard::default()).await;
    let changed = CONFIGURATION
        .replace(r#"source.user == "smuggler""#, r#"request.headers["cookie"] == "a" && source.user == "x""#);
    fixture.store.set([("conf.yaml", changed.as_str())]);
    fixture.configurator.apply().await;
    let form = "attributes=request.headers[cookie]%3Dcrumbs%0Asource.user%3Dhttp://u:hunter2@host/";
    let (status, _, body) = fixture.ask(Method::POST, "/explainz/", form).await;
    // The form above the answer has what was typed.
    let answer = body.split("id=\"answer\"").nth(1).unwrap_or_default();
    assert!(status == 200 && answer.contains("<strong>Allowed</strong>"), "{body}");
    assert!(answer.contains("***") && answer.contains("request.headers::cookie"), "{answer}");
    assert!(!answer.contains("crumbs") && !answer.contains("hunter2"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_masked_unless_they_are_revealed() {
    for may_reveal in [true, false] {
        let mut fixture = Fixture::new(Guard { may_reveal, ..Guard::default() }).await;
        let changed = CONFIGURATION.replace("<b>closed</b>", r#""see http://ann:hunter2@host/""#);
        fixture.store.set([("conf.yaml", changed.as_str())]);
        fixture.configurator.apply().await;
        let resource = "/configz/resource?name=gate.handler.istio-system";
        for path in ["/snapshotj/", resource, "/historyz/diff?from=1&to=2", "/snapshotj/?reveal="] {
            let body = fixture.get(path).await;
            assert!(body.contains("http://***@host/") && !body.contains("hunter2"), "{path}");
        }
        let revealed = fixture.get("/snapshotj/?reveal=1").await;
        assert_eq!(revealed.contains("hunter2"), may_reveal);
    }
}

/// A text is kept for a while after it was sent. Each of these two takes more than half of the memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_text_makes_room_for_another_and_is_that_of_the_published_snapshot() {
    let mut fixture = Fixture::new(Guard { may_reveal: true, ..Guard::default() }).await;
    for caller in ["pirate", "privateer"] {
        let changed = CONFIGURATION.replace("smuggler", &(caller.to_owned() + &"y".repeat(6 << 20)));
        fixture.store.set([("conf.yaml", changed.as_str())]);
        fixture.configurator.apply().await;
        for path in ["/snapshotj/", "/snapshotj/?reveal=1", "/snapshotj/"] {
            let body = fixture.get(path).await;
            assert!(body.len() > 5 << 20 && body.contains(caller), "{path}: {} bytes", body.len());
        }
    }
}

/// What a caller holds by not reading leaves no room for the second of these two texts.
#[tokio::test]
async fn a_text_for_which_there_is_no_room_is_rendered_once() {
    let fixture = Fixture::new(Guard::default()).await;
    let mut rendered = 0;
    let mut answer = |name| {
        answers::of_snapshot(&fixture.server, name, |_| {
            rendered += 1;
            "y".repeat(6 << 20)
        })
    };
    let mut unread = answer("first");
    let held = unread.extensions_mut().remove::<Arc<mixer_net::http::Rendering>>().expect("a large text");
    for _ in 0..3 {
        assert_eq!(answer("second").status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    drop(held);
    assert_eq!(answer("second").status(), StatusCode::OK);
    assert_eq!(rendered, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_compared() {
    let mut fixture = Fixture::new(Guard::default()).await;
    let changed = CONFIGURATION.replace("smuggler", "pirate");
    fixture.store.set([("conf.yaml", changed.as_str())]);
    fixture.configurator.apply().await;
    let history = fixture.get("/historyz/").await;
    assert!(history.contains("/historyz/diff?from=1&amp;to=2"), "{history}");
    let diff = fixture.get("/historyz/diff?from=1&to=2").await;
    assert!(diff.contains("source.user == &quot;smuggler&quot;") && diff.contains("pirate"), "{diff}");
    assert!(diff.contains("1 resources differ"));
    assert!(fixture.get("/historyz/diff?from=2&to=2").await.contains("The snapshots are equal."));
    assert_eq!(fixture.ask(Method::GET, "/historyz/diff?from=0&to=2", "").await.0, 404);
    let json: serde_json::Value = serde_json::from_str(&fixture.get("/historyj/").await).unwrap();
    assert_eq!(json[0]["changes"][0][0], "close.rule.istio-system");
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_link_to_their_explanation() {
    let fixture = Fixture::new(Guard::default()).await;
    let mut attributes = mixer_attribute::OwnedAttributes::new();
    attributes.insert("source.user", "smuggler");
    attributes.insert("request.headers", mixer_attribute::OwnedValue::from([("cookie", "crumbs")]));
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
    let (runtime, handle) = (Arc::clone(&fixture.runtime), tokio::runtime::Handle::current());
    let calls = tokio::task::spawn_blocking(move || {
        let last_known = Arc::new(mixer_engine::dispatch::LastKnownAnswers::default());
        let service = mixer_api::MixerService::new(runtime, Arc::new(Metrics::new()), last_known, None);
        for _ in 0..2 {
            handle.block_on(service.check(request.clone().into(), None)).unwrap();
        }
    });
    calls.await.unwrap();
    let body = fixture.get("/denialz/").await;
    assert!(body.contains("PERMISSION_DENIED") && body.contains("smuggler"), "{body}");
    assert!(body.contains("from the cache"), "the second answer");
    assert!(!body.contains("crumbs"), "secrets are not kept");
    let explain = fixture.get("/explainz/?denial=1").await;
    assert!(explain.contains("source.user = smuggler"), "{explain}");
    assert!(!fixture.get("/denialz/?q=nosuch").await.contains("smuggler"));
}

/// A failure of the first rule refuses, and the second one refuses as well.
#[tokio::test(flavor = "multi_thread")]
async fn the_rule_that_refused_is_named_not_one_that_refuses_too() {
    let more = r#"---
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR, message: it broke}}
---
kind: rule
metadata: {name: a-first, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec: {match: source.user == "smuggler", actions: [{handler: broken, instances: [knock]}]}
"#;
    let configuration = format!("{CONFIGURATION}{more}");
    let fixture = Fixture::of(Guard::default(), &configuration, ConfigPolicy::serve_valid()).await;
    let form = format!("attributes={}", form::encoded("source.user = smuggler"));
    let (_, _, body) = fixture.ask(Method::POST, "/explainz/", &form).await;
    let (_, decision) = body.split_once("<strong>Refused</strong>").unwrap_or_else(|| panic!("{body}"));
    let (decision, _) = decision.split_once("</p>").unwrap();
    for part in ["a-first.rule.istio-system", "with code 7", "it broke"] {
        assert!(decision.contains(part), "{part}: {decision}");
    }
    assert!(!decision.contains("close.rule"), "{decision}");
}

/// The first action fails, which refuses with code 7, and the second one refuses with another code.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_refuses_is_not_told_as_the_refusal_of_another_handler() {
    let more = r#"---
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR, message: it broke}}
---
kind: handler
metadata: {name: sign-in, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 16, message: sign in}}}
---
kind: rule
metadata: {name: a-first, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec:
  match: source.user == "smuggler"
  actions:
  - {handler: broken, instances: [knock]}
  - {handler: sign-in, instances: [knock]}
"#;
    let explained = async |more: &str| {
        let configuration = format!("{CONFIGURATION}{more}");
        let fixture = Fixture::of(Guard::default(), &configuration, ConfigPolicy::serve_valid()).await;
        let form = format!("attributes={}", form::encoded("source.user = smuggler"));
        let (_, _, body) = fixture.ask(Method::POST, "/explainz/", &form).await;
        let (_, decision) = body.split_once("<strong>Refused</strong>").unwrap_or_else(|| panic!("{body}"));
        let decision = decision.split_once("</p>").unwrap().0.to_owned();
        (decision, body)
    };
    let (decision, body) = explained(more).await;
    assert!(decision.contains("with code 7: ") && decision.contains("it broke"), "{decision}");
    assert!(!decision.contains("refused with code 16"), "{decision}");
    assert!(
        body.contains("the failure refuses the request: <code>mixer.dev/on-error: deny</code>"),
        "{body}"
    );
    // A failure that counts for nothing is not the answer.
    let (decision, body) = explained(&more.replace("on-error: deny", "on-error: allow")).await;
    assert!(decision.contains("sign-in") && decision.contains("refused with code 16"), "{decision}");
    assert!(body.contains("the failure counts for nothing"), "{body}");
}

/// Nothing of the first configuration serves, and later a rule in its previous version.
#[tokio::test(flavor = "multi_thread")]
async fn routes_tell_that_nothing_serves_and_what_serves_in_its_previous_version() {
    let mut fixture = Fixture::of(Guard::default(), CONFIGURATION, ConfigPolicy::default()).await;
    for path in ["/routesz/", "/handlerz/", "/rulez/", "/configz/"] {
        let page = fixture.get(path).await;
        assert!(page.contains("No configuration serves"), "{path}: {page}");
        assert!(!page.contains("No route matches") && !page.contains("No handler matches"), "{path}: {page}");
    }
    let routes: serde_json::Value = serde_json::from_str(&fixture.get("/routesj/").await).unwrap();
    assert!(routes["withheld"].is_string(), "{routes}");
    let (valid, _) = CONFIGURATION.rsplit_once("---\n").unwrap();
    let edited = valid.replace("source.user == \"smuggler\"", "source.user = \"smuggler\"");
    for text in [valid, edited.as_str()] {
        fixture.store.set([("conf.yaml", text)]);
        fixture.configurator.apply().await;
    }
    let routes: serde_json::Value = serde_json::from_str(&fixture.get("/routesj/").await).unwrap();
    assert!(routes.get("withheld").is_none(), "{routes}");
    let group = |variety: usize| {
        routes["varieties"][variety]["namespaces"][0]["destinations"][0]["groups"][0].clone()
    };
    assert_eq!(group(0)["previousVersion"], serde_json::json!(["close.rule.istio-system"]), "{routes}");
    assert!(group(1)["rules"].is_array() && group(1).get("previousVersion").is_none(), "{routes}");
    let page = fixture.get("/routesz/").await;
    assert_eq!(page.matches(">previous version</span>").count(), 1, "{page}");
    assert!(!page.contains("No configuration serves"), "{page}");
}

/// Whoever is refused chooses the values: they are none of the lines of the form.
#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_a_denial_has_its_attributes_as_they_were() {
    let mut fixture = Fixture::new(Guard::default()).await;
    let changed =
        CONFIGURATION.replace(r#"match: source.user == "smuggler""#, r#"match: source.user != "root""#);
    fixture.store.set([("conf.yaml", changed.as_str())]);
    fixture.configurator.apply().await;
    let users = ["x\nsource.user = root", "root ", "\"root\""];
    let requests = users.map(|user| {
        let mut attributes = mixer_attribute::OwnedAttributes::new();
        attributes.insert("source.user", user);
        attributes.insert("no.such.attribute", "1");
        let mut request = Vec::new();
        prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
        request
    });
    let (runtime, handle) = (Arc::clone(&fixture.runtime), tokio::runtime::Handle::current());
    let calls = tokio::task::spawn_blocking(move || {
        let last_known = Arc::new(mixer_engine::dispatch::LastKnownAnswers::default());
        let service = mixer_api::MixerService::new(runtime, Arc::new(Metrics::new()), last_known, None);
        for request in requests {
            handle.block_on(service.check(request.into(), None)).unwrap();
        }
    });
    calls.await.unwrap();
    for (id, user) in (1..).zip(users) {
        let form = fixture.get(&format!("/explainz/?denial={id}")).await;
        let (_, area) = form.split_once("<textarea").unwrap();
        let (_, text) = area.split_once('>').unwrap();
        let (text, _) = text.split_once("</textarea>").unwrap();
        let text =
            text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let sent = format!("denial={id}&attributes={}", form::encoded(&text));
        let (_, _, body) = fixture.ask(Method::POST, "/explainz/", &sent).await;
        assert!(body.contains("<strong>Refused</strong>"), "{user:?}: {text}: {body}");
        assert!(
            body.contains("Left out") && body.contains("unknown attribute <code>no.such"),
            "{user:?}: {body}"
        );
        // What a person writes is an error.
        let (_, _, body) = fixture
            .ask(Method::POST, "/explainz/", &format!("{sent}{}", form::encoded("\nno.such = 2")))
            .await;
        assert!(!body.contains("<strong>Refused</strong>"), "{user:?}: {body}");
    }
}

/// What is masked in the record, or cut, decides another way than the request did.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_that_the_record_cannot_repeat_is_not_called_allowed() {
    let mut fixture = Fixture::new(Guard::default()).await;
    let condition =
        r#"(request.headers["x-api-key"] | "") == "stolen" || (source.user | "").endsWith(".php")"#;
    let changed =
        CONFIGURATION.replace(r#"match: source.user == "smuggler""#, &format!("match: '{condition}'"));
    fixture.store.set([("conf.yaml", changed.as_str())]);
    fixture.configurator.apply().await;
    let long = format!("/{}.php", "a".repeat(6000));
    let key = mixer_attribute::OwnedValue::from([("x-api-key", "stolen")]);
    let requests = [("request.headers", key), ("source.user", long.as_str().into())];
    let encoded = requests.map(|(name, value)| {
        let mut attributes = mixer_attribute::OwnedAttributes::new();
        attributes.insert(name, value);
        let mut request = Vec::new();
        prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
        request
    });
    let (runtime, handle) = (Arc::clone(&fixture.runtime), tokio::runtime::Handle::current());
    let calls = tokio::task::spawn_blocking(move || {
        let last_known = Arc::new(mixer_engine::dispatch::LastKnownAnswers::default());
        let service = mixer_api::MixerService::new(runtime, Arc::new(Metrics::new()), last_known, None);
        for request in encoded {
            handle.block_on(service.check(request.into(), None)).unwrap();
        }
    });
    calls.await.unwrap();
    let denials: serde_json::Value = serde_json::from_str(&fixture.get("/denialj/").await).unwrap();
    assert_eq!(denials[1]["masked"], serde_json::json!(["request.headers[x-api-key]"]), "{denials}");
    assert_eq!(denials[0]["cut"], serde_json::json!(["source.user"]), "{denials}");
    let page = fixture.get("/denialz/").await;
    assert!(page.contains("Masked: <code>request.headers[x-api-key]</code>."), "{page}");
    assert!(page.contains("Recorded in part: <code>source.user</code>."), "{page}");

    let form = fixture.get("/explainz/?denial=1").await;
    assert!(form.contains("name=\"denial\" value=\"1\"") && form.contains("Masked: <code>"), "{form}");
    for (id, name, why) in [
        (1, "request.headers[x-api-key]", "is masked in the record"),
        (2, "source.user", "is recorded in part"),
    ] {
        let denial = &denials[2 - id]["attributes"][0];
        let line = format!("{} = {}", denial[0].as_str().unwrap(), denial[1].as_str().unwrap());
        let form = format!("denial={id}&attributes={}", form::encoded(&line));
        let (_, _, body) = fixture.ask(Method::POST, "/explainz/", &form).await;
        assert!(body.contains("The refusal cannot be repeated"), "{body}");
        assert!(body.contains(&format!("<code>{name}</code> {why}")), "{body}");
        assert!(!body.contains("<strong>Allowed</strong>"), "{body}");
    }
    // Somebody who writes the value in repeats it, and another value is another request.
    for (value, said) in [("stolen", "Refused"), ("bought", "Allowed")] {
        let line = form::encoded(&format!("request.headers[x-api-key] = {value}"));
        let form = format!("denial=1&attributes={line}");
        let (_, _, body) = fixture.ask(Method::POST, "/explainz/", &form).await;
        assert!(body.contains(&format!("<strong>{said}</strong>")), "{body}");
    }
    // Nobody knows what a record lacked that is gone.
    let (_, _, body) =
        fixture.ask(Method::POST, "/explainz/", "denial=99&attributes=source.user%3Dann").await;
    assert!(body.contains("cannot be repeated") && body.contains("no longer recorded"), "{body}");
}

/// Rates are of samples, which come every other second.
#[tokio::test(flavor = "multi_thread")]
async fn totals_are_those_of_now() {
    let fixture = Fixture::new(Guard::default()).await;
    let page = fixture.get("/").await;
    assert!(page.contains("<dd>–/s<small>0 total"), "no rate is known yet: {page}");
    fixture.server.metrics.rpc("istio.mixer.v1.Mixer/Check").record(0, Duration::from_millis(1), 1, 1);
    let page = fixture.get("/").await;
    assert!(page.contains("<small>1 total"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_change_permanently_and_temporarily() {
    let fixture = Fixture::new(Guard::default()).await;
    let level = async || {
        let scope: serde_json::Value = serde_json::from_str(&fixture.get("/scopej/api").await).unwrap();
        scope["output_level"].as_str().unwrap().to_owned()
    };
    let form = "scope=api&output_level=debug&stack_trace_level=none&minutes=5";
    let (status, headers, _) = fixture.ask(Method::POST, "/scopez/", form).await;
    assert_eq!((status, headers.get("location").unwrap().as_str()), (303, "/scopez/"));
    assert_eq!(level().await, "debug");
    assert!(fixture.get("/scopez/").await.contains("back to info in"));
    fixture.ask(Method::POST, "/scopez/", "scope=*&output_level=error").await;
    assert_eq!(level().await, "error");
    assert!(
        !fixture.get("/scopez/").await.contains("back to info in"),
        "a permanent change cancels the temporary one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_that_do_not_exist_are_refused() {
    let fixture = Fixture::new(Guard::default()).await;
    let put = async |body: &str| {
        let (status, _, text) = fixture.ask(Method::PUT, "/scopej/api", body).await;
        (status, text)
    };
    let before = fixture.get("/scopej/api").await;
    for (body, word) in [
        (r#"{"output_level": "loud", "stack_trace_level": "warn"}"#, "loud"),
        (r#"{"output_level": "debug", "stack_trace_level": "DEBUG"}"#, "DEBUG"),
        (r#"{"output_level": "fatal"}"#, "fatal"),
    ] {
        let told = format!("unknown level: {word}; the levels are none, error, warn, info, debug");
        assert_eq!(put(body).await, (400, told), "{body}");
    }
    for field in ["outputLevel", "level"] {
        let told =
            format!("unknown field: {field}; the fields are output_level, stack_trace_level and log_callers");
        assert_eq!(put(&format!(r#"{{"{field}": "debug"}}"#)).await, (400, told));
    }
    let (status, _, text) = fixture.ask(Method::POST, "/scopez/", "scope=api&output_level=loud").await;
    assert_eq!((status, text.starts_with("unknown level: loud; ")), (400, true), "{text}");
    assert_eq!(fixture.get("/scopej/api").await, before, "nothing has changed");
    // What is read may be written, also of a scope whose level this interface does not know.
    assert_eq!(put(&before).await.0, 202);
    assert_eq!(put(r#"{"output_level": "", "log_callers": true}"#).await.0, 202);
    assert_eq!(put(r#"{"output_level": "debug"}"#).await.0, 202);
    let after: serde_json::Value = serde_json::from_str(&fixture.get("/scopej/api").await).unwrap();
    assert_eq!(
        (&after["output_level"], &after["log_callers"]),
        (&"debug".into(), &true.into()),
        "what is not named stays"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_mode_refuses_changes() {
    let fixture = Fixture::new(Guard { read_only: true, ..Guard::default() }).await;
    assert!(fixture.get("/scopez/").await.contains("read only"));
    for (method, path) in [
        (Method::PUT, "/scopej/api"),
        (Method::POST, "/scopez/"),
        (Method::PUT, "/memj/forcecollection"),
        (Method::PUT, "/homej/exit"),
        (Method::POST, "/exit"),
        (Method::POST, "/signalz/SIGUSR1"),
    ] {
        assert_eq!(fixture.ask(method, path, "{}").await.0, 403, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_a_sign_in_form() {
    let fixture = Fixture::new(Guard { token: Some("abc".to_owned()), ..Guard::default() }).await;
    let ask = async |path: &str, name: &str, value: &str| {
        let request = Request::builder().uri(path).header("host", "localhost").header(name, value);
        fixture.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("/", "accept", "text/html").await, 401);
    assert_eq!(ask("/", "authorization", "Bearer abc").await, 200);
    assert_eq!(fixture.ask(Method::POST, "/login", "token=wrong").await.0, 401);
    let (status, headers, _) = fixture.ask(Method::POST, "/login", "token=abc").await;
    assert_eq!(status, 303);
    let cookie = headers.get("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(ask("/memz/", "cookie", &cookie).await, 200);
}

#[tokio::test]
async fn pages_are_rendered_on_other_threads_than_that_of_the_endpoints() {
    let fixture = Fixture::new(Guard::default()).await;
    for path in ["/", "/configz/", "/routesz/", "/explainz/"] {
        fixture.get(path).await;
    }
    let here = std::thread::current().id();
    let threads = fixture.rendered_on.lock();
    assert!(threads.len() >= 4 && threads.iter().all(|thread| *thread != here), "{threads:?}");
}
