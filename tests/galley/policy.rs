//! A policy server whose configuration comes from a galley.

use serde_json::Value;

use crate::support::galley::Galley;
use crate::support::{DEADLINE, Server, http, run_mixer, sample_configuration, wait_for};

/// What `check` prints for the client that the sample denies.
fn check(server: &Server) -> String {
    let address = server.address();
    let headers = "request.headers=clnt:abc";
    let finished = run_mixer(&[
        "check",
        "-m",
        &address,
        "-s",
        "destination.service=shop",
        "--stringmap-attributes",
        headers,
    ]);
    format!("{}{}", finished.stdout, finished.stderr)
}

fn is_denied(server: &Server) -> bool {
    check(server).contains("PERMISSION_DENIED")
}

/// The source of files, with its last error.
fn source(galley: &Galley) -> Value {
    let sources = galley.document("/statusj/")["sources"].clone();
    let of_files = sources
        .as_array()
        .unwrap()
        .iter()
        .find(|source| source["name"].as_str().is_some_and(|name| name.starts_with("files ")));
    of_files.cloned().unwrap_or_default()
}

#[test]
fn a_file_with_an_error_opens_nothing() {
    let sample = sample_configuration();
    let mut files: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(&sample).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    let deny = files.iter().find(|(name, _)| name == "deny.yaml").unwrap().1.clone();
    let all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let galley = Galley::of_files(&all, &[]);
    galley.synced();
    let server = Server::on_store(&format!("mcp://127.0.0.1:{}", galley.sinks)).native().start();
    assert!(is_denied(&server), "{}", server.log());
    for (what, text) in [
        ("a document that is not YAML", format!("{deny}---\n: - ]x {{\n")),
        ("a file that is cut off", deny[..deny.len() / 2].to_owned()),
        ("an empty file", String::new()),
        ("a kind that is misspelt", deny.replace("kind: rule", "kind: ruel")),
        ("a field that is misspelt", deny.replace("match:", "macth:")),
    ] {
        let before = source(&galley)["lastErrorAt"].clone();
        galley.write("deny.yaml", &text);
        let told = wait_for(DEADLINE, || {
            let now = source(&galley);
            let is_told = now["lastError"]
                .as_str()
                .is_some_and(|why| why.contains("the configuration is not published"));
            (is_told && now["lastErrorAt"] != before).then_some(())
        });
        assert!(told.is_some(), "{what}: {}\n{}", source(&galley), galley.log());
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(is_denied(&server), "{what}: {}", check(&server));
        let page = http("GET", &server.monitoring_url("/readyz"), "").unwrap();
        assert_eq!(page.status, 200, "{what}");
        galley.write("deny.yaml", &deny);
    }
    galley.write("deny.yaml", &deny.replace("\"abc\"", "\"xyz\""));
    let opened = wait_for(DEADLINE, || (!is_denied(&server)).then_some(()));
    assert!(opened.is_some(), "{}\n{}", galley.log(), server.log());
}

#[test]
fn a_directory_that_is_emptied_opens_nothing() {
    let sample = sample_configuration();
    let mut files: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(&sample).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    let all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let galley = Galley::of_files(&all, &[]);
    galley.synced();
    // As mixs, which applies at once whatever it gets.
    let store = format!("mcp://127.0.0.1:{}", galley.sinks);
    let server = Server::on_store(&store).native().with(&["--config-on-error=serve-valid"]).start();
    assert!(is_denied(&server), "{}", server.log());
    let remove = |name: &str| std::fs::remove_file(galley.path("config").join(name)).unwrap();
    files.iter().for_each(|(name, _)| remove(name));
    let why = "the configuration is not published, and the last one stays: the store has no configuration: ";
    let told = wait_for(DEADLINE, || {
        source(&galley)["lastError"].as_str().is_some_and(|told| told.starts_with(why)).then_some(())
    });
    assert!(told.is_some(), "{}\n{}", source(&galley), galley.log());
    let is_degraded = || galley.metrics().contains("mixer_component_degraded{component=\"sources\"} 1");
    let degraded = wait_for(DEADLINE, || is_degraded().then_some(()));
    assert!(degraded.is_some(), "{}", galley.metrics());
    let url = format!("http://127.0.0.1:{}/readyz?verbose", galley.monitoring);
    let verbose = http("GET", &url, "").unwrap();
    assert!(verbose.status == 200 && verbose.body.contains(why), "{}", verbose.body);
    assert!(galley.log().contains(why), "{}", galley.log());
    let sources = galley.document("/sourcej/").to_string();
    assert!(sources.contains("\"isWithheld\":true"), "{sources}");
    assert!(is_denied(&server), "{}", check(&server));
    // It comes back file by file.
    for (name, text) in &files {
        galley.write(name, text);
        assert!(is_denied(&server), "{name}: {}", check(&server));
    }
    let mended = wait_for(DEADLINE, || source(&galley)["lastError"].is_null().then_some(()));
    assert!(mended.is_some(), "{}", source(&galley));
    assert!(is_denied(&server), "{}", check(&server));
    remove("deny.yaml");
    let opened = wait_for(DEADLINE, || (!is_denied(&server)).then_some(()));
    assert!(opened.is_some(), "{}\n{}", galley.log(), server.log());
}

#[test]
fn a_restart_publishes_what_was_published_beside_a_directory_that_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let (config, cache) = (directory.path().join("config"), directory.path().join("cache"));
    std::fs::create_dir(&config).unwrap();
    for entry in std::fs::read_dir(sample_configuration()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, config.join(path.file_name().unwrap())).unwrap();
    }
    let start = |config: &std::path::Path| {
        let flags =
            [format!("--config-path={}", config.display()), format!("--config-cache={}", cache.display())];
        Galley::of_arguments(&[&*flags[0], &*flags[1]]).unwrap()
    };
    let readiness = |galley: &Galley| {
        http("GET", &format!("http://127.0.0.1:{}/readyz?verbose", galley.monitoring), "").unwrap()
    };
    let galley = start(&config);
    galley.synced();
    drop(galley);
    let away = directory.path().join("away");
    std::fs::rename(&config, &away).unwrap();
    std::fs::create_dir(&config).unwrap();
    let galley = start(&config);
    galley.synced();
    let server = Server::on_store(&format!("mcp://127.0.0.1:{}", galley.sinks)).native().start();
    assert!(is_denied(&server), "{}", server.log());
    let told = wait_for(DEADLINE, || {
        let body = readiness(&galley).body;
        (body.contains("the configuration in --config-cache of ")
            && body.contains("the store has no configuration"))
        .then_some(())
    });
    assert!(told.is_some(), "{}", readiness(&galley).body);
    assert!(galley.log().contains("the configuration in --config-cache of "), "{}", galley.log());
    drop((server, galley));
    // Of another directory nothing is known: the path may be the mistake.
    let galley = start(&away);
    let told = wait_for(DEADLINE, || {
        let answer = readiness(&galley);
        (answer.status == 503 && answer.body.contains("it is of the store ")).then_some(())
    });
    assert!(told.is_some(), "{}", readiness(&galley).body);
    drop(galley);
    // A damaged one is told, also while there is nothing else, and replaced.
    std::fs::write(cache.join("last-good.cache"), "mixer-config-cache 2\nx\n").unwrap();
    let galley = start(&config);
    let told = wait_for(DEADLINE, || {
        let answer = readiness(&galley);
        (answer.status == 503 && answer.body.contains("is ignored: it is damaged")).then_some(())
    });
    assert!(told.is_some(), "{}", readiness(&galley).body);
    drop(galley);
    std::fs::remove_dir(&config).unwrap();
    std::fs::rename(&away, &config).unwrap();
    let galley = start(&config);
    galley.synced();
    assert!(galley.log().contains("is ignored: it is damaged"), "{}", galley.log());
    let written = wait_for(DEADLINE, || {
        let kept = std::fs::read_to_string(cache.join("last-good.cache")).unwrap();
        kept.contains("unwelcome-client").then_some(())
    });
    assert!(written.is_some(), "{}", galley.log());
}

/// `eve` is refused: by a rule that closes, and by roles that permit only `ann`, and only a path.
const CLOSED: &str = "apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.path: {valueType: STRING}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: allow, namespace: istio-system}
spec: {compiledAdapter: noop}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}
spec: {}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: ann, namespace: istio-system}
spec:
  match: (source.user | \"\") == \"ann\"
  actions: [{handler: allow, instances: [nothing]}]
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: list, namespace: istio-system}
spec:
  compiledAdapter: listchecker
  params:
    entryType: REGEX
    blacklist: true
    overrides: ['^/secret']
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: path, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'request.path | \"\"'}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: no-secrets, namespace: istio-system}
spec:
  actions: [{handler: list, instances: [path]}]
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: roles, namespace: istio-system}
spec: {compiledAdapter: rbac}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: who, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: 'source.user | \"\"'}
    action: {namespace: '\"shop\"', service: '\"till\"', method: '\"GET\"', path: 'request.path | \"\"'}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: roles, namespace: istio-system}
spec:
  actions: [{handler: roles, instances: [who]}]
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: books, namespace: shop}
spec:
  rules:
  - services: [till]
    methods: [GET]
    paths: [/books, /secret]
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: books, namespace: shop}
spec:
  subjects: [{user: ann}]
  roleRef: {kind: ServiceRole, name: books}
";

/// The answers to `ann` at three paths, and to `eve`.
fn answers(server: &Server) -> [bool; 4] {
    let address = server.address();
    [("ann", "/books"), ("ann", "/admin"), ("ann", "/secret"), ("eve", "/books")].map(|(user, path)| {
        let attributes = format!("source.user={user},request.path={path}");
        let finished = run_mixer(&["check", "-m", &address, "-s", &attributes]);
        let text = format!("{}{}", finished.stdout, finished.stderr);
        assert!(text.contains("Check RPC completed successfully"), "{text}\n{}", server.log());
        text.contains("status was OK")
    })
}

/// The wire has neither null nor empty values: a sink does not see that they were written.
#[test]
fn what_the_wire_does_not_carry_is_an_error_here() {
    let galley = Galley::of_files(&[("all.yaml", CLOSED)], &[]);
    galley.synced();
    let roles = "istio/rbac/v1alpha1/serviceroles,istio/rbac/v1alpha1/servicerolebindings";
    let url = format!("mcp://127.0.0.1:{}?collections={roles}", galley.sinks);
    let server = Server::on_store(&url).native().start();
    let closed = [true, false, false, false];
    let served = wait_for(DEADLINE, || (answers(&server) == closed).then_some(()));
    assert!(served.is_some(), "{:?}\n{}", answers(&server), server.log());
    let condition = "match: (source.user | \"\") == \"ann\"";
    for (from, to, why) in [
        (condition, "match:", "`match` has no value"),
        (condition, "match: ~", "`match` has no value"),
        ("paths: [/books, /secret]", "paths: []", "paths"),
        ("paths: [/books, /secret]", "paths:", "paths"),
        ("{user: ann}", "{user: \"\"}", "user"),
    ] {
        galley.write("all.yaml", &CLOSED.replace(from, to));
        let told = wait_for(DEADLINE, || {
            let told = source(&galley)["lastError"].as_str().is_some_and(|told| told.contains(why));
            told.then_some(())
        });
        assert!(told.is_some(), "{to}: {}\n{}", source(&galley), galley.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(answers(&server), closed, "{to}");
        galley.write("all.yaml", CLOSED);
        let mended = wait_for(DEADLINE, || source(&galley)["lastError"].is_null().then_some(()));
        assert!(mended.is_some(), "{to}: {}", source(&galley));
    }
    // Parameters arrive as they are written: the server itself keeps what it had.
    for (from, to, why) in [
        ("blacklist: true", "blacklist:", "`blacklist` has no value"),
        ("entryType: REGEX", "entryType: ~", "`entryType` has no value"),
    ] {
        galley.write("all.yaml", &CLOSED.replace(from, to));
        let told = wait_for(DEADLINE, || server.log().contains(why).then_some(()));
        assert!(told.is_some(), "{to}: {}\n{}", source(&galley), server.log());
        assert_eq!(answers(&server), closed, "{to}");
        galley.write("all.yaml", CLOSED);
    }
    galley.write("all.yaml", &CLOSED.replace("[/books, /secret]", "[/admin]"));
    let changed = wait_for(DEADLINE, || (answers(&server) == [false, true, false, false]).then_some(()));
    assert!(changed.is_some(), "{:?}", answers(&server));
}
