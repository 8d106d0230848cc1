//! Prometheus as a child process, which Debian's package `prometheus` has.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Process, free_port, http, wait_for};

/// A running Prometheus.
pub(crate) struct Prometheus {
    _process: Process,
    port: u16,
    directory: tempfile::TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these jobs every 250 ms.
    pub(crate) fn start(jobs: &[(&str, u16)]) -> Self {
        Self::start_with(jobs, &[])
    }

    /// One that asks for native histograms and stores them.
    pub(crate) fn start_native(jobs: &[(&str, u16)]) -> Self {
        Self::start_with(jobs, &["--enable-feature=native-histograms"])
    }

    fn start_with(jobs: &[(&str, u16)], flags: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("mixer-prometheus").tempdir().unwrap();
        let mut configuration = "global: {scrape_interval: 250ms}\nscrape_configs:\n".to_owned();
        for (job, port) in jobs {
            configuration +=
                &format!("- job_name: {job}\n  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n");
        }
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, configuration).unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let port = free_port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = Process::spawn(&mut command).unwrap_or_else(|error| {
            panic!(
                "this test needs the program `prometheus` ({error}): install Debian's package `prometheus`"
            )
        });
        Self { _process: process, port, directory }
    }

    /// Waits until a query has the value `expected`.
    pub(crate) fn expect(&self, query: &str, expected: &str) {
        let mut last = String::new();
        let found = wait_for(Duration::from_secs(60), || {
            last = self.query(query).unwrap_or_else(|error| error);
            (last == expected).then_some(())
        });
        if found.is_none() {
            let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            panic!("{query} is {last}, not {expected}; its log: {log}");
        }
    }

    /// The one value of a query. Errors: there are several or none, or the query is not valid.
    pub(crate) fn query(&self, query: &str) -> Result<String, String> {
        let values = self.values(query)?;
        match values.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(format!("{} values", other.len())),
        }
    }

    /// All values of a query. Errors: the query is not valid.
    pub(crate) fn values(&self, query: &str) -> Result<Vec<String>, String> {
        let encoded: String = query.bytes().map(|b| format!("%{b:02X}")).collect();
        let answer =
            http("GET", &format!("http://127.0.0.1:{}/api/v1/query?query={encoded}", self.port), "")?;
        let json: serde_json::Value = serde_json::from_str(&answer.body).map_err(|e| e.to_string())?;
        let result = json["data"]["result"].as_array().ok_or_else(|| answer.body.clone())?;
        Ok(result.iter().map(|one| one["value"][1].as_str().unwrap_or_default().to_owned()).collect())
    }
}

/// The panels of the dashboard of deploy/grafana: the title, and its queries without variables of Grafana.
pub(crate) fn panels(interval: &str) -> Vec<(String, Vec<String>)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana/mixer.json");
    let text = std::fs::read_to_string(path).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let query = |target: &serde_json::Value| {
        let text = target["expr"].as_str().unwrap().replace("$__rate_interval", interval);
        text.replace("$instance", ".*").replace("$job", ".*")
    };
    let panel = |panel: &serde_json::Value| {
        let targets = panel["targets"].as_array()?;
        Some((panel["title"].as_str()?.to_owned(), targets.iter().map(query).collect()))
    };
    dashboard["panels"].as_array().unwrap().iter().filter_map(panel).collect()
}

/// Panels without a number after some time, and those of `not_zero` that have no other number than 0, with their values.
pub(crate) fn empty_panels(prometheus: &Prometheus, not_zero: &[&str]) -> Vec<String> {
    let mut empty = Vec::new();
    let started = wait_for(Duration::from_secs(60), || prometheus.values("up").ok());
    assert!(started.is_some(), "Prometheus does not answer");
    wait_for(Duration::from_secs(60), || {
        empty.clear();
        for (title, queries) in panels("5s") {
            let values: Vec<String> =
                queries.iter().flat_map(|query| prometheus.values(query).unwrap()).collect();
            let numbers = values.iter().filter_map(|value| value.parse::<f64>().ok());
            let known: Vec<f64> = numbers.filter(|number| !number.is_nan()).collect();
            let is_zero = known.iter().all(|number| *number == 0.0);
            if known.is_empty() || is_zero && not_zero.contains(&title.as_str()) {
                empty.push(format!("{title}: {values:?}"));
            }
        }
        empty.is_empty().then_some(())
    });
    empty
}
