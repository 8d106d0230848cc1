//! Runs of the command line client with one server, in order.

use std::path::Path;

use serde_yaml::Value;

use super::compare;
use super::play::{WRITTEN, copy_all};
use crate::case::{Case, selected};
use crate::support::{DEADLINE, Server, programs, run as run_command, wait_for};

/// Runs `transcript.yaml` in `dir`; a case is one command.
pub(super) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    if !selected("_mixc", filter) && !filter.is_some_and(|filter| filter.starts_with("_mixc/")) {
        return Vec::new();
    }
    match transcript(dir) {
        Ok(cases) => cases,
        Err(error) => vec![Case::new("_mixc", Err(error))],
    }
}

fn transcript(dir: &Path) -> Result<Vec<Case>, String> {
    let text = std::fs::read_to_string(dir.join("transcript.yaml")).map_err(|error| error.to_string())?;
    let transcript: Value = serde_yaml::from_str(&text).map_err(|error| error.to_string())?;
    let root =
        tempfile::Builder::new().prefix("mixer-transcript").tempdir().map_err(|error| error.to_string())?;
    std::fs::create_dir_all(root.path().join("out")).map_err(|error| error.to_string())?;
    copy_all(&dir.join("config"), &root.path().join("config"), root.path())?;
    let server = Server::on(&root.path().join("config")).try_start()?;
    let commands = transcript.get("commands").and_then(Value::as_sequence).cloned().unwrap_or_default();
    let mut cases: Vec<Case> = commands
        .iter()
        .enumerate()
        .map(|(index, command)| Case::new(format!("_mixc/{:02}", index + 1), one(&server, command)))
        .collect();
    for (file, lines) in transcript.get("adapter_output").and_then(Value::as_mapping).into_iter().flatten() {
        let file = file.as_str().unwrap_or_default();
        let path = root.path().join("out").join(file);
        cases.push(Case::new(format!("_mixc/{file}"), written(&path, lines)));
    }
    Ok(cases)
}

/// Compares the complete output file of an adapter.
fn written(path: &Path, lines: &Value) -> Result<(), String> {
    let expected = lines.as_sequence().cloned().unwrap_or_default();
    let mut found = Vec::new();
    wait_for(WRITTEN, || {
        let content = std::fs::read_to_string(path).unwrap_or_default();
        found = content.lines().map(str::to_owned).collect();
        (found.len() >= expected.len()).then_some(())
    });
    compare::output(&found, &expected, &Value::Null)
}

fn one(server: &Server, command: &Value) -> Result<(), String> {
    let argv: Vec<&str> = command
        .get("argv")
        .and_then(Value::as_sequence)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (program, rest) = argv.split_first().ok_or("no command")?;
    let mut arguments: Vec<String> = rest.iter().map(|argument| (*argument).to_owned()).collect();
    if !rest.iter().any(|argument| *argument == "-m" || argument.starts_with("--mixer")) {
        arguments.push(format!("--mixer={}", server.address()));
    }
    let finished = run_command(&programs().path(program), &arguments, &[], None, None, DEADLINE)?;
    let expected = command.get("exit").and_then(Value::as_i64).unwrap_or(0);
    if i64::from(finished.status) != expected {
        return Err(format!("exit {}, want {expected}: {}", finished.status, finished.stderr));
    }
    for (what, found) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
        if let Some(expected) = command.get(what).and_then(Value::as_str) {
            let (found, expected) = (tidy(found), tidy(expected));
            if found != expected {
                return Err(format!("{what}: got {found:?}, want {expected:?}"));
            }
        }
    }
    Ok(())
}

/// Without log records of a client library and trailing blank lines.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !is_record(line)).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Whether a line starts with a time stamp followed by a tab.
pub(crate) fn is_record(line: &str) -> bool {
    let shape = b"0000-00-00T00:00:00.000000Z\t";
    line.len() >= shape.len()
        && line.bytes().zip(shape).all(|(found, shape)| match shape {
            b'0' => found.is_ascii_digit(),
            other => found == *other,
        })
}
