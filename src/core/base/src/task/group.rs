//! Short-lived tasks of one kind: connections, and work that ends by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::entry::Role;
use super::poll_contained;

/// Tasks that end by themselves. A panic ends its task only; it is logged and counted under the name of the group.
#[derive(Debug, Clone)]
pub struct Group {
    name: &'static str,
    role: Arc<Role>,
}

impl Group {
    /// The group with this name, which is the label of its metrics.
    pub fn new(name: &'static str) -> Self {
        Self { name, role: Role::named(name) }
    }

    /// Starts a task on the current runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&Handle::current(), future)
    }

    /// Starts a task on `runtime`.
    pub fn spawn_on<F>(&self, runtime: &Handle, future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        runtime.spawn(self.clone().run(future))
    }

    /// Starts a task on the `LocalSet` of the current thread.
    pub fn spawn_local(&self, future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        tokio::task::spawn_local(self.clone().run(future))
    }

    /// Logs and counts a panic that the caller contained.
    pub fn count_panic(&self, text: &str) {
        self.role.panics.fetch_add(1, Ordering::Relaxed);
        static LIMIT: crate::rate_limit::RateLimit = crate::rate_limit::RateLimit::new(10);
        if let Some(suppressed) = LIMIT.admit() {
            tracing::error!(
                task = self.name,
                suppressed,
                "{} failed, others are not affected: panic: {text}",
                self.name
            );
        }
    }

    async fn run(self, future: impl Future<Output = ()>) {
        let _running = Running::of(Arc::clone(&self.role));
        let mut future = std::pin::pin!(future);
        if let Err(text) = std::future::poll_fn(|cx| poll_contained(future.as_mut(), cx)).await {
            self.count_panic(&text);
        }
    }
}

/// Counts a task as running until it is dropped.
struct Running(Arc<Role>);

impl Running {
    fn of(role: Arc<Role>) -> Self {
        role.running.fetch_add(1, Ordering::Relaxed);
        Self(role)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
