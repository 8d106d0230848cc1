//! Logging scopes: levels, and permanent or temporary changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::{Markup, html};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::page::Page;
use super::{Console, SharedConsole, back, form, format, json, parameter, plain};
use mixer_base::log::{LogLevel, ScopeState};
use mixer_base::task::Group;

/// compat(1.3): the levels of this interface.
const LEVELS: [&str; 5] = ["none", "error", "warn", "info", "debug"];
/// Durations of temporary changes, in minutes.
const MINUTES: [u64; 4] = [0, 5, 15, 60];

/// compat(1.3): JSON of a scope.
#[derive(Debug, Serialize)]
pub(super) struct Scope {
    name: &'static str,
    description: &'static str,
    output_level: &'static str,
    stack_trace_level: &'static str,
    log_callers: bool,
}

impl From<&ScopeState> for Scope {
    fn from(state: &ScopeState) -> Self {
        Self {
            name: state.name,
            description: state.about,
            output_level: word(state.output_level),
            stack_trace_level: word(state.stack_trace_level),
            log_callers: state.caller,
        }
    }
}

/// compat(1.3): there is no `fatal`.
fn word(level: LogLevel) -> &'static str {
    if level == LogLevel::Fatal { "" } else { level.name() }
}

/// A level; `None` for the empty word, which leaves it as it is. Errors: there is no such level.
fn level(word: &str) -> Result<Option<LogLevel>, String> {
    match word {
        "" => Ok(None),
        _ if LEVELS.contains(&word) => Ok(LogLevel::from_name(word)),
        _ => Err(format!("unknown level: {word}; the levels are {}", LEVELS.join(", "))),
    }
}

/// All scopes.
pub(super) fn list(server: &Console) -> Vec<Scope> {
    server.log.scopes().iter().map(Scope::from).collect()
}

/// One scope.
pub(super) async fn read(State(server): State<SharedConsole>, Path(name): Path<String>) -> Response {
    match server.log.scopes().iter().find(|scope| scope.name == name) {
        Some(scope) => json(&Scope::from(scope)),
        None => unknown(&name),
    }
}

fn unknown(name: &str) -> Response {
    plain(StatusCode::BAD_REQUEST, format!("unknown scope name: {name}"))
}

/// The body of a PUT. Absent fields are unchanged; compat(1.3): an absent `log_callers` means false there, and other fields nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    output_level: String,
    stack_trace_level: String,
    log_callers: Option<bool>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

impl Wanted {
    /// Changes the state of a scope. `as_istio`: what is not known is passed over, as in Istio Mixer. Errors: there is no such level or field.
    fn apply_to(&self, state: &mut ScopeState, as_istio: bool) -> Result<(), String> {
        // What a GET answers can be sent back.
        let unknown = self.others.keys().find(|field| !["name", "description"].contains(&field.as_str()));
        if let Some(field) = unknown.filter(|_| !as_istio) {
            return Err(format!(
                "unknown field: {field}; the fields are output_level, stack_trace_level and log_callers"
            ));
        }
        let level = |word: &str| level(word).or_else(|error| if as_istio { Ok(None) } else { Err(error) });
        let (output, stack_trace) = (level(&self.output_level)?, level(&self.stack_trace_level)?);
        state.output_level = output.unwrap_or(state.output_level);
        state.stack_trace_level = stack_trace.unwrap_or(state.stack_trace_level);
        state.caller = self.log_callers.unwrap_or(state.caller && !as_istio);
        Ok(())
    }
}

/// Changes one scope.
pub(super) async fn change(
    State(server): State<SharedConsole>,
    Path(name): Path<String>,
    body: String,
) -> Response {
    let wanted: Wanted = match serde_json::from_str(&body) {
        Ok(wanted) => wanted,
        Err(error) => return plain(StatusCode::BAD_REQUEST, format!("unable to decode request: {error}")),
    };
    let Some(mut state) = server.log.scopes().into_iter().find(|scope| scope.name == name) else {
        return unknown(&name);
    };
    if let Err(error) = wanted.apply_to(&mut state, server.scopes_as_istio) {
        return plain(StatusCode::BAD_REQUEST, error);
    }
    apply(&server, state, Duration::ZERO);
    StatusCode::ACCEPTED.into_response()
}

/// Pending restorations by scope: time and settings.
#[derive(Default)]
pub(super) struct Temporary(Mutex<BTreeMap<&'static str, (Instant, ScopeState)>>);

/// Changes a scope permanently or for `minutes`.
fn apply(server: &SharedConsole, state: ScopeState, lasting: Duration) {
    let before = server.log.scopes().into_iter().find(|scope| scope.name == state.name);
    let (Some(before), Ok(())) = (before, server.log.set_scope(&state)) else { return };
    tracing::info!(
        scope = state.name,
        output = state.output_level.name(),
        stack_trace = state.stack_trace_level.name(),
        callers = state.caller,
        minutes = lasting.as_secs() / 60,
        "a logging scope was changed over ControlZ"
    );
    let mut temporary = server.temporary.0.lock();
    // Restores the settings before the first of several changes.
    let original = temporary.remove(state.name).map_or(before, |(_, original)| original);
    if lasting.is_zero() {
        return;
    }
    let until = Instant::now() + lasting;
    temporary.insert(state.name, (until, original));
    drop(temporary);
    let server = Arc::downgrade(server);
    Group::new("restoration of log levels").spawn(async move {
        tokio::time::sleep(lasting).await;
        let Some(server) = server.upgrade() else { return };
        let mut temporary = server.temporary.0.lock();
        // A later change replaced this restoration.
        if temporary.get(state.name).is_some_and(|(due, _)| *due == until)
            && let Some((_, original)) = temporary.remove(state.name)
        {
            let _ = server.log.set_scope(&original);
        }
    });
}

/// Changes one or all scopes by form.
pub(super) fn change_by_form(server: &SharedConsole, body: &str) -> Response {
    let name = form::value(body, "scope");
    let levels = ["output_level", "stack_trace_level"].map(|name| level(&form::value(body, name)));
    let [Ok(output), Ok(stack_trace)] = &levels else {
        let wrong = levels.into_iter().find_map(Result::err).unwrap_or_default();
        return plain(StatusCode::BAD_REQUEST, wrong);
    };
    let minutes = form::value(body, "minutes").parse::<u64>().unwrap_or(0).min(24 * 60);
    let callers = form::value(body, "log_callers");
    for mut state in server.log.scopes() {
        if name != "*" && state.name != name {
            continue;
        }
        state.output_level = output.unwrap_or(state.output_level);
        state.stack_trace_level = stack_trace.unwrap_or(state.stack_trace_level);
        // Browsers omit unchecked boxes, so the row sends its previous values as well.
        state.caller = match callers.as_str() {
            "on" => true,
            _ if name == "*" => state.caller,
            _ => false,
        };
        apply(server, state, Duration::from_secs(60 * minutes));
    }
    back("/scopez/")
}

fn menu(name: &str, label: &str, now: &str, read_only: bool) -> Markup {
    html! {
        select name=(name) aria-label=(label) disabled[read_only] data-submit {
            @if !LEVELS.contains(&now) { option value="" selected { "–" } }
            @for level in LEVELS { option value=(level) selected[level == now] { (level) } }
        }
    }
}

/// The form that sets all scopes.
fn plain_menu(read_only: bool) -> Markup {
    html! {
        select name="output_level" aria-label="Output level of all scopes" disabled[read_only] {
            @for level in LEVELS { option value=(level) selected[level == "info"] { (level) } }
        }
    }
}

/// The page.
pub(super) fn page(server: &Console, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let read_only = server.guard.read_only;
    let scopes = server.log.scopes();
    let temporary = server.temporary.0.lock().clone();
    let rows: Vec<&ScopeState> = scopes.iter().filter(|s| format::matches(q, &[s.name, s.about])).collect();
    Page {
        path: "/scopez/",
        title: "Logging Scopes",
        lead: html! { "Log levels by scope. A change takes effect immediately and lasts until the process exits." },
        json: "/scopej/",
        body: html! {
            div.bar {
                (format::filter(q, "scopes"))
                form.inline method="post" action="/scopez/" data-quiet {
                    input type="hidden" name="scope" value="*";
                    label { "All scopes to " (plain_menu(read_only)) }
                    (lasting(read_only))
                    button disabled[read_only] { "Set all" }
                }
            }
            section #scopes data-live {
                div.scroll { table.cards {
                    thead { tr { th { "Scope" } th { "About" } th { "Output" } th { "Stack trace" } th { "Callers" } th { "For" } th {} } }
                    tbody { @for scope in &rows {
                        tr {
                            th scope="row" { (scope.name) }
                            td { (scope.about) }
                            @let id = format!("scope-{}", scope.name);
                            td data-label="Output" { (in_form(&id, menu("output_level", "Output level", word(scope.output_level), read_only))) }
                            td data-label="Stack trace" { (in_form(&id, menu("stack_trace_level", "Stack trace level", word(scope.stack_trace_level), read_only))) }
                            td data-label="Callers" {
                                input type="checkbox" name="log_callers" form=(id) checked[scope.caller] disabled[read_only]
                                    aria-label="Name the place in the source" data-submit;
                            }
                            td data-label="For" {
                                @match temporary.get(scope.name) {
                                    Some((until, original)) => {
                                        @let left = until.saturating_duration_since(Instant::now());
                                        span.pill.warn title=(format::instant(SystemTime::now() + left)) {
                                            "back to " (original.output_level.name()) " in "
                                            (format::long(left))
                                        }
                                    }
                                    None => (in_form(&id, lasting(read_only))),
                                }
                            }
                            td.actions {
                                form #(id) method="post" action="/scopez/" data-quiet {
                                    input type="hidden" name="scope" value=(scope.name);
                                    button disabled[read_only] { "Set" }
                                }
                            }
                        }
                    } }
                } }
                @if rows.is_empty() { (format::nothing("No scope matches.")) }
            }
        },
    }
    .answer(server)
}

/// A control of the form of a row.
fn in_form(id: &str, control: Markup) -> Markup {
    maud::PreEscaped(control.into_string().replacen("<select ", &format!("<select form=\"{id}\" "), 1))
}

fn lasting(read_only: bool) -> Markup {
    html! {
        select name="minutes" aria-label="How long" disabled[read_only] {
            @for minutes in MINUTES {
                option value=(minutes) {
                    @if minutes == 0 { "permanently" } @else { "for " (minutes) " min" }
                }
            }
        }
    }
}
