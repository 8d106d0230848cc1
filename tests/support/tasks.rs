//! Long-lived tasks of a process: what a page says that follows a failure, what ControlZ shows, and injected panics.

use std::collections::BTreeMap;

use super::{DEADLINE, http, wait_for};

/// The rows of the table of tasks of a page: name and what follows a failure.
pub(crate) fn documented(page: &str) -> BTreeMap<String, String> {
    let table = page.split("\n## Tasks\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = table.expect("the page has a section on tasks").lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1].to_owned())
    })
    .collect()
}

/// A live task as ControlZ shows it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) state: String,
}

/// The tasks of a process with `MIXER_FAULTS=1` in its environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tasks {
    /// The port of ControlZ.
    pub(crate) ctrlz: u16,
    /// The port of the metrics of the process.
    pub(crate) monitoring: u16,
}

impl Tasks {
    fn document(self) -> Option<serde_json::Value> {
        let answer = http("GET", &format!("http://127.0.0.1:{}/taskj/", self.ctrlz), "").ok()?;
        serde_json::from_str(&answer.body).ok()
    }

    /// Those that live.
    pub(crate) fn list(self) -> Vec<Shown> {
        let document = wait_for(DEADLINE, || self.document()).expect("ControlZ answers");
        let text =
            |task: &serde_json::Value, field: &str| task[field].as_str().unwrap_or_default().to_owned();
        let shown = |task| Shown {
            name: text(task, "name"),
            policy: text(task, "policy"),
            state: text(task, "state"),
        };
        document["tasks"].as_array().expect("a list").iter().map(shown).collect()
    }

    /// What follows a failure of each, once they are these: some are started in the background.
    pub(crate) fn policies(self, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        let _all = wait_for(DEADLINE, || {
            shown = self.list().into_iter().map(|task| (task.name, task.policy)).collect();
            (shown == *wanted).then_some(())
        });
        shown
    }

    /// How often a task has panicked.
    pub(crate) fn panics(self, task: &str) -> f64 {
        let page = http("GET", &format!("http://127.0.0.1:{}/metrics", self.monitoring), "");
        let body = page.map(|answer| answer.body).unwrap_or_default();
        let sample = format!("mixer_tasks_failures_total{{reason=\"panic\",task=\"{task}\"}} ");
        body.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok()).unwrap_or_default()
    }

    /// Injects a panic into every task with this name.
    #[track_caller]
    pub(crate) fn inject(self, task: &str) {
        let form = format!("task={}", task.replace(' ', "+"));
        let url = format!("http://127.0.0.1:{}/taskz/panic", self.ctrlz);
        let asked = wait_for(DEADLINE, || http("POST", &url, &form).ok());
        assert_eq!(asked.map(|answer| answer.status), Some(303), "{task}");
    }

    /// Makes a task panic, and waits until it is counted; `wake` is called over and over, for those that look for faults when they have
    /// work. Whether it is counted.
    #[track_caller]
    pub(crate) fn fail(self, task: &str, mut wake: impl FnMut()) -> bool {
        let before = self.panics(task);
        self.inject(task);
        let counted = wait_for(DEADLINE, || {
            wake();
            (self.panics(task) > before).then_some(())
        });
        counted.is_some()
    }

    /// Waits until every task with this name runs. Whether it does.
    pub(crate) fn run_again(self, task: &str) -> bool {
        let running = wait_for(DEADLINE, || {
            let tasks = self.list();
            let mut of = tasks.iter().filter(|shown| shown.name == task).peekable();
            (of.peek().is_some() && of.all(|shown| shown.state == "running")).then_some(())
        });
        running.is_some()
    }
}
