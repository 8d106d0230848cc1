//! `galley validator` of Galley 1.0: a webhook alone.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::admission::post;
use crate::support::{DEADLINE, Finished, Process, free_port, http, is_listening, programs, run, wait_for};

/// A validator with the flags of Galley 1.0, spelled as there.
struct Validator {
    process: Process,
    directory: tempfile::TempDir,
    port: u16,
    monitoring: u16,
}

impl Validator {
    fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).expect("a file");
        std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).expect("a file");
        let log = std::fs::File::create(directory.path().join("log")).expect("a file");
        let (port, monitoring) = (free_port(), free_port());
        let mut command = Command::new(programs().path("galley"));
        command
            .arg("validator")
            .args(["--tlsCertFile", "cert.pem", "--tlsKeyFile", "key.pem", "--caCertFile", "cert.pem"])
            .args(["--port", &port.to_string(), "--monitoringPort", &monitoring.to_string()])
            .args(["--healthCheckFile", "health", "--healthCheckInterval", "100ms"])
            .args(["--deployment-namespace", "default", "--deployment-name", "istio-galley"])
            .args(more)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file"))
            .stdout(log);
        let process = Process::spawn(&mut command).expect("a process");
        let validator = Self { process, directory, port, monitoring };
        let listens = wait_for(DEADLINE, || is_listening(monitoring).then_some(()));
        assert!(listens.is_some(), "{}", validator.log());
        validator
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.directory.path().join(name).exists()
    }

    /// The answer to a review of a gateway.
    fn review(&self, spec: &serde_json::Value) -> serde_json::Value {
        let object = json!({
            "apiVersion": "networking.istio.io/v1alpha3", "kind": "Gateway", "metadata": {"name": "g", "namespace": "n"}, "spec": spec,
        });
        let review = json!({"request": {"uid": "7", "operation": "CREATE", "kind": {"kind": "Gateway"}, "namespace": "n", "object": object}});
        let root = std::fs::read(self.directory.path().join("cert.pem")).expect("a file");
        let url = format!("https://localhost:{}/admitpilot", self.port);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
        runtime.block_on(post(&url, &root, &review)).unwrap_or_else(|why| panic!("{why}\n{}", self.log()))
    }
}

#[test]
fn the_validator_of_galley_1_0_is_a_webhook_alone() {
    let mut validator = Validator::start(&["--kubeconfig", "/nosuch", "--resyncPeriod", "5m"]);
    assert!(wait_for(DEADLINE, || validator.has("health").then_some(())).is_some(), "{}", validator.log());
    let good = json!({"servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example.com"]}]});
    assert_eq!(validator.review(&good), json!({"response": {"uid": "7", "allowed": true}}));
    let refused = validator.review(&json!({}));
    assert_eq!(
        (&refused["response"]["allowed"], &refused["response"]["status"]["message"]),
        (&json!(false), &json!("configuration is invalid: gateway must have at least one server"))
    );
    let metrics =
        http("GET", &format!("http://127.0.0.1:{}/metrics", validator.monitoring), "").expect("an answer");
    for family in
        ["galley_validation_passed{", "galley_validation_failed{", "istio_build{component=\"galley\""]
    {
        assert!(metrics.body.contains(family), "{family}: {}", metrics.body);
    }
    assert!(!validator.log().contains("ControlZ available"), "{}", validator.log());
    validator.process.signal("TERM");
    assert_eq!(validator.process.wait(DEADLINE), Some(Some(0)), "{}", validator.log());
    assert!(!validator.has("health"), "the probe file is removed");
}

#[test]
fn a_validator_without_its_files_does_not_start() {
    let arguments = ["validator", "--tlsCertFile", "/nosuch/cert", "--port", "0"].map(str::to_owned);
    let Finished { status, stdout, stderr } =
        run(&programs().path("galley"), &arguments, &[], Some(Path::new("/")), None, DEADLINE)
            .expect("it ends");
    assert_eq!(status, 1, "{stdout}{stderr}");
    assert!(stdout.contains("\tfatal\tInvalid validationArgs: 1 error occurred:\n\t* port number 0 must be in the range 1..65535"), "{stdout}{stderr}");
    let arguments =
        ["validator", "--tlsCertFile", "/nosuch/cert", "--port", &free_port().to_string()].map(str::to_owned);
    let finished = run(&programs().path("galley"), &arguments, &[], Some(Path::new("/")), None, DEADLINE)
        .expect("it ends");
    assert_eq!(finished.status, 1, "{}{}", finished.stdout, finished.stderr);
    assert!(
        finished
            .stdout
            .contains("\tfatal\tError creating server: cannot read the certificates in `/nosuch/cert`: "),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
}
