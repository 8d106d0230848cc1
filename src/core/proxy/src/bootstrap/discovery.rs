//! Listeners of a file that may change: where it is, and what it says.

use std::path::PathBuf;
use std::sync::Arc;

use mixer_config::yaml;
use mixer_config::{Diagnostic, NodeKind, Severity};

use super::listener::{self, ListenerConfig};
use super::reader::{Document, Fields, Message, Value};
use super::{KnownClusters, check_listener, json, report_note, secrets};

static DYNAMIC: Message = Message {
    name: "DynamicResources",
    unsupported: &["cds_config", "ads_config", "lds_resources_locator", "cds_resources_locator"],
};
static SOURCE: Message = Message {
    name: "ConfigSource",
    unsupported: &["authorities", "path", "api_config_source", "ads", "self", "initial_fetch_timeout"],
};
static PATH: Message = Message { name: "PathConfigSource", unsupported: &["watched_directory"] };
static RESPONSE: Message = Message {
    name: "DiscoveryResponse",
    unsupported: &["canary", "nonce", "control_plane", "resource_errors"],
};

/// Problems of a resource that are shown.
const MAX_SHOWN: usize = 5;
/// The type of the resources.
const LISTENER: &str = "envoy.config.listener.v3.Listener";

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct ListenerUpdate {
    /// `version_info`, without keys.
    pub version: String,
    /// `version_info` as it was written.
    pub written_version: String,
    /// Listeners, in order.
    pub listeners: Vec<ListenerResource>,
}

/// A listener of a file.
#[derive(Debug, Clone)]
pub struct ListenerResource {
    /// Its name; empty if it has none: then it is another listener in each update.
    pub name: String,
    /// As it was written, without keys and passwords: for dumps, and not to be compared.
    pub document: serde_json::Value,
    /// What it says, or why it cannot be used: with the file, positions and paths.
    pub config: Result<ListenerConfig, String>,
}

/// The file that `dynamic_resources` name for listeners.
pub(super) fn read(root: &Fields<'_>) -> Option<PathBuf> {
    let dynamic = root.message("dynamic_resources", &DYNAMIC)?;
    let source = dynamic.message("lds_config", &SOURCE);
    dynamic.finish();
    let source = source?;
    let versions = [("AUTO", 0), ("V3", 2)];
    if let Some(version) = source.get("resource_api_version") {
        let _ = version.choice(&versions);
    }
    let path = source.message("path_config_source", &PATH);
    if path.is_none() {
        source
            .required("ConfigSourceValidationError: field: \"config_source_specifier\", reason: is required");
    }
    source.finish();
    let path = path?;
    let found = match path.get("path") {
        Some(value) => value.nonempty("PathConfigSource", "Path").map(PathBuf::from),
        None => {
            path.required("PathConfigSourceValidationError.Path: value length must be at least 1 characters");
            None
        }
    };
    path.finish();
    found
}

/// Reads a file of listeners, which may name these clusters.
///
/// Errors: it is no such file. A listener that is not valid is part of the result.
pub fn read_listeners(text: &str, file: &str, clusters: &KnownClusters) -> Result<ListenerUpdate, String> {
    let parsed = yaml::parse(text).map_err(|error| match error.location {
        Some(at) => format!("{file}:{}:{}: {}", at.line, at.column, error.cause()),
        None => format!("{file}: {}", error.cause()),
    })?;
    let document = Document::new(text);
    parsed.notes.iter().for_each(|note| report_note(&document, note));
    document.report_keys(&parsed.root);
    let root = Value::root(&document, &parsed.root);
    if !matches!(parsed.root.kind, NodeKind::Mapping(_)) {
        return Err(format!("{file}: expected `version_info` and `resources`"));
    }
    let mut update = ListenerUpdate::default();
    if let Some(response) = root.message(&RESPONSE) {
        response.text("version_info").unwrap_or_default().clone_into(&mut update.written_version);
        update.version = secrets::clean(&update.written_version).into_owned();
        if let Some(url) = response.text("type_url")
            && url.rsplit('/').next() != Some(LISTENER)
        {
            response.required(format!("type_url is `{url}`; expected `type.googleapis.com/{LISTENER}`"));
        }
        if parsed.root.get("resources").is_none() && !text.trim_start().starts_with('{') {
            // A file of YAML that was cut must not remove every listener; one of JSON that was cut is none.
            response.required("there is no field `resources`; `resources: []` removes all listeners");
        }
        let resources = response.items("resources");
        response.finish();
        let problems = document.take_problems();
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(shown(&problems, file));
        }
        update.listeners = resources.iter().map(|value| read_resource(value, file, clusters)).collect();
    }
    Ok(update)
}

fn read_resource(value: &Value<'_>, file: &str, clusters: &KnownClusters) -> ListenerResource {
    let text = |field: &str| value.node.get(field).and_then(|node| node.as_str());
    let name = text("name").unwrap_or_default().to_owned();
    let url = text("@type").unwrap_or_default();
    let config = if url.rsplit('/').next() == Some(LISTENER) {
        listener::read(value)
    } else {
        value.invalid(format!("`@type` is `{url}`; expected `type.googleapis.com/{LISTENER}`"));
        None
    };
    if let Some(config) = &config {
        check_listener(value, config, clusters);
    }
    let problems = value.document.take_problems();
    let is_valid = problems.iter().all(|problem| problem.severity != Severity::Error);
    for problem in problems.iter().filter(|problem| problem.severity != Severity::Error) {
        tracing::warn!("{}", shown(std::slice::from_ref(problem), file));
    }
    let config = match config {
        Some(config) if is_valid => Ok(config),
        // Nothing that was not understood is left out silently.
        _ if is_valid => Err("something that is required has no value".to_owned()),
        _ => Err(shown(&problems, file)),
    };
    ListenerResource { name, document: json(value.node), config }
}

/// Problems on one line.
fn shown(problems: &[Diagnostic], file: &str) -> String {
    let file: Arc<str> = file.into();
    let one = |problem: &Diagnostic| {
        let place = problem
            .span
            .map_or_else(String::new, |span| format!(":{}:{}", span.start.line, span.start.column));
        format!("{file}{place}: {}: {}", problem.field, problem.one_line())
    };
    let mut sorted: Vec<&Diagnostic> = problems.iter().collect();
    sorted.sort_by_key(|problem| problem.span.map(|span| span.start));
    let mut lines: Vec<String> = sorted.iter().take(MAX_SHOWN).map(|problem| one(problem)).collect();
    if let Some(more) = problems.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.join("; ")
}
