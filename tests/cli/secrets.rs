//! Secrets in what `validate` tells of a configuration with errors, and in what `server` and `doctor` tell of settings.

use std::process::Command;

use crate::run;
use crate::support::free_port;
use mixer_base::secrets::is_address;

/// Values that must not be shown begin like this.
const SECRET: &str = "hunter2";

const DOCUMENTS: [&str; 5] = [
    "kind: instance
metadata: {name: unparsed, namespace: istio-system}
spec:
  compiledTemplate: apikey
  params: {api: '\"shop\"', apiKey: hunter2a hunter2b}
",
    "kind: instance
metadata: {name: unknown, namespace: istio-system}
spec:
  compiledTemplate: apikey
  params: {api: '\"shop\"', apiKey: hunter2word}
",
    "kind: handler
metadata: {name: quota, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params: {redisServerUrl: 'redis://hunter2user:hunter2@host:port:port', quotas: [{name: q.instance.istio-system, maxAmount: 1, validDuration: 1s}]}
",
    "kind: handler
metadata: {name: quotas, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params: {redisServerUrl: 'redis://hunter2user:hunter2/x@host:port', quotas: [{name: q.instance.istio-system, maxAmount: 1, validDuration: 1s}]}
",
    "kind: handler
metadata: {name: list, namespace: istio-system}
spec:
  compiledAdapter: listchecker
  params: {providerUrl: 'https://hunter2user:hunter2@[bad'}
",
];

#[test]
fn nothing_that_validate_tells_repeats_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    for document in DOCUMENTS {
        std::fs::write(&path, format!("apiVersion: config.istio.io/v1alpha2\n{document}")).unwrap();
        for format in ["table", "text", "plain", "json", "yaml", "github", "sarif"] {
            let told = run(&["mixer", "validate", "-o", format, &directory.path().display().to_string()]);
            let (out, err) = (&told.out, &told.err);
            assert!(!out.contains(SECRET) && !err.contains(SECRET), "{format}: {document}{out}{err}");
            assert!(format != "table" || out.contains("***"), "{format}: {document}{out}{err}");
            assert!(out.contains("istio-system"), "a problem is told: {format}: {document}{out}{err}");
        }
    }
}

/// Flags of `server` whose values are addresses, by --print-config.
fn addresses() -> Vec<String> {
    let printed = run(&["mixer", "server", "--print-config"]).out;
    let names = printed.lines().filter_map(|line| line.trim_start_matches("# ").split(':').next());
    names.filter(|name| is_address(name)).map(str::to_owned).collect()
}

#[test]
fn no_flag_that_takes_an_address_shows_its_secrets() {
    const ADDRESSES: [&str; 3] = [
        "http://hunter2user:hunter2@127.0.0.1:1/spans?x=hunter2",
        "tcp://hunter2user:hunter2@127.0.0.1:1",
        "hunter2user:hunter2@127.0.0.1:1",
    ];
    let flags = addresses();
    for known in [
        "config-store-url",
        "trace-zipkin-url",
        "trace-jaeger-url",
        "trace-otlp-url",
        "address",
        "ctrlz-address",
    ] {
        assert!(flags.iter().any(|flag| flag == known), "{known}: {flags:?}");
    }
    let ports = [(); 4].map(|()| free_port().to_string());
    let others = ["--port", &ports[0], "--monitoring-port", &ports[1], "--metrics-port", &ports[2]];
    let others = [&others[..], &["--ctrlz-port", &ports[3]]].concat();
    for flag in &flags {
        // Without a scheme the store is a path.
        let is_address = |address: &&&str| flag != "config-store-url" || address.contains("://");
        for address in ADDRESSES.iter().filter(is_address).copied() {
            let name = format!("--{flag}");
            let given = [&[&*name, address], &others[..]].concat();
            for command in [&["server", "--dry-run"][..], &["doctor", "-o", "json"]] {
                let told =
                    Command::new(env!("CARGO_BIN_EXE_mixer")).args(command).args(&given).output().unwrap();
                let told = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                assert!(!told.concat().contains(SECRET), "{command:?} --{flag} {address}: {told:?}");
            }
            let printed = run(&[&["mixer", "server", "--print-config"], &given[..]].concat()).out;
            let line =
                printed.lines().find(|line| line.starts_with(&format!("{flag}: "))).unwrap_or_default();
            assert!(
                line.contains("***@127.0.0.1:1") && line.ends_with("# flag, masked"),
                "{line}: {printed}"
            );
        }
    }
    // What has no secret is printed as it is.
    let printed = run(&["mixer", "server", "--print-config", "--trace-zipkin-url", "http://h:1/a"]).out;
    let line = printed.lines().find(|line| line.starts_with("trace-zipkin-url: ")).unwrap_or_default();
    assert!(line.starts_with("trace-zipkin-url: http://h:1/a ") && line.ends_with("# flag"), "{line}");
}

/// Commands that ask servers, or read configuration, tell what failed without users, passwords and parameters.
#[test]
fn no_command_shows_the_secrets_of_the_addresses_it_is_given() {
    const HTTP: &str = "http://hunter2user:hunter2@127.0.0.1:1/readyz?token=hunter2";
    const API: &str = "https://hunter2user:hunter2@h:9091";
    const BARE: &str = "//hunter2user:hunter2@127.0.0.1:1/x";
    for arguments in [
        &["probe", "--http", HTTP][..],
        &["probe", "--http", HTTP, "-o", "json"],
        &["probe", "--server", API],
        &["check", "--server", API],
        &["check", "--server", "dns:///hunter2user:hunter2@h:1"],
        &["report", "--server", API],
        &["check", "--config", HTTP],
        &["routes", "show", "--server", HTTP],
        &["routes", "show", "--config", HTTP],
        &["snapshot", "dump", "--server", HTTP],
        &["snapshot", "dump", "--server=http://hunter2user:hunter2@127.0.0.1:1"],
        &["validate", HTTP],
        &["validate", BARE],
        &["validate", "--config", "conf", "--server", HTTP],
        &["galley", "status", "--server", HTTP],
        &["galley", "status", "--server", "http://hunter2user:hunter2@127.0.0.1:1"],
        &["test", "--config", HTTP, "nowhere.yaml"],
        &["server", "--dry-run", "--config-store-url", "http://hunter2user:hunter2@h/x"],
        &["server", "--dry-run", "--trace-otlp-url", BARE],
        &["server", "--print-config", "--trace-otlp-url", BARE],
        &["doctor", "--trace-zipkin-url", BARE],
    ] {
        for format in ["text", "json"] {
            let told = Command::new(env!("CARGO_BIN_EXE_mixer"))
                .args(arguments)
                .args(["--error-format", format])
                .output()
                .unwrap();
            let texts = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            let all = texts.concat();
            assert!(!all.contains(SECRET), "{arguments:?}: {all}");
            assert!(!all.is_empty(), "{arguments:?}");
        }
    }
    let told = run(&["mixer", "probe", "--http", HTTP]);
    assert!(told.err.contains("`http://***@127.0.0.1:1/readyz?token=***` is not available"), "{}", told.err);
}
