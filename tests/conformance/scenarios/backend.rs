//! The adapter out of process of a scenario.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use serde_yaml::Value;

use crate::support::cloud::Cloud;
use crate::support::put;

/// A running adapter, which answers by a script.
pub(super) struct Backend {
    adapter: Cloud,
    scripts: tempfile::TempDir,
    /// Number of calls that were compared already.
    seen: usize,
}

impl Backend {
    /// Starts the adapter of a scenario, and lets the configuration name its address.
    pub(super) fn start(backend: &Value, config: &Path) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let scripts = tempfile::tempdir().map_err(text)?;
        let script = script_of(scripts.path());
        put(&script, &methods(backend)?);
        let (script, files) = (script.display().to_string(), config.display().to_string());
        let adapter = Cloud::start("process", &[&script, &files, "plain"])?;
        let recorded = backend.get("address").and_then(Value::as_str).ok_or("the backend has no address")?;
        let address = format!("127.0.0.1:{}", adapter.port);
        for entry in std::fs::read_dir(config).map_err(text)? {
            let path = entry.map_err(text)?.path();
            let content = std::fs::read_to_string(&path).map_err(text)?;
            if content.contains(recorded) {
                std::fs::write(&path, content.replace(recorded, &address)).map_err(text)?;
            }
        }
        Ok(Self { adapter, scripts, seen: 0 })
    }

    /// Replaces the answers.
    pub(super) fn script(&self, backend: &Value) -> Result<(), String> {
        put(&script_of(self.scripts.path()), &methods(backend)?);
        Ok(())
    }

    /// Compares the calls since the last time, in any order.
    pub(super) fn calls(&mut self, expect: Option<&Value>) -> Result<(), String> {
        let expected: Vec<Json> = match expect.and_then(|expect| expect.get("calls")) {
            Some(calls) => serde_json::to_value(calls)
                .map_err(|error| error.to_string())?
                .as_array()
                .cloned()
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let all = self.adapter.taken(self.seen + expected.len())?;
        let mut found: Vec<Json> = all.iter().skip(self.seen).map(shown).collect();
        self.seen = all.len();
        for wanted in &expected {
            let at = found.iter().position(|call| call == wanted);
            let at = at.ok_or_else(|| format!("{wanted} is not among {found:?}"))?;
            found.remove(at);
        }
        if found.is_empty() { Ok(()) } else { Err(format!("not expected: {found:?}")) }
    }
}

fn script_of(directory: &Path) -> PathBuf {
    directory.join("script.json")
}

/// The script of the methods of a backend.
fn methods(backend: &Value) -> Result<String, String> {
    let methods: Map<String, Json> = match backend.get("methods") {
        Some(methods) => serde_json::from_value(serde_json::to_value(methods).map_err(|e| e.to_string())?)
            .map_err(|error| error.to_string())?,
        None => Map::new(),
    };
    Ok(Json::Object(methods).to_string())
}

/// A call as scenarios show it.
fn shown(call: &Json) -> Json {
    let mut request = call["request"].clone();
    if let Some(id) = request.get_mut("dedup_id") {
        *id = json!("<masked>");
    }
    json!({ "method": call["method"], "request": request })
}
