//! Settings: errors with their position, reloads, and `server --dry-run`.

use crate::signals::{access_log, configuration, on};
use crate::support::{DEADLINE, free_port, programs, run, run_mixer as mixer};

#[test]
fn invalid_settings_are_reported_with_position_and_hint() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let error_of = |name: &str, content: &str, environment: &[(&str, &str)], more: &[&str]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("it is writable");
        let path = path.display().to_string();
        let arguments = [&["server", "--config-file", &path][..], more].concat();
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let environment: Vec<_> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let program = programs().path("mixer");
        let finished = run(&program, &arguments, &environment, None, None, DEADLINE);
        let finished = finished.expect("it ends");
        assert_eq!(finished.stdout.lines().filter(|l| l.contains("Starting gRPC")).count(), 0);
        finished.stderr.replace(&path, name)
    };
    for (name, content, environment, more, expected) in [
        (
            "a.yaml",
            "# settings\nlog-as-json: true\nport: abc\n",
            &[][..],
            &[][..],
            "error: invalid value `abc` for `--port` in `a.yaml`, line 3\n  cause: expected a port from 0 to 65535\n",
        ),
        (
            "b.toml",
            "log-as-json = true\nport = \n",
            &[],
            &[],
            "error: cannot read the settings in `b.toml`\n  cause: line 2: ",
        ),
        (
            "c.yaml",
            "log-as-json: true\nprt: 1\n",
            &[],
            &[],
            "  cause: line 2: unknown setting `prt`\n  hint: did you mean `port`?\n",
        ),
        ("d.yaml", "port: [1\n", &[], &[], "at line 2 column 1"),
        (
            "e.yaml",
            "{}\n",
            &[("MIXER_PORT", "many")],
            &[],
            "error: invalid value `many` for `--port` in the environment variable MIXER_PORT\n",
        ),
        ("f.yaml", "port: abc\n", &[], &["-p", "x"], "error: invalid value `x` for `--port`\n"),
        (
            "g.yaml",
            "address: localhost\n",
            &[],
            &["--log-target=stderr"],
            "missing port in address\n  hint: use host:port, for example 127.0.0.1:9091\n",
        ),
        (
            "h.yaml",
            "log-output-level: loud\n",
            &[],
            &[],
            "  cause: invalid output level 'loud'\n  hint: levels are none, fatal, error, warn, info and debug",
        ),
        (
            "i.yaml",
            "port: 1\nlog-as-json: true\nport: 2\n",
            &[],
            &[],
            "  cause: line 3: `port` is set twice, first on line 1\n  hint: remove one\n",
        ),
        (
            "j.yaml",
            "monitoringPort: 1\nmonitoring-port: 2\n",
            &[],
            &[],
            "  cause: line 2: `monitoring-port` is set twice, first on line 1\n",
        ),
        ("k.yaml", "- port\n", &[], &[], "expected a map of flag names and values"),
        (
            "l.yaml",
            "decision-log-sampling: 2\n",
            &[],
            &[],
            "  cause: share of decisions to log must be from 0 to 1, got 2\n",
        ),
        (
            "m.yaml",
            "trace-sampling-rate: 7\n",
            &[],
            &[],
            "  cause: trace sampling rate must be from 0 to 1, got 7\n",
        ),
        ("n.yaml", "shutdown-timeout: -1s\n", &[], &[], "  cause: shutdown timeout must be >= 0s, got -1s\n"),
        (
            "o.yaml",
            "liveness-probe-path: /nowhere/live\n",
            &[],
            &[],
            "  cause: the liveness probe file `/nowhere/live` is never written with --liveness-probe-interval 0s",
        ),
        ("p.yaml", "decision-mask: source.user,[x\n", &[], &[], "  cause: `[x` names no attribute to mask"),
        (
            "q.yaml",
            "config-store-url: nosuch:///tmp/conf\n",
            &[],
            &[],
            "unknown config URL `nosuch:///tmp/conf`\n  hint: ",
        ),
        (
            "r.yaml",
            "tls-cert-file: /nowhere/c.pem\ntls-key-file: /nowhere/k.pem\n",
            &[],
            &[],
            "no such file or directory\n  hint: correct the path, or create the file\n",
        ),
        (
            "s.yaml",
            "config-store-url:\n",
            &[],
            &[],
            "error: invalid value `` for `--config-store-url` in `s.yaml`, line 1\n  cause: the URL is empty, ",
        ),
        (
            "t.yaml",
            "{}\n",
            &[("MIXER_CONFIG_STORE_URL", "")],
            &[],
            "error: invalid value `` for `--config-store-url` in the environment variable MIXER_CONFIG_STORE_URL\n",
        ),
        (
            "u.yaml",
            "{}\n",
            &[],
            &["--config-store-url", " "],
            "  cause: the URL is empty, for example because a variable is not set; use fs://DIR, or leave the setting out to serve \
             the embedded sample\n",
        ),
        ("v.yaml", "{}\n", &[], &["--config-store-url=", "--dry-run"], "  cause: the URL is empty, "),
        ("w.yaml", "", &[], &[], "error: cannot read the settings in `w.yaml`\n  cause: the file is empty\n"),
        ("x.toml", " \n", &[], &["--dry-run"], "  cause: the file is empty\n"),
        (
            "y.yaml",
            "{}\n",
            &[("ISTIO_LANG", "cel")],
            &["--dry-run"],
            "error: the environment variable ISTIO_LANG names no language: \"cel\"\n  hint: the languages are CEL, COMPAT, CEXL; ",
        ),
        ("z.yaml", "{}\n", &[("ISTIO_LANG", "")], &[], "ISTIO_LANG names no language: \"\"\n"),
    ] {
        let found = error_of(name, content, environment, more);
        assert!(found.contains(expected), "{name}: {found}");
    }
}

/// What a setting protects is open without it: a variable that is not set must not look like a setting that is left out.
#[test]
fn a_setting_that_is_given_and_empty_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("settings.yaml");
    let path = file.display().to_string();
    let refused = |flag: &str, place: &str, finished: &crate::support::Finished| {
        let expected = format!(
            "error: invalid value `` for `--{flag}`{place}\n  cause: the value is empty, for example"
        );
        let is_told = finished.stderr.starts_with(&expected);
        assert!(finished.status != 0 && is_told, "{flag}: {finished:?}");
    };
    for flag in [
        "tls-cert-file",
        "tls-key-file",
        "tls-client-ca-file",
        "tls-allowed-peers",
        "ctrlz-token-file",
        "config-default-namespace",
        "config-cache",
        "address",
        "socket-mode",
        "log-target",
    ] {
        let long = format!("--{flag}");
        refused(flag, "", &mixer(&["server", "--dry-run", &long, ""]));
        let variable = format!("MIXER_{}", flag.replace('-', "_").to_uppercase());
        let place = format!(" in the environment variable {variable}");
        refused(flag, &place, &with_environment(&["server", "--dry-run"], &[(&variable, "")]));
        for text in ["", " \"\"", " ~", " []"] {
            std::fs::write(&file, format!("port: 1\n{flag}:{text}\n")).expect("it is writable");
            let place = format!(" in `{path}`, line 2");
            refused(flag, &place, &mixer(&["server", "--dry-run", "--config-file", &path]));
        }
    }
    let told = mixer(&["server", "--dry-run", "--config-default-namespace="]);
    assert!(told.stderr.contains("leave the setting out for `istio-system`"), "{told:?}");
    let finished = with_environment(&["doctor"], &[("MIXER_TLS_CLIENT_CA_FILE", "")]);
    let is_told = finished.stderr.contains("`--tls-client-ca-file` in the environment variable");
    assert!(finished.status == 2 && is_told, "{finished:?}");
    // Nothing is masked on purpose, and what Istio Mixer accepts stays accepted.
    let printed = mixer(&["server", "--print-config", "--decision-mask", ""]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""), "{printed:?}");
    let printed = mixer(&["legacy", "mixs", "server", "--print-config", "--configDefaultNamespace", ""]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""), "{printed:?}");
}

#[test]
fn a_list_of_allowed_peers_without_a_name_is_refused() {
    let flags = ["--tls-cert-file", "c", "--tls-key-file", "k", "--tls-client-ca-file", "r"];
    let finished = mixer(&[&["server", "--dry-run"], &flags[..], &["--tls-allowed-peers", " ,"]].concat());
    assert!(finished.status != 0, "{finished:?}");
    assert!(finished.stderr.contains("--tls-allowed-peers: ` ,` has no name"), "{finished:?}");
}

#[test]
fn a_settings_file_may_set_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in [
        ("comment.yaml", "# nothing\n"),
        ("null.yaml", "null\n"),
        ("map.yaml", "{}\n"),
        ("unset.yaml", "port: null\n"),
        ("comment.toml", "# nothing\n"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("it is writable");
        let ran = mixer(&["server", "--print-config", "--config-file", &path.display().to_string()]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{name}");
    }
}

#[test]
fn invalid_settings_on_reload_keep_the_old_ones() {
    let directory = configuration("");
    let settings = directory.path().join("settings.yaml");
    std::fs::write(&settings, "# nothing\n").expect("it is writable");
    let config_file = settings.display().to_string();
    let server = on(&directory).with(&["--config-file", &config_file]).start();
    std::fs::write(&settings, "nosuch: 1\n").expect("it is writable");
    server.signal("HUP");
    server.wait_for_log("\treloaded");
    assert!(
        server.log().contains("reloading the settings failed; the previous settings stay in effect"),
        "{}",
        server.log()
    );
    let told = format!("cannot read the settings in `{config_file}`: line 1: unknown setting `nosuch`");
    assert!(server.log().contains(&told), "{}", server.log());
    assert!(
        server.log().contains("\treloaded, except for the settings, which have an error"),
        "{}",
        server.log()
    );
    std::fs::remove_file(&settings).expect("it is there");
    server.signal("HUP");
    server.wait_for_log("`: no such file or directory");
}

#[test]
fn dry_run_prints_what_would_be_served() {
    let directory = configuration(&access_log(std::path::Path::new("/dev/null")));
    let config = format!("fs://{}", directory.path().join("config").display());
    let (api, metrics) = (free_port(), free_port().to_string());
    let address = format!("tcp://127.0.0.1:{api}");
    let pid_file = directory.path().join("pid").display().to_string();
    let flags =
        ["server", "--dry-run", "--log-target=stderr", "--pid-file", &pid_file, "--address", &address]
            .into_iter()
            .chain(["--metrics-port", &metrics, "--config-store-url", &config])
            .collect::<Vec<_>>();
    let finished = mixer(&flags);
    assert_eq!(finished.status, 0, "{finished:?}");
    let expected = format!(
        "would serve:\n  api            {address}\n  monitoring     port 15014\n  ControlZ       localhost:9876\n"
    );
    assert!(finished.stdout.starts_with(&expected), "{}", finished.stdout);
    assert!(
        finished.stdout.ends_with(" 1 rule, 1 handler, 1 instance\n                 0 errors, 0 warnings\n")
    );
    assert!(!directory.path().join("pid").exists());

    std::fs::write(directory.path().join("config/bad.yaml"), "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: bad, namespace: istio-system}\nspec: {match: nosuch.attribute == 1, actions: [{handler: ghost, instances: [line]}]}\n").expect("it is writable");
    let finished = mixer(&flags);
    assert_eq!(finished.status, 3, "{finished:?}");
    assert!(finished.stderr.contains("error: the configuration has "), "{}", finished.stderr);

    let _taken = std::net::TcpListener::bind(("127.0.0.1", api)).expect("the port is free again");
    let finished = mixer(&flags);
    assert_eq!(finished.status, 3, "{finished:?}");
    assert!(finished.stderr.contains(": address already in use"), "{}", finished.stderr);
}

/// Runs a command with these variables of the environment.
fn with_environment(arguments: &[&str], environment: &[(&str, &str)]) -> crate::support::Finished {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let environment: Vec<_> = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    run(&programs().path("mixer"), &arguments, &environment, None, None, DEADLINE).expect("it ends")
}

#[test]
fn doctor_refuses_a_store_that_is_given_and_empty() {
    let refused = "cause: the URL is empty, ";
    for (more, environment) in
        [(&["--config-store-url", ""][..], &[][..]), (&[], &[("MIXER_CONFIG_STORE_URL", "")])]
    {
        let finished = with_environment(&[&["doctor"], more].concat(), environment);
        assert!(finished.status == 2 && finished.stderr.contains(refused), "{finished:?}");
    }
    // Called as mixs, it is the cluster.
    let finished = with_environment(&["legacy", "mixs", "server", "--configStoreURL", ""], &[]);
    assert!(finished.stderr.contains("no configuration has been provided"), "{finished:?}");
}

#[test]
fn the_sample_as_the_default_and_misspelt_variables_are_told() {
    let ports = [(); 3].map(|()| free_port().to_string());
    let flags = ["--port", &ports[0], "--monitoring-port", &ports[1], "--metrics-port", &ports[2]];
    let flags = [&flags[..], &["--ctrlz-port", "0"]].concat();
    let environment = [("MIXER_CONFIG_STORE_URI", "fs:///etc/mixer"), ("MIXER_SERVICE_HOST", "10.0.0.1")];
    let rehearsal = [&["server", "--dry-run", "--log-target", "stderr"], &flags[..]].concat();
    let rehearsed = with_environment(&rehearsal, &environment);
    let misspelt = "MIXER_CONFIG_STORE_URI sets nothing: did you mean MIXER_CONFIG_STORE_URL?";
    for text in ["no --config-store-url is given: the embedded sample configuration serves", misspelt] {
        let told = rehearsed.stderr.lines().any(|line| line.contains("\twarn\t") && line.contains(text));
        assert!(rehearsed.status == 0 && told, "{text}: {rehearsed:?}");
    }
    assert!(!rehearsed.stderr.contains("SERVICE_HOST"), "{rehearsed:?}");
    let examined = with_environment(&[&["doctor"], &flags[..]].concat(), &environment);
    assert!(examined.stdout.contains("it is the default, because no store is given"), "{examined:?}");
    assert!(examined.stdout.contains(misspelt), "{examined:?}");
    // Named, it is what is meant.
    let named = [&flags[..], &["--config-store-url", "embedded://sample"]].concat();
    let examined = with_environment(&[&["doctor"], &named[..]].concat(), &[]);
    assert!(!examined.stdout.contains("it is the default"), "{examined:?}");
    let printed = mixer(&["server", "--print-config"]);
    assert!(printed.stdout.contains("config-store-url: embedded://sample "), "{printed:?}");
}

/// Istio Mixer takes any other value of `ISTIO_LANG` for the classic language.
#[test]
fn called_as_istio_mixer_any_language_is_the_classic_one() {
    for (language, more, serves) in
        [("cel", &["--config-on-error", "serve-valid"][..], true), ("cel", &[], false), ("CEL", &[], true)]
    {
        let arguments =
            [&["server", "--dry-run", "--port=0", "--monitoring-port=0", "--ctrlz-port=0"][..], more];
        let arguments: Vec<String> = arguments.concat().iter().map(|a| (*a).to_owned()).collect();
        let environment = [("ISTIO_LANG".to_owned(), language.to_owned())];
        let finished = run(&programs().path("mixer"), &arguments, &environment, None, None, DEADLINE);
        let finished = finished.expect("it ends");
        assert_eq!(
            finished.stdout.contains("would serve:"),
            serves,
            "{language} {more:?}: {}",
            finished.stderr
        );
    }
}
