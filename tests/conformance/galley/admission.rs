//! Galley's webhook: reviews and their verdicts, and what is no review. The binary serves, the test is the API server.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::{Case, in_parallel, jobs, selected};
use crate::support::{DEADLINE, Process, free_port, programs, wait_for};

/// Runs the cases about the webhook.
pub(crate) fn run(directory: &Path, filter: Option<&str>) -> Vec<Case> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let mut work = Vec::new();
    for name in names.into_iter().filter(|name| selected(name, filter)) {
        let case = directory.join(&name);
        let Ok(about) = read(&case.join("case.json")) else { continue };
        match about["kind"].as_str() {
            Some("admission") => work.push((name, case, false)),
            Some("admission-http") => work.push((name, case, true)),
            _ => {}
        }
    }
    in_parallel(jobs(), work, |(name, case, is_http)| {
        let result = Webhook::start().and_then(|webhook| {
            let expected = read(&case.join("expected.json"))?;
            if is_http { webhook.exchanges(&expected) } else { webhook.reviews(&case, &expected) }
        });
        Case::new(name, result)
    })
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A galley that is a webhook alone.
struct Webhook {
    url: String,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    _process: Process,
    _directory: TempDir,
}

/// An answer of the webhook.
struct Answer {
    status: u16,
    content_type: Option<String>,
    body: String,
}

impl Webhook {
    fn start() -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let directory = tempfile::tempdir().map_err(|e| text(&e))?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|e| text(&e))?;
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        std::fs::write(&cert, made.cert.pem()).map_err(|e| text(&e))?;
        std::fs::write(&key, made.signing_key.serialize_pem()).map_err(|e| text(&e))?;
        let [port, monitoring, ctrlz] = [(); 3].map(|()| free_port());
        let file = |path: &std::path::PathBuf| path.display().to_string();
        let arguments = [
            "server".to_owned(),
            "--enable-server=false".to_owned(),
            "--enable-reconcileWebhookConfiguration=false".to_owned(),
            format!("--validation-port={port}"),
            format!("--monitoringPort={monitoring}"),
            format!("--ctrlz_port={ctrlz}"),
            format!("--tlsCertFile={}", file(&cert)),
            format!("--tlsKeyFile={}", file(&key)),
            format!("--caCertFile={}", file(&cert)),
            "--livenessProbePath=".to_owned(),
            "--readinessProbePath=".to_owned(),
        ];
        let mut command = Command::new(programs().path("galley"));
        command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command).map_err(|e| text(&e))?;
        let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).map_err(|e| text(&e))?;
        mixer_net::tls::install_crypto_provider();
        let client = reqwest::Client::builder()
            .tls_certs_only([root])
            .timeout(DEADLINE)
            .build()
            .map_err(|e| text(&e))?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| text(&e))?;
        let url = format!("https://localhost:{port}");
        let webhook = Self { url, client, runtime, _process: process, _directory: directory };
        match wait_for(DEADLINE, || webhook.ask("GET", "/ready", None, None).is_ok().then_some(())) {
            Some(()) => Ok(webhook),
            None => Err("the webhook does not answer".to_owned()),
        }
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        kind: Option<&str>,
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let method = reqwest::Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        if let Some(body) = body {
            request = request.body(body.to_owned());
        }
        self.runtime.block_on(async {
            let response = request.send().await.map_err(|error| format!("{error:?}"))?;
            let content_type = response.headers().get("content-type");
            let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
            let status = response.status().as_u16();
            let body = response.text().await.map_err(|error| error.to_string())?;
            Ok(Answer { status, content_type, body })
        })
    }

    fn reviews(&self, case: &Path, expected: &Value) -> Result<(), String> {
        let requests = read(&case.join("input/requests.json"))?;
        let pairs = requests
            .as_array()
            .into_iter()
            .flatten()
            .zip(expected["responses"].as_array().into_iter().flatten());
        let mut wrong = Vec::new();
        for (index, (request, expected)) in pairs.enumerate() {
            let label = request["label"].as_str().unwrap_or_default();
            if let Err(why) = self.review(index, request, expected) {
                wrong.push(format!("{label}: {why}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn review(&self, index: usize, request: &Value, expected: &Value) -> Result<(), String> {
        let uid = format!("review-{index}");
        let mut inner = json!({
            "uid": uid, "operation": request["operation"], "namespace": request["namespace"],
            "kind": { "group": "", "version": "", "kind": request["kind"] },
            "resource": { "group": "", "version": "", "resource": "" },
        });
        for name in ["name", "object"] {
            if let Some(value) = request.get(name) {
                inner[name] = value.clone();
            }
        }
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": inner });
        let path = request["endpoint"].as_str().unwrap_or_default();
        let answer = self.ask("POST", path, Some("application/json"), Some(&review.to_string()))?;
        let body: Value =
            serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {}", answer.body))?;
        let response = &body["response"];
        let message = response["status"]["message"].as_str().unwrap_or_default();
        let is_right = match expected["messageCompare"].as_str() {
            Some("exact") => expected["message"].as_str() == Some(message),
            Some("prefix") => message.starts_with(expected["messagePrefix"].as_str().unwrap_or_default()),
            Some(_) => !message.is_empty(),
            None => message.is_empty(),
        };
        match response["uid"] == uid && response["allowed"] == expected["allowed"] && is_right {
            true => Ok(()),
            false => Err(format!("{response}, expected {expected}")),
        }
    }

    fn exchanges(&self, expected: &Value) -> Result<(), String> {
        for exchange in expected["exchanges"].as_array().into_iter().flatten() {
            let part = |name: &str| exchange[name].as_str();
            let answer = self.ask(
                part("method").unwrap_or("GET"),
                part("path").unwrap_or("/"),
                part("contentType"),
                part("body"),
            )?;
            let wanted = &exchange["response"];
            // A review is answered as JSON, which API servers of today require.
            let is_review = wanted["status"] == 200 && wanted["body"] != "";
            let kind = if is_review { Some("application/json") } else { wanted["contentType"].as_str() };
            let is_body = match part("bodyCompare") {
                Some("json-allowed") => {
                    let of = |text: &str| {
                        let body: Value = serde_json::from_str(text).unwrap_or_default();
                        (body["response"]["uid"].clone(), body["response"]["allowed"].clone())
                    };
                    of(&answer.body) == of(wanted["body"].as_str().unwrap_or_default())
                }
                _ => Some(&*answer.body) == wanted["body"].as_str(),
            };
            if wanted["status"] != answer.status || answer.content_type.as_deref() != kind || !is_body {
                let label = part("label").unwrap_or_default();
                let Answer { status, content_type, body } = answer;
                return Err(format!("{label}: {status} {content_type:?} {body:?}, expected {wanted}"));
            }
        }
        Ok(())
    }
}
