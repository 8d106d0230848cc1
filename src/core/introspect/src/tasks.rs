//! Threads and tasks of the process: what runs, what failed, what was restarted.

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Console, back, form, format, plot};
use mixer_base::load::{self, Progress};
use mixer_base::task::{self, Policy, TaskState, TaskStatus};
use mixer_base::time::Timestamp;

/// JSON of a live task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskInfo {
    name: &'static str,
    detail: String,
    /// `running`, `waiting` to be restarted, or `failed`.
    state: &'static str,
    /// `restarted`, `serving` or `essential`.
    policy: &'static str,
    failures: u64,
    last_failure: Option<String>,
    last_failure_time: Option<String>,
}

/// JSON of the tasks with one name, past and present.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleInfo {
    name: &'static str,
    running: u64,
    panics: u64,
    unexpected_ends: u64,
    restarts: u64,
}

/// All tasks.
#[derive(Debug, Serialize)]
pub(super) struct Tasks {
    tasks: Vec<TaskInfo>,
    totals: Vec<RoleInfo>,
    /// Loads that take longer than a second.
    loads: Vec<serde_json::Value>,
}

impl From<TaskStatus> for TaskInfo {
    fn from(status: TaskStatus) -> Self {
        let policy = match status.policy {
            Policy::Restarted => "restarted",
            Policy::Serving => "serving",
            Policy::Essential => "essential",
        };
        let (time, text) = status.last_failure.unzip();
        Self {
            name: status.name,
            detail: status.detail,
            state: status.state.name(),
            policy,
            failures: status.failures,
            last_failure: text,
            last_failure_time: time
                .map(|time| Timestamp::from_system_time(time).rfc3339_micros().to_string()),
        }
    }
}

/// The live tasks and the counts by name.
pub(super) fn json() -> Tasks {
    let tasks = task::list().into_iter().map(TaskInfo::from).collect();
    let role = |role: task::RoleStatus| RoleInfo {
        name: role.name,
        running: role.running,
        panics: role.panics,
        unexpected_ends: role.ends,
        restarts: role.restarts,
    };
    Tasks {
        tasks,
        totals: task::roles().into_iter().map(role).collect(),
        loads: load::list().iter().map(Progress::to_json).collect(),
    }
}

/// The page.
pub(super) fn page(server: &Console) -> Response {
    let Tasks { tasks, totals, .. } = json();
    Page {
        path: "/taskz/",
        title: "Tasks",
        lead: html! { "Threads and tasks that outlive a call. One that fails is restarted; the log has the cause." },
        json: "/taskj/",
        body: html! {
            section #tasks data-live {
                @for load in load::list() { (loading(&load)) }
                div.scroll { table.cards {
                    thead { tr { th { "Task" } th { "Of" } th { "State" } th { "After a failure" } th.number { "Failures" } th { "Last failure" } } }
                    tbody { @for task in &tasks { (row(task)) } }
                } }
                h2 { "Since the start" }
                div.scroll { table.cards {
                    thead { tr { th { "Task" } th.number { "Running" } th.number { "Panics" } th.number { "Unexpected ends" } th.number { "Restarts" } } }
                    tbody { @for role in &totals { tr {
                        th scope="row" { (role.name) }
                        td.number data-label="Running" { (format::count(role.running)) }
                        td.number data-label="Panics" { span.bad[role.panics > 0] { (format::count(role.panics)) } }
                        td.number data-label="Unexpected ends" { span.bad[role.unexpected_ends > 0] { (format::count(role.unexpected_ends)) } }
                        td.number data-label="Restarts" { (format::count(role.restarts)) }
                    } } }
                } }
            }
        },
    }
    .answer(server)
}

/// How far a load is.
pub(super) fn loading(load: &Progress) -> Markup {
    let share = load.documents as f64 / load.of_documents.max(1) as f64;
    html! { p.notice { "Loading " (load) ", for " (load.seconds) " s " (plot::bar(share)) } }
}

fn row(task: &TaskInfo) -> Markup {
    let after = match task.policy {
        "serving" => "restarted; the server is not ready meanwhile",
        "essential" => "restarted; the process ends if it keeps failing",
        _ => "restarted",
    };
    let is_down = task.state != TaskState::Running.name();
    html! {
        tr {
            th scope="row" { (task.name) }
            td data-label="Of" { (task.detail) }
            td data-label="State" { span.bad[is_down] { (task.state) } }
            td.dim data-label="After a failure" { (after) }
            td.number data-label="Failures" { (format::count(task.failures)) }
            td data-label="Last failure" { @if let Some(time) = &task.last_failure_time { span.dim { (time) " " } } (task.last_failure.as_deref().unwrap_or("–")) }
        }
    }
}

/// `POST /taskz/panic`: makes the tasks with a name panic, for tests of the supervision. Debug builds with `MIXER_FAULTS=1` only.
pub(super) fn panic_by_form(server: &Console, body: &str) -> Response {
    if !task::is_injection_enabled() {
        return super::page::not_found(server);
    }
    match task::inject_panic(&form::value(body, "task")) {
        0 => StatusCode::NOT_FOUND.into_response(),
        _ => back("/taskz/"),
    }
}
