//! `doctor`: finds what would prevent a server from starting.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::adapter_failures::{Adapter, Mode};
use crate::certificates::Authority;
use crate::support::kube_api::{KubeApi, kubeconfig};
use crate::support::{DEADLINE, Server, free_port, put, run_mixer as mixer, wait_for};

/// Runs `doctor` with these flags of the server: exit status and findings.
fn diagnosed(flags: &[&str]) -> (i32, Vec<Value>) {
    let finished = mixer(&[&["doctor", "-o", "json"], flags].concat());
    let document: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
    let findings = document["findings"].as_array().cloned().unwrap_or_default();
    (finished.status, findings)
}

fn of<'f>(findings: &'f [Value], check: &str) -> Vec<&'f Value> {
    findings.iter().filter(|finding| finding["check"] == check).collect()
}

#[test]
fn a_valid_setup_has_no_failures() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = format!("fs://{}", directory.path().display());
    let log = directory.path().join("mixer.log").display().to_string();
    let ports = [(); 3].map(|()| free_port().to_string());
    let address = format!("127.0.0.1:{}", ports[0]);
    let flags = ["--config-store-url", &config, "--address", &address, "--log-target", &log];
    let flags = [&flags[..], &["--allow-empty-config"]].concat();
    let more = ["--monitoring-port", &ports[1], "--metrics-port", &ports[2], "--ctrlz-port", "0"];
    let (status, findings) = diagnosed(&[&flags[..], &more].concat());
    assert_eq!(status, 0, "{findings:?}");
    assert!(findings.iter().all(|finding| finding["verdict"] != "fail"), "{findings:?}");
    assert_eq!(of(&findings, "api")[0]["detail"], format!("tcp://{address} is free"));
    assert_eq!(of(&findings, "log").len(), 1);
    let configuration = of(&findings, "configuration")[0];
    assert_eq!(configuration["verdict"], "warn", "it is empty: {configuration}");
    assert!(
        configuration["detail"].as_str().unwrap_or_default().contains("allows every call"),
        "{configuration}"
    );
    let names: Vec<_> = std::fs::read_dir(directory.path()).expect("readable").flatten().collect();
    assert!(names.is_empty(), "files left over: {names:?}");

    let plain = mixer(&[&["doctor"], &flags[..], &more].concat());
    assert!(
        plain.stdout.lines().all(|line| {
            line.contains("ok    ") || line.starts_with("warn") || line.trim_start().starts_with("hint: ")
        }),
        "{plain:?}"
    );
    // Its own flags count wherever they are.
    for own in
        [&["-o", "json"][..], &["-ojson"], &["-o=json"], &["--output", "json", "--quiet"], &["--output=json"]]
    {
        let behind = mixer(&[&["doctor"], &flags[..], own, &more].concat());
        let document: Value = serde_json::from_str(&behind.stdout).unwrap_or_default();
        assert_eq!(document["kind"], "Diagnosis", "{own:?}: {behind:?}");
    }
    let quiet = mixer(&[&["doctor"], &flags[..], &more, &["--quiet"]].concat());
    assert_eq!((quiet.status, quiet.stdout.as_str()), (0, ""), "{quiet:?}");
}

#[test]
fn failures_are_named_with_a_hint() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    std::fs::write(
        directory.path().join("bad.yaml"),
        "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: bad, namespace: istio-system}\n\
         spec: {match: nosuch == 1, actions: [{handler: ghost, instances: []}]}\n",
    )
    .expect("it is writable");
    let config = format!("fs://{}", directory.path().display());
    let log = directory.path().join("missing/mixer.log").display().to_string();
    let authority = Authority::new();
    let old = authority.issue_until(&["localhost"], (2020, 1, 2)).put(directory.path(), "old");
    let tls = ["--tls-cert-file", &old.certificate, "--tls-key-file", &old.key];
    let otlp = format!("http://127.0.0.1:{}/v1/traces", free_port());
    let flags = ["--address", &address, "--config-store-url", &config, "--log-target", &log];
    let ports = [(); 2].map(|()| free_port().to_string());
    let more = ["--ctrlz-port", "0", "--monitoring-port", &ports[0], "--metrics-port", &ports[1]];
    let (status, findings) = diagnosed(&[&flags[..], &tls, &more, &["--trace-otlp-url", &otlp]].concat());
    assert_eq!(status, 1, "{findings:?}");
    for (check, verdict, detail, hint) in [
        ("api", "fail", "bind: address already in use", "`ss -ltnp`"),
        ("log", "fail", "/missing` does not exist", "create the directory"),
        ("tls", "fail", "is valid until 2020-01-02T00:00:00.000000Z", "it has expired"),
        ("configuration", "fail", ": 0 rules, 3 errors", "mixer validate fs://"),
        ("configuration", "fail", "/bad.yaml:4: bad.rule.istio-system: ", "mixer validate"),
        ("tracing", "warn", "connection refused", "spans are lost"),
    ] {
        let found = of(&findings, check);
        let fits = |finding: &&Value| {
            finding["verdict"] == verdict
                && finding["detail"].as_str().is_some_and(|text| text.contains(detail))
                && finding["hint"].as_str().is_some_and(|text| text.contains(hint))
        };
        assert!(found.iter().any(fits), "{check}: {found:?}");
    }
    let wrong = mixer(&["doctor", "--prot", "1"]);
    assert_eq!(wrong.status, 2);
    assert!(
        wrong.stderr.contains("unknown flag `--prot`\n  hint: did you mean `--port`?"),
        "{}",
        wrong.stderr
    );
}

/// Where a file is to be, there is a directory.
#[test]
fn what_a_directory_is_in_the_way_of_fails_in_doctor_and_dry_run() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(at("policy")).expect("it is writable");
    let address = format!("unix://{}", at("api.sock"));
    let config = format!("fs://{}", at("policy"));
    let usual = ["--config-store-url", &config, "--allow-empty-config", "--address", &address];
    let path = at("taken");
    std::fs::create_dir(&path).expect("it is writable");
    for (flags, check) in [
        (vec!["--decision-log", &path], "decision log"),
        (vec!["--record-requests", &path], "recording"),
        (vec!["--pid-file", &path], "pid file"),
        (vec!["--liveness-probe-path", &path, "--liveness-probe-interval", "1s"], "liveness probe"),
        (vec!["--readiness-probe-path", &path, "--readiness-probe-interval", "1s"], "readiness probe"),
        (vec!["--log-target", &path], "log"),
    ] {
        let flags = [&usual[..], &flags].concat();
        let (status, findings) = diagnosed(&flags);
        let found = of(&findings, check);
        assert_eq!((status, found.len()), (1, 1), "{check}: {findings:?}");
        let detail = found[0]["detail"].as_str().unwrap_or_default();
        assert!(found[0]["verdict"] == "fail" && detail.contains("directory"), "{check}: {found:?}");
        let tried = mixer(&[&["server", "--dry-run"], &flags[..]].concat());
        assert_eq!(tried.status, 3, "{check}: {tried:?}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("readable").flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// Files of handlers: each as its user could write it, and nothing is left there.
#[test]
fn files_of_handlers_are_examined() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (policy, logs) = (directory.path().join("policy"), directory.path().join("logs"));
    for made in [&policy, &logs] {
        std::fs::create_dir(made).expect("it is writable");
    }
    std::fs::write(logs.join("file"), "").expect("it is writable");
    let mut text = "apiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: line, namespace: istio-system}\n\
                    spec: {compiledTemplate: logentry, params: {severity: '\"info\"', timestamp: request.time}}\n"
        .to_owned();
    let cases = [
        ("good", "FILE", "lines", None),
        ("rotated", "ROTATED_FILE", "new/lines", None),
        ("missing", "FILE", "new/lines", Some("/new` does not exist")),
        ("directory", "FILE", "", Some("is a directory")),
        ("in-the-way", "ROTATED_FILE", "file/lines", Some("/file` is no directory")),
        ("readonly", "ROTATED_FILE", "/proc/lines", Some("cannot be created in `/proc`")),
    ];
    for (name, stream, path, _) in cases {
        let path = logs.join(path).display().to_string();
        text += &format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
             spec: {{compiledAdapter: stdio, params: {{logStream: {stream}, outputPath: '{path}'}}}}\n---\n\
             apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
             spec: {{actions: [{{handler: {name}, instances: [line]}}]}}\n"
        );
    }
    std::fs::write(policy.join("lines.yaml"), text).expect("it is writable");
    let (_, findings) = diagnosed(&["--config-store-url", &format!("fs://{}", policy.display())]);
    let found = of(&findings, "handler");
    assert_eq!(found.len(), cases.len(), "{found:?}");
    for (name, _, _, why) in cases {
        let of_this = |finding: &&&Value| {
            finding["detail"].as_str().is_some_and(|text| text.starts_with(&format!("{name}.istio-system ")))
        };
        let finding = found.iter().find(of_this).unwrap_or_else(|| panic!("{name}: {found:?}"));
        let detail = finding["detail"].as_str().unwrap_or_default();
        match why {
            None => assert_eq!(finding["verdict"], "ok", "{finding}"),
            Some(why) => {
                assert_eq!(finding["verdict"], "fail", "{finding}");
                assert!(detail.contains(why), "{finding}");
                assert!(finding["hint"].as_str().is_some_and(|hint| hint.contains("are lost")), "{finding}");
            }
        }
    }
    // The rehearsal of a start agrees.
    let tried = mixer(&["server", "--dry-run", "--config-store-url", &format!("fs://{}", policy.display())]);
    assert_eq!(tried.status, 3, "{tried:?}");
    assert!(tried.stdout.contains("4 errors"), "{}", tried.stdout);
    let left: Vec<_> = std::fs::read_dir(&logs).expect("readable").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A configuration of which nothing can serve is not one without rules.
#[test]
fn of_a_configuration_whose_only_handler_cannot_be_built_no_one_says_that_it_is_empty() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: lines, namespace: istio-system}\n\
                spec: {compiledAdapter: stdio, params: {logStream: FILE, outputPath: /proc/lines}}\n---\n\
                apiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: line, namespace: istio-system}\n\
                spec: {compiledTemplate: logentry, params: {severity: '\"info\"', timestamp: request.time}}\n---\n\
                apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: log, namespace: istio-system}\n\
                spec: {actions: [{handler: lines, instances: [line]}]}\n";
    std::fs::write(directory.path().join("lines.yaml"), text).expect("it is writable");
    let store = format!("fs://{}", directory.path().display());
    let why = "no rule and no handler serves, because of errors: every call is allowed until they are mended";
    let tried = mixer(&["server", "--dry-run", "--config-store-url", &store]);
    assert_eq!(tried.status, 3, "{tried:?}");
    assert!(tried.stdout.contains(why) && !tried.stdout.contains("has no rule"), "{}", tried.stdout);
    let server = Server::on(directory.path()).native().start();
    server.wait_for_log(why);
    assert!(!server.log().contains("has no rule and no handler"), "{}", server.log());
    let (status, findings) = diagnosed(&["--config-store-url", &store]);
    assert_eq!(status, 1, "{findings:?}");
    assert!(
        !findings.iter().any(|finding| finding.to_string().contains("allows every call")),
        "{findings:?}"
    );
}

/// What is valid and probably a mistake: an attribute that no expression can name.
#[test]
fn pitfalls_of_the_configuration_are_counted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let manifest = "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {name: m, namespace: istio-system}\n\
                    spec: {attributes: {source.package: {valueType: STRING}}}\n";
    std::fs::write(directory.path().join("words.yaml"), manifest).expect("it is writable");
    let config = format!("fs://{}", directory.path().display());
    let (_, findings) = diagnosed(&["--config-store-url", &config]);
    let found = of(&findings, "configuration")[0];
    assert_eq!(found["verdict"], "warn", "{found}");
    assert!(found["detail"].as_str().is_some_and(|text| text.contains(" 0 errors, 1 warning")), "{found}");
}

/// What a start would find in `--config-cache`, and what it would serve.
#[test]
fn the_configuration_cache_is_examined() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (root, cache) = (directory.path().join("conf"), directory.path().join("cache"));
    std::fs::create_dir(&root).expect("it is writable");
    let rule = |condition: &str| {
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: mark, namespace: istio-system}}\n\
             spec: {{match: '{condition}', requestHeaderOperations: [{{name: x-mark, values: ['\"yes\"']}}]}}\n"
        );
        put(&root.join("rule.yaml"), &text);
    };
    rule("true");
    let (store, place) = (format!("fs://{}", root.display()), cache.display().to_string());
    let address = format!("127.0.0.1:{}", free_port());
    let ports = [(); 2].map(|()| free_port().to_string());
    let flags = ["--address", &address, "--monitoring-port", &ports[0], "--metrics-port", &ports[1]];
    let flags = [&flags[..], &["--ctrlz-port", "0", "--config-store-url", &store]].concat();
    let with_cache = [&flags[..], &["--config-cache", &place]].concat();
    let cached = |flags: &[&str]| {
        let (status, findings) = diagnosed(flags);
        let found = of(&findings, "config cache").into_iter().chain(of(&findings, "configuration"));
        let shown = |f: &Value| {
            format!("{}: {}", f["verdict"].as_str().unwrap_or(""), f["detail"].as_str().unwrap_or(""))
        };
        (status, found.map(shown).collect::<Vec<_>>())
    };
    assert_eq!(cached(&flags).1.len(), 1, "no cache is configured");
    let (status, absent) = cached(&with_cache);
    assert!(
        status == 0
            && absent[0].ends_with(" does not exist yet; the server writes it when a configuration serves"),
        "{absent:?}"
    );
    assert!(!cache.exists(), "nothing is created");

    let mut server = Server::on(&root).native().with(&["--config-cache", &place]).start();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let file = cache.join("last-good.cache");
    let (status, valid) = cached(&with_cache);
    let detail = format!("ok: `{}` has 1 resource, format version 2, written ", file.display());
    assert!(status == 0 && valid[0].starts_with(&detail), "{valid:?}");
    assert!(valid[0].contains(" ago); ") || valid[0].contains("(just now); "), "{valid:?}");
    // What the store has no longer serves without the cache.
    rule("nosuch == 1");
    let (status, alone) = cached(&flags);
    assert!(status == 1 && alone[0].contains("; no configuration is served: "), "{alone:?}");
    let (status, kept) = cached(&with_cache);
    assert!(
        status == 1
            && kept[1].starts_with("fail: ")
            && kept[1].ends_with("; 1 resource would serve in the version of the cache"),
        "{kept:?}"
    );
    // The dry run agrees.
    let rehearsed = mixer(&[&["server", "--dry-run", "--log-target", "stderr"], &with_cache[..]].concat());
    assert_eq!(rehearsed.status, 3, "{rehearsed:?}");
    let shown = "1 resource in the version of --config-cache: ready, degraded\n";
    assert!(rehearsed.stdout.contains(shown), "{rehearsed:?}");
    let degraded = "  degraded       configuration: its new version has an error: ";
    assert!(rehearsed.stdout.contains(degraded), "{rehearsed:?}");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(&file, 0o644);
    let (_, open) = cached(&with_cache);
    assert!(
        open[0].starts_with("warn: ") && open[0].ends_with("others than its owner may read it (mode 0644)"),
        "{open:?}"
    );
    mode(&file, 0o666);
    let (status, forged) = cached(&with_cache);
    assert!(
        status == 1 && forged[0].ends_with(" is ignored: others than its owner may write it"),
        "{forged:?}"
    );
    mode(&file, 0o600);
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, text.replacen("cache 2\n", "cache 9\n", 1)).expect("it is writable");
    let (status, newer) = cached(&with_cache);
    assert!(status == 1 && newer[0].contains(" is ignored: it has version 9 of the format"), "{newer:?}");
    std::fs::write(&file, &text[..text.len() / 2]).expect("it is writable");
    let (_, damaged) = cached(&with_cache);
    assert!(damaged[0].contains(" is ignored: it is damaged: its checksum does not match"), "{damaged:?}");
}

/// Its cache is its own, whoever examines it. Only root can have a server of another user.
#[test]
fn beside_a_server_of_another_user_its_cache_is_examined_as_its_own() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    const USER: u32 = 65_533;
    let directory = tempfile::tempdir().expect("a temporary directory");
    if directory.path().metadata().expect("readable").uid() != 0 {
        return;
    }
    let (root, cache) = (directory.path().join("conf"), directory.path().join("cache"));
    for (path, mode) in [(directory.path(), 0o755), (&*root, 0o755), (&*cache, 0o700)] {
        std::fs::create_dir_all(path).expect("it is writable");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    put(&root.join("deny.yaml"), &handler("closed", "denier", "checknothing", "", ""));
    chown(&cache, Some(USER), None).expect("root gives it away");
    let place = cache.display().to_string();
    let user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
    let server = Server::on(&root).native().with(&["--config-cache", &place]);
    let server = server.through(Path::new("setpriv"), &user).start();
    let written = || cache.join("last-good.cache").exists().then_some(());
    assert!(wait_for(DEADLINE, written).is_some(), "{}", server.log());
    let config = format!("fs://{}", root.display());
    let ports = [server.ports.monitoring, server.ports.metrics, server.ports.ctrlz];
    let ports = ports.map(|port| port.to_string());
    let address = server.address();
    let flags = ["--address", &address, "--config-store-url", &config, "--config-cache", &place];
    let more = ["--monitoring-port", &ports[0], "--metrics-port", &ports[1], "--ctrlz-port", &ports[2]];
    let (status, findings) = diagnosed(&[&flags[..], &more].concat());
    assert_eq!(status, 0, "{findings:?}");
    let found = of(&findings, "config cache")[0];
    assert_eq!(found["verdict"], "ok", "{found}");
    assert!(
        found["detail"].as_str().is_some_and(|text| text.contains(" resources, format version ")),
        "{found}"
    );
    let user = of(&findings, "user")[0].to_string();
    assert!(user.contains("user id 65533") && user.contains("sudo -u '#65533'"), "{user}");
    // As an earlier start as root left it: root may read it, and the server may not.
    let file = cache.join("last-good.cache");
    for path in [&cache, &file] {
        chown(path, Some(0), None).expect("root takes it");
    }
    let (_, findings) = diagnosed(&[&flags[..], &more].concat());
    let found = of(&findings, "config cache")[0];
    let detail = found["detail"].as_str().unwrap_or_default();
    assert_eq!(found["verdict"], "warn", "{found}");
    assert!(detail.ends_with(&format!("is ignored: the user {USER} may not enter `{place}`")), "{found}");
    for path in [&cache, &file] {
        chown(path, Some(USER), None).expect("root gives it away");
    }
    // Without the server nobody knows whose it is: that it is ignored is not said without who ignores it.
    drop(server);
    let (_, findings) = diagnosed(&[&flags[..], &more].concat());
    let found = of(&findings, "config cache")[0].to_string();
    assert!(found.contains("belongs to another user") && found.contains("run this as the user"), "{found}");
}

/// A server is found at the address of its monitoring port.
#[test]
fn a_server_with_an_address_of_monitoring_is_found() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    put(&directory.path().join("deny.yaml"), &handler("closed", "denier", "checknothing", "", ""));
    let monitoring = format!("127.0.0.1:{}", free_port());
    let server = Server::on(directory.path()).native().with(&["--monitoring-address", &monitoring]).spawn();
    let server = server.expect("it starts");
    server.wait_for_log("Starting gRPC server on");
    let config = format!("fs://{}", directory.path().display());
    let ports = [server.ports.metrics, server.ports.ctrlz].map(|port| port.to_string());
    let address = server.address();
    let flags = ["--address", &address, "--config-store-url", &config, "--metrics-port", &ports[0]];
    let more = ["--ctrlz-port", &ports[1], "--monitoring-address", &monitoring];
    let (status, findings) = diagnosed(&[&flags[..], &more].concat());
    assert_eq!(status, 0, "{findings:?}");
    for check in ["api", "monitoring", "ControlZ"] {
        let detail = of(&findings, check)[0]["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(" is in use by the running server"), "{check}: {detail}");
    }
    assert_eq!(of(&findings, "running handler").len(), 1, "{findings:?}");
    // Another mixer on the default port of this one is another process.
    let (_, findings) = diagnosed(&[&flags[..], &["--ctrlz-port", "0", "--monitoring-port", "0"]].concat());
    let detail = of(&findings, "api")[0]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("address already in use"), "{detail}");
}

/// ControlZ is not there without the token that its file should have.
#[test]
fn a_token_file_without_a_token_fails() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = format!("fs://{}", directory.path().display());
    let empty = directory.path().join("token");
    put(&empty, "\n");
    let ports = [(); 4].map(|()| free_port().to_string());
    let address = format!("tcp://127.0.0.1:{}", ports[0]);
    let flags = ["--config-store-url", &config, "--allow-empty-config", "--address", &address];
    let more = ["--monitoring-port", &ports[1], "--metrics-port", &ports[2], "--ctrlz-port", &ports[3]];
    let flags = [&flags[..], &more].concat();
    for (file, why) in
        [("/nowhere/token", "no such file or directory"), (&*empty.display().to_string(), "is empty")]
    {
        let with_token = [&flags[..], &["--ctrlz-token-file", file]].concat();
        let (status, findings) = diagnosed(&with_token);
        let failed: Vec<_> =
            of(&findings, "ControlZ").into_iter().filter(|finding| finding["verdict"] == "fail").collect();
        let detail = failed.first().and_then(|finding| finding["detail"].as_str()).unwrap_or_default();
        assert!(status == 1 && detail.contains(file) && detail.contains(why), "{findings:?}");
        let rehearsed = mixer(&[&["server", "--dry-run"], &with_token[..]].concat());
        assert_eq!(rehearsed.status, 3, "{rehearsed:?}");
        let line = rehearsed.stdout.lines().find(|line| line.contains("ControlZ")).unwrap_or_default();
        assert!(line.contains(" off: ") && line.contains(why), "{rehearsed:?}");
    }
}

#[test]
fn ports_of_a_running_server_are_no_failure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::on(directory.path()).start();
    let config = format!("fs://{}", directory.path().display());
    let ports =
        [server.ports.monitoring, server.ports.metrics, server.ports.ctrlz].map(|port| port.to_string());
    let (status, findings) = diagnosed(&[
        "--address",
        &server.address(),
        "--allow-empty-config",
        "--config-store-url",
        &config,
        "--monitoring-port",
        &ports[0],
        "--metrics-port",
        &ports[1],
        "--ctrlz-port",
        &ports[2],
    ]);
    assert_eq!(status, 0, "{findings:?}");
    for check in ["api", "monitoring", "ControlZ"] {
        let detail = of(&findings, check)[0]["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(" is in use by the running server"), "{check}: {detail}");
    }
    // What it serves goes on.
    let broken = "kind: rule\nmetadata: {name: bad, namespace: istio-system}\nspec: {match: nosuch == 1, actions: [{handler: ghost, instances: []}]}\n";
    put(&directory.path().join("bad.yaml"), broken);
    let flags =
        ["--address", &server.address(), "--config-store-url", &config, "--monitoring-port", &ports[0]];
    let (_, findings) =
        diagnosed(&[&flags[..], &["--metrics-port", &ports[1], "--ctrlz-port", &ports[2]]].concat());
    let detail = of(&findings, "configuration")[0]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("; a start would serve nothing: ") && !detail.contains("is served"), "{detail}");
}

/// Of flags that nobody has started the server with.
#[test]
fn what_a_running_server_has_otherwise_is_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    put(&directory.path().join("deny.yaml"), &handler("closed", "denier", "checknothing", "", ""));
    let server = Server::on(directory.path()).native().start();
    let other = tempfile::tempdir().expect("a temporary directory");
    put(&other.path().join("deny.yaml"), &handler("closed", "denier", "checknothing", "", ""));
    let ports = [server.ports.monitoring, server.ports.metrics].map(|port| port.to_string());
    let free = [(); 3].map(|()| free_port());
    let [http, limits] = [free[0], free[1]].map(|port| format!("127.0.0.1:{port}"));
    let controlz = free[2].to_string();
    let (config, address) = (format!("fs://{}", other.path().display()), server.address());
    let flags = ["--address", &address, "--config-store-url", &config, "--monitoring-port", &ports[0]];
    let more = ["--metrics-port", &ports[1], "--ctrlz-port", &controlz, "--envoy-http-address", &http];
    let (status, findings) =
        diagnosed(&[&flags[..], &more, &["--envoy-ratelimit-http-address", &limits]].concat());
    assert_eq!(status, 0, "{findings:?}");
    for check in ["ControlZ", "envoy http", "envoy rate limits"] {
        let finding = of(&findings, check)[0];
        let detail = finding["detail"].as_str().unwrap_or_default();
        let is_told = detail.ends_with(" is free: the running server does not listen there");
        assert!(finding["verdict"] == "warn" && is_told, "{check}: {finding}");
    }
    // No handler of it has metrics.
    assert_eq!(of(&findings, "metrics")[0]["verdict"], "ok", "{findings:?}");
    let own = directory.path().display().to_string();
    let stores = of(&findings, "running server").into_iter().filter(|finding| {
        finding["detail"].as_str().is_some_and(|text| text.contains(&own) && text.contains(&config))
    });
    assert_eq!(stores.count(), 1, "{findings:?}");
}

/// A token that the server does not take: what it would say is not passed over in silence.
#[test]
fn a_token_of_controlz_that_is_refused_is_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().join("conf");
    std::fs::create_dir(&root).expect("it is writable");
    put(&root.join("deny.yaml"), &handler("closed", "denier", "checknothing", "", ""));
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        put(&path, text);
        path.display().to_string()
    };
    let (right, wrong) = (file("token", "open-sesame\n"), file("wrong", "sesame-shut\n"));
    let flag = format!("--ctrlz-token-file={right}");
    let server = Server::on(&root).native().with(&[&flag]).start();
    let store = format!("fs://{}", root.display());
    let ports =
        [server.ports.monitoring, server.ports.metrics, server.ports.ctrlz].map(|port| port.to_string());
    let address = server.address();
    let flags = [
        "--address",
        &address,
        "--config-store-url",
        &store,
        "--monitoring-port",
        &ports[0],
        "--metrics-port",
        &ports[1],
        "--ctrlz-port",
        &ports[2],
    ];
    for (token, told) in [
        (Some(&*right), None),
        (None, Some("the running server asks for a token")),
        (Some(&*wrong), Some("the running server refuses the token in `")),
        (
            Some("/nowhere/token"),
            Some("the token in `/nowhere/token` cannot be read: no such file or directory"),
        ),
    ] {
        let token: Vec<&str> = token.into_iter().flat_map(|file| ["--ctrlz-token-file", file]).collect();
        let (_, findings) = diagnosed(&[&flags[..], &token].concat());
        let warned: Vec<_> =
            of(&findings, "ControlZ").into_iter().filter(|f| f["verdict"] == "warn").collect();
        assert_eq!(warned.len(), usize::from(told.is_some()), "{findings:?}");
        assert_eq!(of(&findings, "running handler").len(), usize::from(told.is_none()), "{findings:?}");
        if let (Some(told), Some(warned)) = (told, warned.first()) {
            assert!(warned["detail"].as_str().is_some_and(|detail| detail.contains(told)), "{warned}");
            let hint = warned["hint"].as_str().unwrap_or_default();
            assert!(hint.contains("--ctrlz-token-file FILE") && hint.contains("handlers"), "{warned}");
            assert!(!warned.to_string().contains("sesame"), "{warned}");
        }
    }
}

/// `validate --live` compares a configuration with that of a running server.
#[test]
fn a_configuration_is_compared_with_a_running_server() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    let rule = |user: &str| {
        format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {{name: m, namespace: istio-system}}\n\
             spec: {{attributes: {{source.user: {{valueType: STRING}}}}}}\n---\n\
             apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: mark, namespace: istio-system}}\n\
             spec: {{match: source.user == \"{user}\", requestHeaderOperations: [{{name: x-mark, values: ['\"yes\"']}}]}}\n"
        )
    };
    for (path, user) in [(&old, "ann"), (&new, "bob")] {
        std::fs::create_dir(path).expect("it is writable");
        std::fs::write(path.join("all.yaml"), rule(user)).expect("it is writable");
    }
    let server = Server::on(&old).start();
    let live = format!("127.0.0.1:{}", server.ports.ctrlz);
    let [old, new] = [&old, &new].map(|path| path.display().to_string());
    let same = mixer(&["validate", &old, "--live", &live]);
    assert_eq!((same.status, same.stdout.as_str()), (0, ""), "{same:?}");
    assert!(same.stderr.contains("has the same configuration"), "{same:?}");
    let changed = mixer(&["validate", &new, "--live", &live]);
    assert_eq!(changed.status, 0, "{changed:?}");
    for line in
        ["rules mark.rule.istio-system", "-match: source.user == \"ann\"", "+match: source.user == \"bob\""]
    {
        assert!(changed.stdout.contains(line), "{line}: {changed:?}");
    }
    // A difference is what is asked for, unless there is to be none.
    for (directory, status) in [(&old, 0), (&new, 1)] {
        let strict = mixer(&["validate", directory, "--live", &live, "--strict", "--quiet"]);
        assert_eq!((strict.status, strict.stdout.as_str()), (status, ""), "{strict:?}");
    }
    assert_eq!(mixer(&["validate", &new, "--live", "127.0.0.1:1"]).status, 4);
    assert_eq!(mixer(&["validate", &new, "--live", &live, "-o", "json"]).status, 2);
}

/// Settings, mappings and limits for Envoy decide as rules do, and are compared as they are.
#[test]
fn resources_for_envoy_are_compared_with_those_of_a_running_server() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let texts = [
        ("bridge", "mode: shadow", "mode: enforce"),
        ("mapping", "default: closed", "default: open"),
        ("limits", "requests_per_unit: 3", "requests_per_unit: 300"),
    ];
    let text = |name: &str, line: &str| match name {
        "bridge" => format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\n\
             spec: {{check: {{{line}}}}}\n"
        ),
        "mapping" => format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {{name: m, namespace: istio-system}}\n\
             spec: {{attributes: {{request.door: {{valueType: STRING}}}}}}\n---\n\
             apiVersion: config.istio.io/v1alpha2\nkind: attributemapping\nmetadata: {{name: door, namespace: istio-system}}\n\
             spec: {{mappings: [{{attribute: request.door, from: {{requestHeader: x-door}}, {line}}}]}}\n"
        ),
        _ => format!("domain: shop\ndescriptors:\n- key: user\n  rate_limit: {{unit: hour, {line}}}\n"),
    };
    let put_all = |path: &Path, changed: Option<&str>| {
        std::fs::create_dir(path).expect("it is writable");
        for (name, old, new) in texts {
            let line = if changed == Some(name) { new } else { old };
            std::fs::write(path.join(format!("{name}.yaml")), text(name, line)).expect("it is writable");
        }
    };
    let served = directory.path().join("served");
    put_all(&served, None);
    let server = Server::on(&served).native().start();
    let live = format!("127.0.0.1:{}", server.ports.ctrlz);
    let same = mixer(&["validate", &served.display().to_string(), "--live", &live]);
    assert!(same.stderr.contains("has the same configuration"), "{same:?}");
    for (name, old, new) in texts {
        let path = directory.path().join(name);
        put_all(&path, Some(name));
        let changed = mixer(&["validate", &path.display().to_string(), "--live", &live]);
        let line = |text: &str| text.rsplit(' ').next().map(str::to_owned).unwrap_or_default();
        assert!(changed.stdout.starts_with("resources "), "{changed:?}");
        assert!(changed.stdout.contains(&line(old)) && changed.stdout.contains(&line(new)), "{changed:?}");
    }
    let dump = mixer(&["snapshot", "dump", "--server", &live, "-o", "json"]);
    let dump: Value = serde_json::from_str(&dump.stdout).unwrap_or_else(|e| panic!("{e}: {dump:?}"));
    let resources = dump["resources"].as_array().cloned().unwrap_or_default();
    assert_eq!(resources.len(), 3, "{resources:?}");
    let bridge = resources.iter().find(|resource| resource["name"] == "default.envoybridge.istio-system");
    assert_eq!(bridge.map(|bridge| &bridge["document"]["spec"]["check"]["mode"]), Some(&"shadow".into()));
}

/// What the server refuses, in its words.
#[test]
fn settings_that_the_server_refuses_fail() {
    for (flag, text) in [
        ("--shutdown-timeout=-1s", "shutdown timeout must be >= 0s, got -1s"),
        ("--decision-log-sampling=2", "share of decisions to log must be from 0 to 1, got 2"),
        ("--trace-sampling-rate=7", "trace sampling rate must be from 0 to 1, got 7"),
        ("--liveness-probe-path=/nowhere/live", "the liveness probe file `/nowhere/live` is never written"),
        ("--config-store-url=ftp:///tmp/conf", "unknown config URL `ftp:///tmp/conf`"),
        (
            "--max-requests-per-second=5",
            "--max-requests-per-second has no effect: it needs --load-shedding-mode",
        ),
        ("--decision-log-select=denied", "--decision-log-select has no effect: it needs --decision-log;"),
    ] {
        let finished = mixer(&["doctor", flag]);
        let told = finished.stdout.lines().any(|line| line.starts_with("fail") && line.contains(text));
        assert!(finished.status == 1 && told, "{flag}: {}", finished.stdout);
    }
    for flag in ["--envoy-http-address", "--envoy-ratelimit-http-address"] {
        let flags = ["--envoy-bridge=false", flag, "127.0.0.1:1"];
        let text = format!("{flag} has no effect: it needs --envoy-bridge=true; add that, or omit {flag}");
        let diagnosed = mixer(&[&["doctor"], &flags[..]].concat());
        assert!(diagnosed.status == 1 && diagnosed.stdout.contains(&text), "{diagnosed:?}");
        let started = mixer(&[&["server"], &flags[..]].concat());
        assert!(started.status == 3 && started.stderr.contains(&text), "{started:?}");
    }
    let masked = mixer(&["doctor", "--decision-log=/tmp/decisions", "--decision-mask=request.haders[x]"]);
    let text =
        "the attribute `request.haders` of --decision-mask is not declared; did you mean `request.headers`?";
    assert!(masked.stdout.contains(text), "{}", masked.stdout);
}

/// Rules that were meant for every call apply to none if the default namespace is misspelt.
#[test]
fn a_default_namespace_without_resources_is_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let deny = "kind: handler\nmetadata: {name: turn-away, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\n\
                kind: instance\nmetadata: {name: any, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n---\n\
                kind: rule\nmetadata: {name: closed, namespace: istio-system}\n\
                spec: {actions: [{handler: turn-away, instances: [any]}]}\n";
    put(&directory.path().join("deny.yaml"), deny);
    let namespace = ["--config-default-namespace", "istio-sytem"];
    let told =
        "nothing is in the default namespace `istio-sytem`: no rule applies to the calls of every namespace";
    let server = Server::on(directory.path()).native().with(&namespace).spawn().expect("it starts");
    server.wait_for_log(told);
    server.wait_for_log("no configuration is served: nothing is in the default namespace");
    let place = directory.path().display().to_string();
    let validated = mixer(&[&["validate", "-o", "json", &place], &namespace[..]].concat());
    assert!(validated.status == 1 && validated.stdout.contains(told), "{validated:?}");
    assert!(validated.stdout.contains("did you mean `istio-system`?"), "{validated:?}");
    let store = format!("fs://{place}");
    let (_, findings) = diagnosed(&[&["--config-store-url", &store][..], &namespace[..]].concat());
    let configuration = of(&findings, "configuration")[0];
    assert_eq!(configuration["verdict"], "fail", "{configuration}");
    let command = format!("`mixer validate {store} --default-namespace istio-sytem` lists them");
    assert!(configuration["hint"].as_str().is_some_and(|hint| hint.contains(&command)), "{configuration}");
    let right = mixer(&["validate", &place]);
    assert!(!right.stdout.contains("namespace"), "{right:?}");
}

/// A handler, its instance and its rule.
fn handler(name: &str, adapter: &str, template: &str, params: &str, instance: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: {adapter}, params: {{{params}}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: of-{name}, namespace: istio-system}}\n\
         spec: {{compiledTemplate: {template}, params: {{{instance}}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: {name}, instances: [of-{name}]}}]}}\n"
    )
}

/// Diagnoses these handlers; prometheus listens at the port. Each row is a handler, its verdict, and a part of what is said about it.
fn assert_probed(text: &str, metrics_port: u16, expected: &[(&str, &str, &str)]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    put(&directory.path().join("config.yaml"), text);
    let store = format!("fs://{}", directory.path().display());
    let ports = [free_port(), free_port(), metrics_port].map(|port| port.to_string());
    let address = format!("127.0.0.1:{}", ports[0]);
    let flags = ["--address", &address, "--monitoring-port", &ports[1], "--metrics-port", &ports[2]];
    let flags = [&flags[..], &["--ctrlz-port", "0", "--config-store-url", &store]].concat();
    let (status, findings) = diagnosed(&flags);
    let has_failure = expected.iter().any(|(_, verdict, _)| *verdict == "fail");
    assert_eq!(status, i32::from(has_failure), "{findings:?}");
    let found = of(&findings, "handler");
    for (name, verdict, text) in expected {
        let start = format!("{name}.istio-system ");
        let of_handler = |finding: &&&Value| finding["detail"].as_str().unwrap_or("").starts_with(&start);
        let one = found.iter().find(of_handler);
        let one = one.unwrap_or_else(|| panic!("nothing about {name}: {findings:?}"));
        let detail = one["detail"].as_str().unwrap_or("");
        assert_eq!(one["verdict"], *verdict, "{name}: {detail}");
        assert!(detail.contains(text), "{name}: {detail}");
    }
    assert_eq!(found.len(), expected.len(), "a handler without a backend is not probed: {found:?}");
}

/// Backends of handlers: reached, or not, before a server starts.
#[test]
fn backends_of_handlers_are_probed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let redis = crate::adapter_examples::redis(port);
    let list = directory.path().join("list");
    put(&list, "a\n");
    let quota = |name: &str, url: &str| {
        let params = format!(
            "redisServerUrl: '{url}', quotas: [{{name: of-{name}.instance.istio-system, maxAmount: 1, validDuration: 1s}}]"
        );
        handler(name, "redisquota", "quota", &params, "dimensions: {}")
    };
    let lists = |name: &str, path: &Path| {
        let params = format!("providerFile: '{}', entryType: STRINGS", path.display());
        handler(name, "listchecker", "listentry", &params, "value: '\"a\"'")
    };
    let spans = |name: &str, url: &str| {
        let instance = "traceId: '\"1\"', spanId: '\"1\"'";
        handler(name, "zipkin", "tracespan", &format!("url: '{url}', sampleProbability: 1"), instance)
    };
    let nowhere = format!("127.0.0.1:{}", free_port());
    let text = quota("near", &format!("127.0.0.1:{port}"))
        + &quota("far", &nowhere)
        + &lists("listed", &list)
        + &lists("unlisted", &directory.path().join("none"))
        + &spans("traced", &format!("http://127.0.0.1:{port}/"))
        + &spans("untraced", &format!("http://{nowhere}/"))
        + &handler(
            "opened",
            "statsd",
            "metric",
            "metrics: {of-opened.instance.istio-system: {type: COUNTER}}",
            "value: '1'",
        )
        + &handler("free", "denier", "checknothing", "", "");
    assert_probed(
        &text,
        free_port(),
        &[
            ("near", "ok", "(redisquota): server: 127.0.0.1:"),
            ("far", "fail", "Redis does not answer: 127.0.0.1:"),
            ("listed", "ok", "(listchecker): entries: 1"),
            ("unlisted", "fail", "No such file"),
            ("traced", "ok", "can be reached"),
            ("untraced", "warn", "connection refused"),
            ("opened", "ok", "(statsd): localhost:8125 (datagrams) can be reached"),
        ],
    );
    drop(redis);
}

/// A policy with a data file; a cluster; roles in a directory; an adapter out of process; metrics at a port.
fn asked(data: &Path, kubeconfig: &Path, roles: &str, adapter: u16) -> String {
    let policy = format!(
        "policy: [\"package gate\\ndefault allow := false\\nallow if input.subject.user in data.admins\"], \
         checkMethod: data.gate.allow, failClose: true, dataFiles: ['{}']",
        data.display()
    );
    let who = "subject: {user: '\"ann\"'}, action: {namespace: '\"a\"', service: '\"b\"', method: '\"GET\"', path: '\"/\"'}";
    let metrics = "metrics: [{instanceName: of-metrics.instance.istio-system, kind: COUNTER}]";
    let cluster = format!("kubeconfigPath: '{}', remoteClusters: false", kubeconfig.display());
    crate::adapter_failures::common(false)
        + &crate::adapter_failures::handler("process", &format!("address: \"127.0.0.1:{adapter}\""), "")
        + &handler("policy", "opa", "authorization", &policy, who)
        + &handler("roles", "rbac", "authorization", &format!("configStoreUrl: '{roles}'"), who)
        + &handler("cluster", "kubernetesenv", "kubernetes", &cluster, "source_uid: '\"web-1.shop\"'")
        + &handler("metrics", "prometheus", "metric", metrics, "value: '1'")
}

/// What handlers that are built for it find: policies with their files, an API server, directories, adapters out of process, ports.
#[test]
fn handlers_that_ask_their_backends_tell_what_they_found() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let api = KubeApi::start();
    put(&path("cluster"), &api.kubeconfig());
    put(&path("nobody"), &kubeconfig(&format!("http://127.0.0.1:{}", free_port()), "token: t"));
    put(&path("admins.json"), "{\"admins\": [\"ann\"]}");
    std::fs::create_dir(path("roles")).expect("it is writable");
    let role = "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\nmetadata: {name: r, namespace: a}\n\
                spec: {rules: [{services: ['*'], methods: [GET]}]}\n";
    put(&path("roles/role.yaml"), role);
    let adapter = Adapter::listening(Mode::Well);
    let roles = |name: &str| format!("fs://{}", path(name).display());
    let near = asked(&path("admins.json"), &path("cluster"), &roles("roles"), adapter.port);
    assert_probed(
        &near,
        free_port(),
        &[
            ("process.handler", "ok", "can be reached"),
            ("policy", "ok", "(opa)"),
            ("roles", "ok", "(rbac)"),
            ("cluster", "ok", "(kubernetesenv): cluster: 127.0.0.1:"),
            ("metrics", "ok", "(prometheus)"),
        ],
    );
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let far = asked(&path("none.json"), &path("nobody"), &roles("none"), free_port());
    assert_probed(
        &far,
        port,
        &[
            ("process.handler", "fail", "onnection refused"),
            ("policy", "fail", "No such file"),
            ("roles", "fail", "no such file"),
            ("cluster", "fail", "onnection refused"),
            ("metrics", "warn", "ddress already in use"),
        ],
    );
}
