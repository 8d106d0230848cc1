//! The registry: live tasks, counts by name, and what the server learns from them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::fault::Fault;
use super::{ESSENTIAL_FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Policy, STABLE};

static ROLES: Mutex<BTreeMap<&'static str, Arc<Role>>> = Mutex::new(BTreeMap::new());
static TASKS: Mutex<BTreeMap<u64, Arc<Shared>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
static CHANGES: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));
static FAILED: LazyLock<watch::Sender<Option<String>>> = LazyLock::new(|| watch::Sender::new(None));

/// Why a task is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It ended although nobody asked it to.
    Ended,
    /// It panicked with this message.
    Panicked(String),
    /// Its thread cannot be created, for this reason.
    NotStarted(String),
}

/// Counts of all tasks with one name, past and present. The names are those in the code.
#[derive(Debug, Default)]
pub(super) struct Role {
    pub(super) running: AtomicU64,
    pub(super) panics: AtomicU64,
    ends: AtomicU64,
    restarts: AtomicU64,
}

impl Role {
    pub(super) fn named(name: &'static str) -> Arc<Role> {
        Arc::clone(ROLES.lock().entry(name).or_default())
    }
}

/// The counts of the tasks with one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleStatus {
    /// The name, which is the label of the metrics.
    pub name: &'static str,
    /// How many run.
    pub running: u64,
    /// Panics so far.
    pub panics: u64,
    /// Unexpected ends so far.
    pub ends: u64,
    /// Restarts so far.
    pub restarts: u64,
}

/// Whether a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It failed and waits to be restarted.
    Waiting,
    /// It failed too often; the process ends.
    Failed,
}

impl TaskState {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
            TaskState::Failed => "failed",
        }
    }
}

/// A live task.
#[derive(Debug, Clone)]
pub struct TaskStatus {
    /// Its name.
    pub name: &'static str,
    /// Which of several with this name; may be empty.
    pub detail: String,
    /// What follows a failure.
    pub policy: Policy,
    /// Whether it runs.
    pub state: TaskState,
    /// Failures since it was first started.
    pub failures: u64,
    /// The last failure and its time.
    pub last_failure: Option<(SystemTime, String)>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    detail: String,
    policy: Policy,
    life: Mutex<Life>,
    fault: Arc<Fault>,
}

#[derive(Debug)]
struct Life {
    state: TaskState,
    since: Instant,
    failures: u64,
    /// Failures since the task last ran for [`STABLE`].
    in_a_row: u32,
    last_failure: Option<(SystemTime, String)>,
}

/// The registration of a task, which lasts until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    id: u64,
    shared: Arc<Shared>,
    role: Arc<Role>,
    pub(super) fault: Arc<Fault>,
}

impl Entry {
    pub(super) fn register(name: &'static str, detail: String, policy: Policy) -> Self {
        let role = Role::named(name);
        let life = Life {
            state: TaskState::Waiting,
            since: Instant::now(),
            failures: 0,
            in_a_row: 0,
            last_failure: None,
        };
        let fault = Arc::new(Fault::default());
        let shared =
            Arc::new(Shared { name, detail, policy, life: Mutex::new(life), fault: Arc::clone(&fault) });
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        TASKS.lock().insert(id, Arc::clone(&shared));
        Self { id, shared, role, fault }
    }

    /// The task is started, for the first time or again.
    pub(super) fn started(&self) {
        let mut life = self.shared.life.lock();
        if life.failures > 0 {
            self.role.restarts.fetch_add(1, Ordering::Relaxed);
            tracing::info!(task = self.shared.name, detail = self.shared.detail, "task restarted");
        }
        if life.state != TaskState::Running {
            self.role.running.fetch_add(1, Ordering::Relaxed);
        }
        (life.state, life.since) = (TaskState::Running, Instant::now());
        let was_down = life.failures > 0;
        drop(life);
        if was_down {
            changed();
        }
    }

    /// Records a failure. Returns the pause before the restart; `None`: the task is not restarted and the process ends.
    pub(super) fn failed(&self, failure: Failure) -> Option<Duration> {
        let Shared { name, detail, policy, .. } = &*self.shared;
        let text = match &failure {
            Failure::Ended => "it ended unexpectedly".to_owned(),
            Failure::Panicked(text) => format!("panic: {text}"),
            Failure::NotStarted(text) => format!("cannot be started: {text}"),
        };
        let counted = match &failure {
            Failure::Panicked(_) => &self.role.panics,
            Failure::Ended | Failure::NotStarted(_) => &self.role.ends,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        let mut life = self.shared.life.lock();
        let ran = life.state == TaskState::Running;
        if ran {
            self.role.running.fetch_sub(1, Ordering::Relaxed);
        }
        life.failures += 1;
        let was_stable = ran && life.since.elapsed() >= STABLE;
        life.in_a_row = if was_stable { 1 } else { life.in_a_row.saturating_add(1) };
        life.last_failure = Some((SystemTime::now(), text.clone()));
        let gives_up = *policy == Policy::Essential && life.in_a_row >= ESSENTIAL_FAILURES;
        life.state = if gives_up { TaskState::Failed } else { TaskState::Waiting };
        let pause = pause(life.in_a_row);
        drop(life);
        if gives_up {
            tracing::error!(task = name, detail, "task failed too often, the process ends: {text}");
            let of = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
            FAILED.send_replace(Some(format!("failure of task {name}{of}: {text}")));
        } else {
            tracing::error!(task = name, detail, restart_after = ?pause, "task failed: {text}");
        }
        changed();
        (!gives_up).then_some(pause)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.shared.life.lock().state == TaskState::Running {
            self.role.running.fetch_sub(1, Ordering::Relaxed);
        }
        TASKS.lock().remove(&self.id);
        changed();
    }
}

/// The pause after so many failures in a row.
pub(super) fn pause(in_a_row: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << in_a_row.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

fn changed() {
    CHANGES.send_modify(|number| *number = number.wrapping_add(1));
}

/// Changes when a task fails, is restarted or ends.
pub fn changes() -> watch::Receiver<u64> {
    CHANGES.subscribe()
}

/// The live tasks, by name.
pub fn list() -> Vec<TaskStatus> {
    let tasks: Vec<Arc<Shared>> = TASKS.lock().values().cloned().collect();
    let mut list: Vec<TaskStatus> = tasks.iter().map(|task| task.status()).collect();
    list.sort_by(|a, b| (a.name, &a.detail).cmp(&(b.name, &b.detail)));
    list
}

impl Shared {
    fn status(&self) -> TaskStatus {
        let life = self.life.lock();
        TaskStatus {
            name: self.name,
            detail: self.detail.clone(),
            policy: self.policy,
            state: life.state,
            failures: life.failures,
            last_failure: life.last_failure.clone(),
        }
    }
}

/// The counts by name.
pub fn roles() -> Vec<RoleStatus> {
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let status = |(name, role): (&&'static str, &Arc<Role>)| RoleStatus {
        name,
        running: load(&role.running),
        panics: load(&role.panics),
        ends: load(&role.ends),
        restarts: load(&role.restarts),
    };
    ROLES.lock().iter().map(status).collect()
}

/// The tasks that are down, each with its last failure: those that the server needs to be ready, and the others.
pub fn down() -> (Vec<String>, Vec<String>) {
    let is_down = |task: &TaskStatus| task.state != TaskState::Running && task.failures > 0;
    let text = |task: TaskStatus| {
        let why = task.last_failure.map(|(_, why)| why).unwrap_or_default();
        let of = if task.detail.is_empty() { String::new() } else { format!(" {}", task.detail) };
        format!("{}{of} is down: {why}", task.name)
    };
    let down = list().into_iter().filter(is_down);
    let (needed, others): (Vec<_>, Vec<_>) = down.partition(|task| task.policy != Policy::Restarted);
    (needed.into_iter().map(text).collect(), others.into_iter().map(text).collect())
}

/// Completes with a reason when the process must end because an [essential](Policy::Essential) task failed too often.
pub async fn failure_of_the_process() -> String {
    let mut failed = FAILED.subscribe();
    let failed = failed.wait_for(Option::is_some).await;
    // The sender is never dropped.
    failed.ok().and_then(|reason| reason.clone()).unwrap_or_default()
}

/// Injects a fault into every live task with this name; see [`super::inject_panic`].
pub(super) fn inject(name: &str) -> usize {
    let tasks: Vec<Arc<Shared>> = TASKS.lock().values().filter(|task| task.name == name).cloned().collect();
    tasks.iter().for_each(|task| task.fault.inject());
    tasks.len()
}
