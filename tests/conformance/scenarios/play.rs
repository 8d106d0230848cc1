//! Plays one scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_yaml::Value;
use tempfile::TempDir;

use super::backend::Backend;
use super::compare;
use crate::support::bag::{self, Words};
use crate::support::rpc::{self, Client, mixer};
use crate::support::{Server, http, programs, wait_for};

/// How long an edit may take to take effect.
const RELOADED: Duration = Duration::from_secs(5);
/// How long nothing may be published after an edit without effect.
const UNCHANGED: Duration = Duration::from_millis(2500);
/// How long output is watched that must not appear. A foreign server logs a snapshot this long before it serves it, at most.
const SETTLED: Duration = Duration::from_millis(300);
/// How long lines of an adapter may take to reach their file.
pub(super) const WRITTEN: Duration = Duration::from_secs(3);

/// Plays all steps; the error names the first difference.
pub(super) fn play(suite: &Path, directory: &Path, scenario: &Value) -> Result<(), String> {
    let mut play = Play::prepare(suite, directory, scenario)?;
    for (index, step) in sequence(scenario, "steps").enumerate() {
        play.step(step).map_err(|difference| format!("step {}: {difference}", index + 1))?;
    }
    Ok(())
}

fn sequence<'a>(node: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    node.get(key).and_then(Value::as_sequence).into_iter().flatten()
}

struct Play {
    scenario: PathBuf,
    root: TempDir,
    server: Server,
    client: Client,
    /// Lines of each output file that were compared already.
    read: BTreeMap<String, usize>,
    /// The adapter out of process, and its script.
    backend: Option<Backend>,
    /// Until when an expectation may still become true, after an edit.
    settling: Option<Instant>,
}

impl Play {
    fn prepare(suite: &Path, directory: &Path, scenario: &Value) -> Result<Self, String> {
        let root = tempfile::Builder::new().prefix("mixer-scenario").tempdir().map_err(text)?;
        let config = root.path().join("config");
        fs::create_dir_all(&config).map_err(text)?;
        fs::create_dir_all(root.path().join("out")).map_err(text)?;
        for base in sequence(scenario, "base").filter_map(Value::as_str) {
            copy(&suite.join("_base").join(base), &config.join(format!("_base_{base}")), root.path())?;
        }
        let own = directory.join("config");
        if own.is_dir() {
            copy_all(&own, &config, root.path())?;
        }
        let backend = scenario.get("backend").map(|backend| Backend::start(backend, &config)).transpose()?;
        let arguments = scenario.get("server").map(|server| sequence(server, "args")).into_iter().flatten();
        let arguments: Vec<&str> = arguments.filter_map(Value::as_str).collect();
        let server = Server::on(&config).with(&arguments).try_start()?;
        let client = Client::new(&server.address())?;
        let scenario = directory.to_owned();
        Ok(Self { scenario, root, server, client, read: BTreeMap::new(), backend, settling: None })
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let expect = step.get("expect");
        let normalize: Vec<&str> = sequence(step, "normalize").filter_map(Value::as_str).collect();
        if let Some(check) = step.get("check") {
            return self.check(check, expect, &normalize).map_err(|d| format!("check: {d}"));
        }
        if let Some(report) = step.get("report") {
            return self.report(report, expect, &normalize).map_err(|d| format!("report: {d}"));
        }
        if let Some(config) = step.get("config") {
            return self.config(config).map_err(|d| format!("config: {d}"));
        }
        if let Some(output) = step.get("output") {
            return self.output(output, expect).map_err(|d| format!("output: {d}"));
        }
        if let Some(scrape) = step.get("scrape") {
            return self.scrape(scrape, expect).map_err(|d| format!("scrape: {d}"));
        }
        if let Some(logs) = step.get("logs") {
            return self.logs(logs).map_err(|d| format!("logs: {d}"));
        }
        if let Some(backend) = step.get("backend") {
            let own = self.backend.as_ref().ok_or("backend: there is none")?;
            return own.script(backend).map_err(|d| format!("backend: {d}"));
        }
        if step.get("calls").is_some() {
            let own = self.backend.as_mut().ok_or("calls: there is no backend")?;
            return own.calls(expect).map_err(|d| format!("calls: {d}"));
        }
        if let Some(sleep) = step.get("sleep") {
            let nanos = sleep.as_str().and_then(bag::go_nanos).and_then(|nanos| u64::try_from(nanos).ok());
            // The step itself: a scenario lets time pass, for example to expire a list.
            std::thread::sleep(Duration::from_nanos(nanos.ok_or("sleep: no duration")?));
            return Ok(());
        }
        Err("unknown action".to_owned())
    }

    fn check(&mut self, check: &Value, expect: Option<&Value>, normalize: &[&str]) -> Result<(), String> {
        let request = check_request(check)?;
        let timeout = check.get("timeout").and_then(Value::as_str).and_then(bag::go_nanos);
        let timeout = timeout.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
        let again = self.settling.take().filter(|_| request.quotas.is_empty());
        let mut result = Ok(());
        let remaining = again.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        wait_for(remaining, || {
            let answer = self.client.check(&request, timeout);
            result = expect.map_or(Ok(()), |expect| compare::check(&answer, expect, normalize));
            result.is_ok().then_some(())
        });
        result
    }

    fn report(&mut self, report: &Value, expect: Option<&Value>, normalize: &[&str]) -> Result<(), String> {
        self.settling = None;
        let answer = self.client.report(&report_request(report)?, None);
        expect.map_or(Ok(()), |expect| compare::report(&answer, expect, normalize))
    }

    /// Applies the operations together, then waits for a new snapshot or for the absence of one.
    fn config(&mut self, config: &Value) -> Result<(), String> {
        let directory = self.root.path().join("config");
        let before = self.snapshots();
        let mut prepared = Vec::new();
        for (index, operation) in sequence(config, "ops").enumerate() {
            let file = |key: &str| operation.get(key).and_then(Value::as_str);
            if let (Some(target), Some(from)) = (file("write"), file("from")) {
                let beside = directory.join(format!(".prepared-{index}"));
                copy(&self.scenario.join(from), &beside, self.root.path())?;
                prepared.push((beside, directory.join(target)));
            }
        }
        for (from, to) in prepared {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(text)?;
            }
            fs::rename(from, to).map_err(text)?;
        }
        for operation in sequence(config, "ops") {
            let file =
                |key: &str| operation.get(key).and_then(Value::as_str).map(|name| directory.join(name));
            if let Some(target) = file("delete") {
                fs::remove_file(target).map_err(text)?;
            } else if let (Some(from), Some(to)) = (file("rename"), file("to")) {
                fs::rename(from, to).map_err(text)?;
            } else if let Some(target) = file("touch") {
                let file = fs::File::options().append(true).open(target).map_err(text)?;
                file.set_modified(SystemTime::now()).map_err(text)?;
            }
        }
        let changed = Instant::now();
        if config.get("effect").and_then(Value::as_str) == Some("none") {
            let published = wait_for(UNCHANGED, || Some(self.snapshots()).filter(|now| *now != before));
            return match published {
                None => Ok(()),
                Some(after) => Err(format!("published again ({before} -> {after})")),
            };
        }
        let published = wait_for(RELOADED, || (self.snapshots() > before).then_some(()));
        if published.is_some() && programs().foreign_server {
            // Mixer 1.3 has no sign of the swap. The product logs a snapshot when it serves.
            std::thread::sleep(SETTLED);
        }
        self.settling = Some(changed + RELOADED);
        Ok(())
    }

    /// How many snapshots the server has logged.
    fn snapshots(&self) -> usize {
        self.server.log().matches("Built new config.Snapshot").count()
    }

    /// Compares the lines appended to a file since the last step.
    fn output(&mut self, output: &Value, expect: Option<&Value>) -> Result<(), String> {
        let name = output.get("file").and_then(Value::as_str).ok_or("no file named")?;
        let path = self.root.path().join("out").join(name);
        let start = self.read.get(name).copied().unwrap_or(0);
        let expected: Vec<Value> =
            expect.map(|e| sequence(e, "lines").cloned().collect()).unwrap_or_default();
        let mut lines = Vec::new();
        // Lines that must not appear are waited for as well.
        let (limit, wanted) = if expected.is_empty() { (SETTLED, 1) } else { (WRITTEN, expected.len()) };
        wait_for(limit, || {
            let content = fs::read_to_string(&path).unwrap_or_default();
            lines = content.lines().skip(start).map(str::to_owned).collect();
            (lines.len() >= wanted).then_some(())
        });
        self.read.insert(name.to_owned(), start + lines.len());
        compare::output(&lines, &expected, output)
    }

    fn scrape(&mut self, scrape: &Value, expect: Option<&Value>) -> Result<(), String> {
        let port = match scrape.get("target").and_then(Value::as_str) {
            Some("self") => self.server.ports.monitoring,
            _ => self.server.ports.metrics,
        };
        let prefixes: Vec<&str> = sequence(scrape, "prefix").filter_map(Value::as_str).collect();
        let expected: Vec<&str> =
            expect.map(|e| sequence(e, "lines").filter_map(Value::as_str).collect()).unwrap_or_default();
        let deadline = self.settling.take().unwrap_or_else(Instant::now);
        let mut result = Ok(());
        wait_for(deadline.saturating_duration_since(Instant::now()), || {
            result = http("GET", &format!("http://127.0.0.1:{port}/metrics"), "")
                .and_then(|answer| compare::scrape(&answer.body, &prefixes, &expected));
            result.is_ok().then_some(())
        });
        result
    }

    /// Compares the log. Records of a foreign server may take longer.
    fn logs(&mut self, logs: &Value) -> Result<(), String> {
        let limit = if programs().foreign_server { RELOADED } else { Duration::from_secs(2) };
        for wanted in sequence(logs, "contains").filter_map(Value::as_str) {
            wait_for(limit, || self.server.log().contains(wanted).then_some(()))
                .ok_or_else(|| format!("nowhere in the log: {wanted}"))?;
        }
        let log = self.server.log();
        for unwanted in sequence(logs, "not_contains").filter_map(Value::as_str) {
            if log.contains(unwanted) {
                return Err(format!("in the log: {unwanted}"));
            }
        }
        Ok(())
    }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Copies one file with the names of directories filled in.
fn copy(from: &Path, to: &Path, root: &Path) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let bytes = match String::from_utf8(bytes) {
        Ok(content) => {
            let out = root.join("out").display().to_string();
            content.replace("${OUT}", &out).replace("${WORK}", &root.display().to_string()).into_bytes()
        }
        Err(not_text) => not_text.into_bytes(),
    };
    fs::write(to, bytes).map_err(text)
}

pub(super) fn copy_all(from: &Path, to: &Path, root: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(text)?;
    for entry in fs::read_dir(from).map_err(text)? {
        let entry = entry.map_err(text)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target, root)?;
        } else {
            copy(&entry.path(), &target, root)?;
        }
    }
    Ok(())
}

/// The words and the global word count of a step.
fn words_of(step: &Value) -> (Words, u32) {
    let count =
        step.get("global_word_count").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
    let count = count.unwrap_or(222);
    if step.get("encoding").and_then(Value::as_str) == Some("global") {
        return (Words::global(count as usize), count);
    }
    (Words::of_message(), count)
}

fn check_request(check: &Value) -> Result<mixer::CheckRequest, String> {
    let (words, global_word_count) = words_of(check);
    let attributes = check.get("attributes").map(bag::grouped).transpose()?.unwrap_or_default();
    let mut message = bag::encode_alone(&attributes, words);
    if let Some(raw) = check.get("raw") {
        bag::add_raw(raw, &mut message)?;
    }
    let mut request =
        mixer::CheckRequest { attributes: Some(message), global_word_count, ..Default::default() };
    request.deduplication_id = check.get("dedup_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, quota) in check.get("quotas").and_then(Value::as_mapping).into_iter().flatten() {
        let parameters = mixer::check_request::QuotaParams {
            amount: quota.get("amount").and_then(Value::as_i64).unwrap_or(0),
            best_effort: quota.get("best_effort").and_then(Value::as_bool).unwrap_or(false),
        };
        request.quotas.insert(name.as_str().unwrap_or_default().to_owned(), parameters);
    }
    Ok(request)
}

fn report_request(report: &Value) -> Result<mixer::ReportRequest, String> {
    let (words, global_word_count) = words_of(report);
    let mut request = mixer::ReportRequest { global_word_count, ..Default::default() };
    let is_shared = report.get("shared_words").and_then(Value::as_bool).unwrap_or(false);
    let mut shared = words.clone();
    for group in sequence(report, "bags") {
        let attributes = bag::grouped(group)?;
        let mut message = if is_shared {
            bag::encode(&attributes, &mut shared)
        } else {
            bag::encode_alone(&attributes, words.clone())
        };
        if let Some(raw) = group.get("raw") {
            bag::add_raw(raw, &mut message)?;
        }
        request.attributes.push(message);
    }
    request.default_words = shared.list();
    let more = sequence(report, "default_words").filter_map(Value::as_str);
    request.default_words.extend(more.map(|word| Bytes::from(word.to_owned())));
    let independent = report.get("semantics").and_then(Value::as_str) == Some("independent");
    request.repeated_attributes_semantics = i32::from(independent);
    Ok(request)
}

/// Whatever the caller needs to know about an RPC that failed: the code's name and the text.
pub(super) fn failure(status: &tonic::Status) -> (String, String) {
    (rpc::upper_code(status.code()), status.message().to_owned())
}
