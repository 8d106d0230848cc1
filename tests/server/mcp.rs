//! A source of the Mesh Configuration Protocol as the configuration.

use std::path::Path;
use std::time::{Duration, Instant};

use mixer_mcp::message::google::protobuf::Any;
use mixer_mcp::message::{Metadata, Resource};
use serde_json::{Value, json};

use crate::certificates::Authority;
use crate::on_config_error::{copy_of_the_sample, edit};
use crate::support::mcp_source::McpSource;
use crate::support::{
    DEADLINE, Server, ServerBuilder, free_port, http, run_mixer as mixer, sample_configuration,
};

const RULES: &str = "istio/policy/v1beta1/rules";
/// Whoever waits longest waits for the pause before a stream is opened again.
const LIMIT: Duration = DEADLINE.saturating_mul(6);

/// Requests of every kind that the sample decides about.
const REQUESTS: [&[&str]; 6] = [
    &["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:abc"],
    &["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:beta"],
    &["-s", "destination.service=closed.ns.svc.cluster.local"],
    &[
        "-s",
        "destination.service=ratings",
        "--stringmap-attributes",
        "destination.labels=app:ratings,source.labels=version:v2",
    ],
    &["-s", "destination.service=shop,source.name=a", "-q", "requestcount=2"],
    &[],
];

/// What `check` prints for a request.
fn check(server: &Server, request: &[&str]) -> String {
    let address = server.address();
    let finished = mixer(&[&["check", "-m", &address][..], request].concat());
    format!("{}{}", finished.stdout, finished.stderr)
}

fn is_denied(server: &Server) -> bool {
    check(server, REQUESTS[0]).contains("PERMISSION_DENIED")
}

fn state(server: &Server) -> Value {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "");
    answer.ok().and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default()
}

fn why(server: &Server) -> String {
    state(server)["degraded"]["store"]["why"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn until(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: {}\n{}", state(server), server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn on(source: &McpSource) -> ServerBuilder {
    Server::on_store(&source.url()).native()
}

fn rule(type_url: &str, value: &'static [u8]) -> Resource {
    let metadata =
        Metadata { name: "istio-system/r".to_owned(), version: "1".to_owned(), ..Metadata::default() };
    let body = Any { type_url: format!("type.googleapis.com/{type_url}"), value: value.into() };
    Resource { metadata: Some(metadata), body: Some(body) }
}

#[test]
fn verdicts_are_those_of_the_same_files() {
    let source = McpSource::serving(&sample_configuration());
    let (over, from) = (on(&source).start(), Server::on(&sample_configuration()).native().start());
    for request in REQUESTS {
        assert_eq!(check(&over, request), check(&from, request), "{request:?}\n{}", over.log());
    }
    assert!(is_denied(&over));
    assert_eq!(source.refusals(), Vec::<String>::new());
    let dump = |server: &Server| {
        let page = http("GET", &format!("http://127.0.0.1:{}/snapshotj/", server.ports.ctrlz), "").unwrap();
        let mut dump: Value = serde_json::from_str(&page.body).unwrap();
        forget_places(&mut dump);
        dump
    };
    assert_eq!(dump(&over), dump(&from));
}

/// Removes where resources are from, and what differs from run to run.
fn forget_places(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["file", "line", "source", "store", "id", "built", "took"] {
                members.remove(name);
            }
            members.iter_mut().for_each(|(_, value)| forget_places(value));
        }
        Value::Array(items) => items.iter_mut().for_each(forget_places),
        _ => {}
    }
}

#[test]
fn changes_take_effect_and_the_last_rule_can_be_deleted() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    let source = McpSource::serving(directory.path());
    let server = on(&source).with(&["--allow-empty-config"]).start();
    assert!(is_denied(&server), "{}", server.log());
    edit(&directory.path().join("deny.yaml"), "\"abc\"", "\"xyz\"");
    source.set(directory.path());
    until(&server, "a rule is changed", || !is_denied(&server));
    edit(&directory.path().join("deny.yaml"), "\"xyz\"", "\"abc\"");
    source.set(directory.path());
    until(&server, "and back", || is_denied(&server));
    source.put(RULES, Vec::new());
    until(&server, "the last rule is deleted", || !is_denied(&server));
    assert_eq!(source.refusals(), Vec::<String>::new());
    source.set(directory.path());
    until(&server, "there are rules again", || is_denied(&server));
    // What has an error is acknowledged, and serves in its last good version.
    edit(&directory.path().join("deny.yaml"), "request.headers[\"clnt\"]", "request.haeders[\"clnt\"]");
    source.set(directory.path());
    until(&server, "the error is told", || state(&server)["degraded"]["configuration"].is_object());
    assert!(is_denied(&server));
    assert_eq!(source.refusals(), Vec::<String>::new());
    let first = state(&server)["configuration"]["firstError"].clone();
    assert_eq!(first["file"], format!("{}/{RULES}/istio-system/unwelcome-client", source.url()), "{first}");
    assert_eq!(first["line"], Value::Null);
    server.wait_for_log(&format!("{RULES}/istio-system/unwelcome-client"));
}

#[test]
fn a_change_that_cannot_be_decoded_is_refused_as_a_whole() {
    let source = McpSource::serving(&sample_configuration());
    let server = on(&source).start();
    assert!(is_denied(&server));
    let type_url = "istio.policy.v1beta1.Rule";
    for (what, refused, text) in [
        (
            "no message",
            rule(type_url, b"\x0a\x05"),
            "istio-system/r: no message of type `istio.policy.v1beta1.Rule`",
        ),
        ("another type", rule("google.protobuf.Struct", b""), "google.protobuf.Struct"),
    ] {
        drop(source.refusals());
        source.put(RULES, vec![refused]);
        let error = source.next_refusal(LIMIT);
        assert!(error.contains(text), "{what}: {error}");
        assert!(is_denied(&server), "{what}");
        source.put(RULES, Vec::new());
        until(&server, what, || !is_denied(&server));
        source.set(&sample_configuration());
        until(&server, what, || is_denied(&server));
    }
}

/// A list that refuses eve and mallory, and a rule that refuses nobody.
const LISTS: &str = "apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}, context.reporter.kind: {valueType: STRING}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: banned, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [eve, mallory], blacklist: true}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.user | \"\"}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: banned, namespace: istio-system}
spec: {actions: [{handler: banned, instances: [user]}]}
";

fn refuses(server: &Server, user: &str) -> bool {
    check(server, &["-s", &format!("source.user={user}")]).contains("PERMISSION_DENIED")
}

#[test]
fn what_may_refuse_less_waits_while_a_collection_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("lists.yaml"), text).unwrap();
    write(LISTS);
    let source = McpSource::serving(directory.path());
    let server = on(&source).start();
    assert!(refuses(&server, "eve") && refuses(&server, "mallory") && !refuses(&server, "ann"));
    // Perhaps with a rule that refuses eve instead of the list: nobody can read it.
    source.put(RULES, vec![rule("istio.policy.v1beta1.Rule", b"\x0a\x05")]);
    source.next_refusal(LIMIT);
    write(&LISTS.replace("[eve, mallory]", "[mallory, ann]"));
    let handlers = "istio/policy/v1beta1/handlers";
    source.set_collection(directory.path(), handlers);
    until(&server, "it is told", || state(&server)["configuration"]["keptResources"] != 0);
    until(&server, "what waits is told", || {
        let kept = state(&server)["configuration"]["kept"].to_string();
        kept.contains("banned.handler.istio-system") && kept.contains("its last change is refused: ")
    });
    assert!(refuses(&server, "eve") && refuses(&server, "mallory"), "{}", state(&server));
    source.set(directory.path());
    until(&server, "the collection is readable", || !refuses(&server, "eve"));
    assert!(refuses(&server, "ann") && refuses(&server, "mallory"));
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
}

#[test]
fn a_source_that_lost_its_configuration_opens_nothing() {
    let source = McpSource::serving(&sample_configuration());
    let server = on(&source).start();
    assert!(is_denied(&server));
    let mut collections: Vec<&str> = mixer_schema::kinds().iter().map(|kind| kind.collection).collect();
    collections.sort_by_key(|collection| *collection != RULES);
    // One after the other, the rules first.
    for collection in collections {
        source.put(collection, Vec::new());
        std::thread::sleep(Duration::from_millis(if collection == RULES { 100 } else { 2 }));
    }
    until(&server, "it is told", || state(&server)["degraded"]["configuration"].is_object());
    let told = state(&server)["configuration"]["kept"][0]["why"].to_string();
    assert!(told.contains("the store has no configuration: ") && !told.contains(".yaml"), "{told}");
    assert!(is_denied(&server), "{}", state(&server));
    source.set(&sample_configuration());
    until(&server, "it is there again", || state(&server)["degraded"] == json!({}));
    assert!(is_denied(&server));
}

/// The task that follows the source panics: what was received serves, and changes of that time count afterwards.
#[cfg(debug_assertions)]
#[test]
fn a_panic_of_what_follows_the_source_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    let source = McpSource::serving(directory.path());
    let mut server = on(&source).env("MIXER_FAULTS", "1").start();
    assert!(is_denied(&server), "{}", server.log());
    for (from, to, denies) in [("\"abc\"", "\"xyz\"", false), ("\"xyz\"", "\"abc\"", true)] {
        crate::supervision::drill_of_a_store(&server, |server| {
            assert_eq!(is_denied(server), !denies, "{}", server.log());
            edit(&directory.path().join("deny.yaml"), from, to);
            source.set(directory.path());
        });
        until(&server, "a later edit counts", || is_denied(&server) == denies);
    }
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    server.terminate().unwrap();
}

/// Why resources serve in their previous version.
fn kept(server: &Server) -> String {
    state(server)["configuration"]["kept"].to_string()
}

/// What is told of the rules while they are missing since the source was connected.
const RULES_ARE_MISSING: &str = "istio/policy/v1beta1/rules is empty since the source was connected";

#[test]
fn a_source_that_comes_back_without_its_rules_opens_nothing() {
    let mut source = McpSource::serving(&sample_configuration());
    let server = on(&source).start();
    assert!(is_denied(&server));
    // Everything else is there, again and again.
    for _ in 0..2 {
        let streams = source.streams();
        source.stop();
        source.put(RULES, Vec::new());
        source.resume();
        until(&server, "it is connected again", || source.streams() > streams && source.is_answered(RULES));
        until(&server, "it is told", || kept(&server).contains(RULES_ARE_MISSING));
        assert!(is_denied(&server), "{}", state(&server));
    }
    assert!(kept(&server).contains("--allow-empty-config") || server.log().contains("--allow-empty-config"));
    source.set(&sample_configuration());
    until(&server, "it is there again", || state(&server)["degraded"] == json!({}));
    assert!(is_denied(&server));
    // Over a stream that had it, it is a deletion.
    source.put(RULES, Vec::new());
    until(&server, "the rules are deleted", || !is_denied(&server));
    assert_eq!(source.refusals(), Vec::<String>::new());
}

#[test]
fn a_source_that_comes_back_empty_and_is_filled_later_opens_nothing() {
    let mut source = McpSource::serving(&sample_configuration());
    let server = on(&source).start();
    assert!(is_denied(&server));
    source.stop();
    let streams = source.streams();
    mixer_schema::kinds().iter().for_each(|kind| source.put(kind.collection, Vec::new()));
    source.resume();
    until(&server, "it is connected again", || {
        assert!(is_denied(&server), "{}", state(&server));
        source.streams() > streams && source.is_answered(RULES)
    });
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        assert!(is_denied(&server), "{}", state(&server));
    }
    source.set(&sample_configuration());
    let end = Instant::now() + Duration::from_secs(7);
    while Instant::now() < end {
        assert!(is_denied(&server), "{}", state(&server));
    }
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    assert_eq!(source.refusals(), Vec::<String>::new());
}

/// As one does that is started again while its files are copied.
#[test]
fn a_source_that_comes_back_with_a_part_of_its_rules_opens_nothing() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    std::fs::remove_file(directory.path().join("deny.yaml")).unwrap();
    let mut source = McpSource::serving(&sample_configuration());
    let server = on(&source).start();
    assert!(is_denied(&server));
    source.stop();
    let streams = source.streams();
    source.set(directory.path());
    source.resume();
    until(&server, "it is connected again", || source.streams() > streams && source.is_answered(RULES));
    let is_told = || kept(&server).contains("had less than before");
    until(&server, "it is told", is_told);
    assert!(is_denied(&server) || !is_told(), "{}", state(&server));
    source.set(&sample_configuration());
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    assert!(is_denied(&server), "{}", state(&server));
    // What it lacks for long was deleted while it was away.
    source.stop();
    source.set(directory.path());
    source.resume();
    until(&server, "it is deleted", || !is_denied(&server));
    assert_eq!(source.refusals(), Vec::<String>::new());
}

#[test]
fn a_start_with_a_cache_and_a_source_without_rules_opens_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let source = McpSource::serving(&sample_configuration());
    let builder = on(&source).with(&[format!("--config-cache={}", directory.path().join("cache").display())]);
    let mut server = builder.start();
    assert!(is_denied(&server));
    server.terminate().unwrap();
    source.put(RULES, Vec::new());
    let server = builder.start();
    until(&server, "it is told", || kept(&server).contains(RULES_ARE_MISSING));
    // Longer than what is missing at a start is waited for.
    std::thread::sleep(Duration::from_secs(6));
    assert!(is_denied(&server), "{}", state(&server));
    source.set(&sample_configuration());
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    assert!(is_denied(&server));
}

#[test]
fn an_empty_collection_that_is_meant_is_applied_after_a_reconnection() {
    for flag in ["--allow-empty-config", "--config-on-error=serve-valid"] {
        let mut source = McpSource::serving(&sample_configuration());
        let server = on(&source).with(&[flag]).start();
        assert!(is_denied(&server), "{flag}");
        source.stop();
        source.put(RULES, Vec::new());
        source.resume();
        until(&server, flag, || !is_denied(&server));
    }
}

#[test]
fn a_source_that_is_away_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    let mut source = McpSource::serving(directory.path());
    let server = on(&source).start();
    assert!(is_denied(&server));
    source.stop();
    until(&server, "the outage is told", || why(&server).contains(&source.address()));
    assert!(is_denied(&server));
    assert_eq!(state(&server)["available"], true);
    let page = http("GET", &format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz), "").unwrap().body;
    for shown in ["not connected", RULES, "The store cannot be followed"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    edit(&directory.path().join("deny.yaml"), "\"abc\"", "\"xyz\"");
    source.set(directory.path());
    source.resume();
    until(&server, "what changed meanwhile takes effect", || !is_denied(&server));
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
    assert!(source.streams() > 1);
    assert_eq!(source.refusals(), Vec::<String>::new());
}

#[test]
fn a_restart_without_the_source_serves_the_last_good_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let (cache, files) = (directory.path().join("cache"), directory.path().join("files"));
    std::fs::create_dir(&files).unwrap();
    copy_of_the_sample(&files);
    let mut source = McpSource::serving(&files);
    let builder = on(&source).with(&[format!("--config-cache={}", cache.display())]);
    let mut server = builder.start();
    assert!(is_denied(&server));
    server.terminate().unwrap();
    source.stop();
    let server = builder.start();
    assert!(is_denied(&server), "{}", server.log());
    assert!(why(&server).contains("the configuration in --config-cache of "), "{}", state(&server));
    edit(&files.join("deny.yaml"), "\"abc\"", "\"xyz\"");
    source.set(&files);
    source.resume();
    until(&server, "the source is back", || !is_denied(&server));
    until(&server, "nothing is degraded", || state(&server)["degraded"] == json!({}));
}

#[test]
fn a_start_waits_for_every_collection() {
    let source = McpSource::start();
    let mut server = on(&source).with(&["--config-wait-timeout=2s"]).spawn().unwrap();
    assert_eq!(server.exit_code().unwrap(), Some(3));
    let log = server.log();
    assert!(log.contains("exceeded timeout 2s: not yet ready: [istio/config/v1alpha2/adapters, "), "{log}");
    assert!(!log.contains("did not stop in time"), "{log}");
}

/// Whoever operates it is told for what, from the start on: a source withholds its configuration while that has an error.
#[test]
fn a_start_that_waits_for_its_source_tells_so() {
    let mut source = McpSource::serving(&sample_configuration());
    source.forget(RULES);
    let server = on(&source).spawn().unwrap();
    let awaited = format!("waiting for the configuration of {}: not yet ready: [{RULES}]", source.url());
    let told = |server: &Server| {
        let state = state(server);
        state["emitters"]["configuration"] == *awaited && state["available"] == false
    };
    until(&server, "readiness tells what is awaited", || told(&server));
    assert_eq!(http("GET", &server.monitoring_url("/readyz"), "").unwrap().status, 503);
    assert_eq!(http("GET", &server.monitoring_url("/healthz"), "").unwrap().status, 200, "{}", server.log());
    let controlz = format!("http://127.0.0.1:{}/", server.ports.ctrlz);
    until(&server, "ControlZ answers", || http("GET", &controlz, "").is_ok_and(|page| page.status == 200));
    server.wait_for_log(&awaited);
    assert!(!server.log().contains("Starting gRPC server"), "{}", server.log());
    // It is asked again.
    source.stop();
    source.set_collection(&sample_configuration(), RULES);
    source.resume();
    until(&server, "it serves", || state(&server)["available"] == true);
    assert!(is_denied(&server), "{}", server.log());
}

#[test]
fn a_start_that_waits_ends_when_controlz_asks_for_it() {
    let source = McpSource::serving(&sample_configuration());
    source.forget(RULES);
    let mut server = on(&source).spawn().unwrap();
    let stop = format!("http://127.0.0.1:{}/signalz/SIGTERM", server.ports.ctrlz);
    until(&server, "ControlZ answers", || http("POST", &stop, "").is_ok_and(|answer| answer.status == 202));
    assert_eq!(server.exit_code(), Ok(Some(3)), "{}", server.log());
    assert!(server.log().contains("interrupted by ControlZ"), "{}", server.log());
}

#[test]
fn certificates_are_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let url = format!("mcps://127.0.0.1:{}", free_port());
    let builder = Server::on_store(&url).native().with(&[
        format!("--cert-file={}", path("client.pem")),
        format!("--key-file={}", path("client.key")),
        format!("--ca-cert-file={}", path("root.pem")),
    ]);
    let server = builder.spawn().unwrap();
    server.wait_for_log(&path("client.pem"));
    let authority = Authority::new();
    authority.issue(&["mixer.example"]).put(Path::new(directory.path()), "client");
    server.wait_for_log(&path("root.pem"));
    std::fs::write(path("root.pem"), &authority.certificate).unwrap();
    server.wait_for_log("onnection refused");
}

/// A handler whose roles are in the configuration, and the rule that asks it about the service `books`.
const ROLES: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: roles, namespace: istio-system}
spec: {compiledAdapter: rbac, params: {cacheDuration: 0s}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: who-does-what, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: source.user | ""}
    action: {namespace: '"default"', service: destination.service | "", method: request.method | "", path: request.path | ""}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: roles, namespace: istio-system}
spec: {match: destination.service == "books", actions: [{handler: roles, instances: [who-does-what]}]}
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: reader, namespace: default}
spec: {rules: [{services: [books], methods: [GET]}]}
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: readers, namespace: default}
spec: {subjects: [{user: ann}], roleRef: {kind: ServiceRole, name: reader}}
"#;

/// Whether a user may read books.
fn may_read(server: &Server, user: &str) -> bool {
    let attributes =
        format!("source.user={user},destination.service=books,request.method=GET,request.path=/1");
    let said = check(server, &["-s", &attributes]);
    let (ok, denied) = (said.contains("Check status was OK"), said.contains("RBAC: permission denied."));
    assert!(ok != denied, "{said}");
    ok
}

#[test]
fn roles_are_followed_without_being_named_in_the_url() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    let file = directory.path().join("roles.yaml");
    std::fs::write(&file, ROLES).unwrap();
    // At a start with such a handler, nothing serves before the roles are there.
    let mut source = McpSource::serving(directory.path());
    let server = on(&source).start();
    assert!(may_read(&server, "ann") && !may_read(&server, "eve"), "{}", server.log());
    std::fs::write(&file, ROLES.replace("user: ann", "user: eve")).unwrap();
    source.set(directory.path());
    until(&server, "another user", || may_read(&server, "eve"));
    assert!(!may_read(&server, "ann"));
    // Each stream asks for them.
    source.stop();
    std::fs::write(&file, ROLES).unwrap();
    source.set(directory.path());
    source.resume();
    until(&server, "the first user again", || may_read(&server, "ann"));
    drop(server);
    // A handler that comes later.
    std::fs::remove_file(&file).unwrap();
    source.set(directory.path());
    let server = on(&source).start();
    assert!(may_read(&server, "eve"), "no rule asks the handler");
    let asked = |source: &McpSource| {
        let requests = source.take_requests(0, LIMIT);
        requests.iter().any(|request| request.collection.starts_with("istio/rbac/"))
    };
    assert!(asked(&source), "the first server did");
    std::fs::write(&file, ROLES).unwrap();
    source.set(directory.path());
    until(&server, "the handler decides", || !may_read(&server, "eve"));
    assert!(may_read(&server, "ann") && asked(&source));
    assert_eq!(why(&server), "");
}

#[test]
fn a_source_without_the_roles_that_a_handler_needs_is_told() {
    let directory = tempfile::tempdir().unwrap();
    copy_of_the_sample(directory.path());
    let mut source = McpSource::serving(directory.path());
    source.forget("istio/rbac/v1alpha1/servicerolebindings");
    let server = on(&source).start();
    std::fs::write(directory.path().join("roles.yaml"), ROLES).unwrap();
    for collection in [RULES, "istio/policy/v1beta1/instances", "istio/policy/v1beta1/handlers"] {
        source.set_collection(directory.path(), collection);
    }
    let bindings = "istio/rbac/v1alpha1/servicerolebindings: it is not received yet";
    until(&server, "the missing collection is told", || state(&server).to_string().contains(bindings));
    source.stop();
    source.set(directory.path());
    source.resume();
    until(&server, "the handler decides", || !may_read(&server, "eve") && may_read(&server, "ann"));
}
