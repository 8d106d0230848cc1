//! The `cli` suite: command lines and their output, through the binary; its README.md states the schema.

#[path = "cli/compare.rs"]
mod compare;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_yaml::Value;
use tempfile::TempDir;

use crate::case::{Case, in_parallel, jobs, selected};
use crate::support::{DEADLINE, Server, free_port, http, programs, run as run_command};

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut work = Vec::new();
    for path in files(dir) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        match read(&path) {
            Ok(document) => {
                for case in document.get("cases").and_then(Value::as_sequence).into_iter().flatten() {
                    let id = case.get("id").and_then(Value::as_str).unwrap_or("?").to_owned();
                    if selected(&id, filter) || filter == Some(name.as_str()) {
                        work.push((id, case.clone()));
                    }
                }
            }
            Err(error) => cases.push(Case::new(name, Err(error))),
        }
    }
    cases.extend(in_parallel(jobs(), work, |(id, case)| Case::new(id, play(dir, &case))));
    cases
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut value: Value = serde_yaml::from_str(&text).map_err(|error| error.to_string())?;
    value.apply_merge().map_err(|error| error.to_string())?;
    Ok(value)
}

fn sequence<'a>(node: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    node.get(key).and_then(Value::as_sequence).into_iter().flatten()
}

/// The environment of a case.
struct Stage {
    directory: TempDir,
    places: BTreeMap<String, String>,
    _server: Option<Server>,
}

impl Stage {
    fn set(dir: &Path, case: &Value) -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("mixer-cli").tempdir().map_err(|e| e.to_string())?;
        let mut places = BTreeMap::new();
        let mut place = |name: &str, value: String| places.insert(format!("${{{name}}}"), value);
        place("DIR", directory.path().display().to_string());
        place("DEAD", format!("127.0.0.1:{}", free_port()));
        for name in ["FREE1", "FREE2", "FREE3"] {
            place(name, free_port().to_string());
        }
        let server = case.get("server");
        let scenario = server.and_then(|server| server.get("scenario")).or_else(|| case.get("scenario"));
        let scenario = scenario.and_then(Value::as_str).map(|name| dir.join(name));
        let scenario = scenario.map(|path| path.canonicalize().unwrap_or(path));
        if let Some(path) = &scenario {
            place("SCENARIO", path.display().to_string());
        }
        let mut stage = Self { directory, places, _server: None };
        if let Some(server) = server {
            let path = scenario.ok_or("a server without a scenario")?;
            let flags: Vec<String> =
                sequence(server, "flags").filter_map(Value::as_str).map(|f| stage.fill(f)).collect();
            let server = Server::on(&path).with(&flags).in_directory(stage.directory.path()).try_start()?;
            let port = |port: u16| format!("127.0.0.1:{port}");
            stage.places.insert("${API}".to_owned(), server.address());
            stage.places.insert("${MON}".to_owned(), port(server.ports.monitoring));
            stage.places.insert("${MONPORT}".to_owned(), server.ports.monitoring.to_string());
            stage.places.insert("${CTRLZ}".to_owned(), port(server.ports.ctrlz));
            stage._server = Some(server);
        }
        Ok(stage)
    }

    fn fill(&self, text: &str) -> String {
        self.places.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Substitutes placeholders in every string of a document.
    fn fill_all(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Sequence(items) => Value::Sequence(items.iter().map(|item| self.fill_all(item)).collect()),
            Value::Mapping(map) => {
                Value::Mapping(map.iter().map(|(key, value)| (key.clone(), self.fill_all(value))).collect())
            }
            other => other.clone(),
        }
    }
}

fn play(dir: &Path, case: &Value) -> Result<(), String> {
    let stage = Stage::set(dir, case)?;
    let follow = case.get("follow").and_then(Value::as_str);
    for (index, step) in sequence(case, "steps").enumerate() {
        one(&stage, &stage.fill_all(step), follow).map_err(|error| format!("step {}: {error}", index + 1))?;
    }
    Ok(())
}

fn one(stage: &Stage, step: &Value, follow: Option<&str>) -> Result<(), String> {
    for file in sequence(step, "files") {
        put(file)?;
    }
    if let Some(seconds) = step.get("sleep").and_then(Value::as_f64) {
        // The step itself: a case lets time pass.
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
    if let Some(request) = step.get("http") {
        let part = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
        let method = if part("method").is_empty() { "GET" } else { part("method") };
        let answer = http(method, part("url"), part("body"))?;
        return compare::answer(&answer, step, follow);
    }
    let argv: Vec<String> = sequence(step, "argv").filter_map(Value::as_str).map(str::to_owned).collect();
    let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
    let environment = step.get("env").and_then(Value::as_mapping).into_iter().flatten();
    let environment: Vec<(String, String)> = environment
        .filter_map(|(name, value)| Some((name.as_str()?.to_owned(), value.as_str()?.to_owned())))
        .collect();
    let directory = Some(stage.directory.path());
    let finished =
        run_command(&programs().path(program), arguments, &environment, directory, None, DEADLINE)?;
    compare::finished(finished, step, follow)
}

/// Creates a file, sets its age, or removes it.
fn put(file: &Value) -> Result<(), String> {
    let path = PathBuf::from(file.get("path").and_then(Value::as_str).ok_or("a file without a path")?);
    if file.get("absent").and_then(Value::as_bool) == Some(true) {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        };
    }
    let text = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(text)?;
    }
    fs::write(&path, file.get("content").and_then(Value::as_str).unwrap_or_default()).map_err(text)?;
    let time = if let Some(age) = file.get("age_seconds").and_then(Value::as_f64) {
        if age >= 0.0 {
            SystemTime::now() - Duration::from_secs_f64(age)
        } else {
            SystemTime::now() + Duration::from_secs_f64(-age)
        }
    } else if let Some(time) = file.get("mtime").and_then(Value::as_str) {
        let time = time.replace(' ', "T");
        let time = if time.ends_with('Z') { time } else { format!("{time}Z") };
        humantime::parse_rfc3339(&time).map_err(|error| format!("{time}: {error}"))?
    } else {
        return Ok(());
    };
    fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(time)).map_err(text)
}
