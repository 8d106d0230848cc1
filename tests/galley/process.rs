//! Start, stop, probes, failures.

use crate::support::galley::Galley;
use crate::support::{DEADLINE, Finished, Process, free_port, http, programs, run, wait_for};
use crate::{GATEWAY, RULE};

/// Runs a program to its end.
fn ended(program: &str, arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    run(&programs().path(program), &arguments, &[], None, None, DEADLINE).expect("the command ends")
}

#[test]
fn probes_follow_the_first_sync_and_the_stop() {
    let mut galley = Galley::of_files(
        &[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)],
        &[
            "--readiness-probe-path=ready",
            "--readiness-probe-interval=100ms",
            "--liveness-probe-path=live",
            "--liveness-probe-interval=100ms",
        ],
    );
    galley.synced();
    let [ready, live] = ["ready", "live"].map(|name| galley.path(name));
    assert!(wait_for(DEADLINE, || (ready.exists() && live.exists()).then_some(())).is_some());
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", galley.monitoring);
    assert_eq!(http("GET", &url("/readyz"), "").expect("an answer").status, 200);
    assert!(http("GET", &url("/version"), "").expect("an answer").status == 200);
    let metrics = galley.metrics();
    for family in [
        "istio_build{component=\"galley\"",
        "galley_runtime_processor_snapshots_published_total",
        "galley_runtime_state_type_instances_total{collection=\"istio/policy/v1beta1/rules\"} 1",
        "galley_source_synced{source=",
        "galley_runtime_processor_event_span_duration_milliseconds_count ",
        "galley_runtime_strategy_timer_resets_total ",
    ] {
        assert!(metrics.contains(family), "{family} in {metrics}");
    }
    assert!(!metrics.contains("galley_resource{"), "off by default");
    galley.signal("TERM");
    assert_eq!(galley.end(), Some(0), "{}", galley.log());
    assert!(!ready.exists() && !live.exists(), "probe files are removed");
}

#[test]
fn a_start_that_fails_says_why_and_exits_with_one() {
    for (arguments, text) in [
        (
            vec!["server", "--enable-server=false", "--enable-validation=false"],
            "\tfatal\tGalley must be running under at least one mode: server or validation\n",
        ),
        (
            vec![
                "server",
                "--insecure",
                "--webhook-name",
                "A b",
                "--service-name",
                "",
                "--validation-port",
                "70000",
            ],
            "\tfatal\tInvalid validationArgs: 4 errors occurred:\n\t* invalid webhook name: \"A b\"\n\t* invalid service name: \"\"\n\
             \t* webhookConfigFile not specified\n\t* port number 70000 must be in the range 1..65535\n\n",
        ),
        (
            vec![
                "server",
                "--enable-validation=false",
                "--insecure",
                "--configPath",
                "/",
                "--meshConfigFile",
                "/nosuch/mesh",
                "--livenessProbePath",
                "",
                "--readinessProbePath",
                "",
                "--server-address",
                "tcp://127.0.0.1:0",
                "--ctrlz_port",
                "0",
            ],
            "no such file or directory",
        ),
    ] {
        let finished = ended("galley", &arguments);
        assert_eq!(finished.status, 1, "{}{}", finished.stdout, finished.stderr);
        assert!(finished.stdout.contains(text), "{}{}", finished.stdout, finished.stderr);
    }
    let finished = ended("galley", &["server", "-c", "/nosuch"]);
    assert_eq!(
        (finished.status, &*finished.stderr),
        (1, "fatal error in config file: Unsupported Config Type \"\"")
    );
}

#[test]
fn settings_of_the_file_give_way_to_flags() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("galley.yaml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    std::fs::write(
        &path,
        format!("general: {{introspection: {{port: {}}}}}\nprocessing: {{server: {{address: 'tcp://127.0.0.1:{port}'}}}}\n", free_port()),
    )
    .expect("a file");
    let file = path.display().to_string();
    let arguments =
        ["galley", "server", "-c", &file, "--insecure", "--config-path", "/nosuch", "--monitoring-port", "0"];
    let failed = ended("mixer", &arguments);
    assert_eq!(failed.status, 3, "{}", failed.stderr);
    assert!(failed.stderr.contains("address already in use"), "the address of the file: {}", failed.stderr);
}

/// With `--enable-analysis`, called by either name; the mended resource ends it.
#[test]
fn what_is_published_is_analysed() {
    let service = |gateway: &str| {
        format!(
            "apiVersion: networking.istio.io/v1alpha3\nkind: VirtualService\nmetadata: {{name: v, namespace: shop}}\n\
             spec: {{hosts: [a.com], gateways: [{gateway}], http: [{{route: [{{destination: {{host: a.com}}}}]}}]}}\n"
        )
    };
    let lost = "error [IST0101](VirtualService v.shop) Referenced gateway not found: \"ghost\"";
    for flag in ["--enable-analysis", "--enableAnalysis"] {
        let galley = Galley::of_files(&[("rule.yaml", RULE), ("v.yaml", &service("ghost"))], &[flag]);
        let told = |text: &str| wait_for(DEADLINE, || galley.log().contains(text).then_some(()));
        assert!(told(lost).is_some(), "{}", galley.log());
        galley.write("v.yaml", &service("mesh"));
        assert!(told(&format!("no longer: {lost}")).is_some(), "{}", galley.log());
    }
    let mut quiet = Galley::of_files(&[("rule.yaml", RULE), ("v.yaml", &service("ghost"))], &[]);
    quiet.synced();
    quiet.signal("TERM");
    assert_eq!(quiet.end(), Some(0), "{}", quiet.log());
    assert!(!quiet.log().contains("IST0101"), "{}", quiet.log());
}

#[test]
fn the_program_galley_has_the_commands_of_istio_and_of_operators() {
    let help = ended("galley", &["server", "--help"]);
    assert_eq!(help.status, 0);
    for flag in [
        "--accessListFile string",
        "--excludedResourceKinds strings",
        "--validation-port uint",
        "--useOldProcessor",
        "-c, --config string",
        "--livenessProbeInterval duration",
    ] {
        assert!(help.stdout.contains(flag), "{flag} in {}", help.stdout);
    }
    let unknown = ended("galley", &["nosuch"]);
    assert_eq!(unknown.status, 255);
    assert!(
        unknown.stderr.starts_with("Error: unknown command \"nosuch\" for \"galley\""),
        "{}",
        unknown.stderr
    );
    assert_eq!(ended("galley", &["version", "-s"]).status, 0);
    let wait = ended("galley", &["wait", "latest", "--server", "127.0.0.1:1"]);
    assert_eq!(wait.status, 4, "native: {}", wait.stderr);
}

#[test]
fn without_controlz_galley_serves_until_it_is_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("rule.yaml"), RULE).expect("a file");
    let [sinks, monitoring] = [(); 2].map(|()| free_port());
    let mut command = std::process::Command::new(programs().path("mixer"));
    command
        .args(["galley", "server", "--insecure", "--ctrlz-port=0", "--config-path=."])
        .arg(format!("--server-address=tcp://127.0.0.1:{sinks}"))
        .arg(format!("--monitoring-port={monitoring}"))
        .current_dir(directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut process = Process::spawn(&mut command).expect("a process");
    let url = format!("http://127.0.0.1:{monitoring}/readyz");
    let ready = wait_for(DEADLINE, || match process.ended() {
        Some(_) => Some(false),
        None => http("GET", &url, "").is_ok_and(|answer| answer.status == 200).then_some(true),
    });
    assert_eq!(ready, Some(true), "it ended by itself");
    process.signal("TERM");
    assert_eq!(process.wait(DEADLINE), Some(Some(0)));
}

/// As the first process of a container it is not ended by a signal that it does not handle.
#[test]
fn a_start_that_waits_for_a_cluster_can_be_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    // It accepts calls, and answers none.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = mute.local_addr().expect("an address");
    let kubeconfig = directory.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).expect("a file");
    for (signal, status) in [("TERM", 143), ("INT", 130)] {
        let [sinks, monitoring] = [(); 2].map(|()| free_port());
        let log = std::fs::File::create(directory.path().join("log")).expect("a file");
        let mut command = std::process::Command::new(programs().path("mixer"));
        command
            .args(["galley", "server", "--insecure", "--ctrlz-port=0", "--mesh-config-file="])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--server-address=tcp://127.0.0.1:{sinks}"))
            .arg(format!("--monitoring-port={monitoring}"))
            .args(["--enable-validation=false"])
            .current_dir(directory.path())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log);
        let mut process = Process::spawn(&mut command).expect("a process");
        let asked = mute.accept();
        let log = || std::fs::read_to_string(directory.path().join("log")).unwrap_or_default();
        assert!(asked.is_ok(), "{}", log());
        process.signal("USR2");
        process.signal("HUP");
        process.signal(signal);
        assert_eq!(process.wait(DEADLINE), Some(Some(status)), "{}", log());
    }
}

#[test]
fn the_signal_that_has_a_server_log_its_state_does_no_harm() {
    let mut galley = Galley::of_files(&[("rule.yaml", RULE)], &[]);
    galley.synced();
    galley.signal("USR2");
    let told = wait_for(DEADLINE, || galley.log().contains("SIGUSR2 has no effect on galley").then_some(()));
    assert!(told.is_some(), "{}", galley.log());
    galley.signal("TERM");
    assert_eq!(galley.end(), Some(0), "{}", galley.log());
}

/// The status and text that a client gets that asks for the name of another host, as one on another host does.
fn as_a_stranger(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: galley.example\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn texts_of_files_and_profiles_are_for_clients_on_this_host() {
    const BROKEN: &str = "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: x, namespace: istio-system}\n\
                          spec:\n  request.headers[\"x-token\"] == \"s3cr3tvalue99\": true\n";
    // Nothing is published at first; then what was published before is served.
    for first in [BROKEN, RULE] {
        let profiles = free_port();
        let flag = format!("--pprof-port={profiles}");
        let galley = Galley::of_files(&[("rule.yaml", first)], &["--enable-profiling=true", &flag]);
        if first == RULE {
            galley.synced();
            galley.write("rule.yaml", BROKEN);
        }
        let url = format!("http://127.0.0.1:{}/readyz?verbose", galley.monitoring);
        let whole = wait_for(DEADLINE, || {
            let answer = http("GET", &url, "").ok()?.body;
            answer.contains("s3cr3tvalue99").then_some(())
        });
        assert!(whole.is_some(), "on this host the text is told: {}", galley.log());
        for path in ["/readyz?verbose", "/readyz", "/healthz"] {
            let answer = as_a_stranger(galley.monitoring, path);
            assert!(answer.starts_with("HTTP/1.1 ") && !answer.contains("s3cr3tvalue99"), "{path}: {answer}");
        }
        let answer = as_a_stranger(galley.monitoring, "/readyz?verbose");
        assert!(answer.contains("its text is for clients on this host"), "{answer}");
        let page = http("GET", &format!("http://127.0.0.1:{profiles}/debug/pprof/"), "").expect("an answer");
        assert_eq!(page.status, 200);
        let answer = as_a_stranger(profiles, "/debug/pprof/cmdline");
        assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("config-path"), "{answer}");
    }
}

/// As that of a policy server, the monitoring port can be that of one address.
#[test]
fn the_monitoring_port_has_an_address() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("rule.yaml"), RULE).expect("a file");
    let [sinks, monitoring] = [(); 2].map(|()| free_port());
    let mut command = std::process::Command::new(programs().path("mixer"));
    command
        .args(["galley", "server", "--insecure", "--ctrlz-port=0", "--config-path=.", "--monitoring-port=1"])
        .arg(format!("--server-address=tcp://127.0.0.1:{sinks}"))
        .arg(format!("--monitoring-address=127.0.0.1:{monitoring}"))
        .args(["--liveness-probe-path=", "--readiness-probe-path="])
        .current_dir(directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut process = Process::spawn(&mut command).expect("a process");
    let url = format!("http://127.0.0.1:{monitoring}/readyz");
    let ready = wait_for(DEADLINE, || match process.ended() {
        Some(_) => Some(false),
        None => http("GET", &url, "").is_ok_and(|answer| answer.status == 200).then_some(true),
    });
    assert_eq!(ready, Some(true), "it ended by itself");
    process.signal("TERM");
    assert_eq!(process.wait(DEADLINE), Some(Some(0)));
}
