//! Plays one scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_yaml::Value;
use tempfile::TempDir;

use super::compare;
use crate::bag::{self, Words};
use crate::process::{Server, ServerArguments, http, programs, wait_for};
use crate::rpc::{self, Client, mixer};

/// After how long a changed configuration must be in effect.
const RELOADED: Duration = Duration::from_secs(5);
/// For how long nothing new may be published after a change that is none.
const UNCHANGED: Duration = Duration::from_millis(2500);
/// From the record of a new snapshot to its being served, at most.
const SETTLED: Duration = Duration::from_millis(300);
/// How long lines written by an adapter may take to reach their file.
pub(super) const WRITTEN: Duration = Duration::from_secs(3);

/// Plays all steps; the error says which one differed first and how.
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
    /// Until when an expectation may still come true, after a change.
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
        let arguments = scenario.get("server").map(|server| sequence(server, "args")).into_iter().flatten();
        let arguments: Vec<&str> = arguments.filter_map(Value::as_str).collect();
        let server = Server::start(&ServerArguments::on(&config).with(&arguments))?;
        let client = Client::new(&server.address())?;
        let scenario = directory.to_owned();
        Ok(Self { scenario, root, server, client, read: BTreeMap::new(), settling: None })
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
        if let Some(sleep) = step.get("sleep") {
            let nanos = sleep.as_str().and_then(bag::go_nanos).and_then(|nanos| u64::try_from(nanos).ok());
            std::thread::sleep(Duration::from_nanos(nanos.ok_or("sleep: no duration")?));
            return Ok(());
        }
        Err("an action this runner does not know".to_owned())
    }

    fn check(&mut self, check: &Value, expect: Option<&Value>, normalize: &[&str]) -> Result<(), String> {
        let request = check_request(check)?;
        let timeout = check.get("timeout").and_then(Value::as_str).and_then(bag::go_nanos);
        let timeout = timeout.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
        let again = self.settling.take().filter(|_| request.quotas.is_empty());
        loop {
            let answer = self.client.check(&request, timeout);
            let result = expect.map_or(Ok(()), |expect| compare::check(&answer, expect, normalize));
            match again {
                Some(deadline) if result.is_err() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => return result,
            }
        }
    }

    fn report(&mut self, report: &Value, expect: Option<&Value>, normalize: &[&str]) -> Result<(), String> {
        self.settling = None;
        let answer = self.client.report(&report_request(report)?, None);
        expect.map_or(Ok(()), |expect| compare::report(&answer, expect, normalize))
    }

    /// Applies the operations together, then waits for their effect or for the absence of one.
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
            std::thread::sleep(UNCHANGED);
            let after = self.snapshots();
            return if after == before {
                Ok(())
            } else {
                Err(format!("published again ({before} -> {after})"))
            };
        }
        if wait_for(RELOADED, || (self.snapshots() > before).then_some(())).is_some() {
            std::thread::sleep(SETTLED);
        }
        self.settling = Some(changed + RELOADED);
        Ok(())
    }

    /// How many snapshots the server says to have built.
    fn snapshots(&self) -> usize {
        self.server.log().matches("Built new config.Snapshot").count()
    }

    /// Compares what was appended to a file since the last time.
    fn output(&mut self, output: &Value, expect: Option<&Value>) -> Result<(), String> {
        let name = output.get("file").and_then(Value::as_str).ok_or("no file named")?;
        let path = self.root.path().join("out").join(name);
        let start = self.read.get(name).copied().unwrap_or(0);
        let expected: Vec<Value> =
            expect.map(|e| sequence(e, "lines").cloned().collect()).unwrap_or_default();
        if expected.is_empty() {
            std::thread::sleep(SETTLED);
        }
        let mut lines = Vec::new();
        wait_for(WRITTEN, || {
            let content = fs::read_to_string(&path).unwrap_or_default();
            lines = content.lines().skip(start).map(str::to_owned).collect();
            (lines.len() >= expected.len()).then_some(())
        });
        self.read.insert(name.to_owned(), start + lines.len());
        compare::output(&lines, &expected, output)
    }

    fn scrape(&mut self, scrape: &Value, expect: Option<&Value>) -> Result<(), String> {
        let port = match scrape.get("target").and_then(Value::as_str) {
            Some("self") => self.server.monitoring,
            _ => self.server.metrics,
        };
        let prefixes: Vec<&str> = sequence(scrape, "prefix").filter_map(Value::as_str).collect();
        let expected: Vec<&str> =
            expect.map(|e| sequence(e, "lines").filter_map(Value::as_str).collect()).unwrap_or_default();
        let deadline = self.settling.take().unwrap_or_else(Instant::now);
        loop {
            let answer = http("GET", &format!("http://127.0.0.1:{port}/metrics"), "")?;
            let result = compare::scrape(&answer.body, &prefixes, &expected);
            if result.is_ok() || Instant::now() >= deadline {
                return result;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Records of the server. A foreign server writes its own, so that only the product's are looked for with patience.
    fn logs(&mut self, logs: &Value) -> Result<(), String> {
        let patience = if programs().foreign_server { RELOADED } else { Duration::from_secs(2) };
        for wanted in sequence(logs, "contains").filter_map(Value::as_str) {
            wait_for(patience, || self.server.log().contains(wanted).then_some(()))
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

/// The words and the count of global words that a step asks for.
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
