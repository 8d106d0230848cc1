//! Worker threads: one operating-system thread and one single-threaded event loop each.
//!
//! Accepted connections are given to the worker that has the fewest, exactly: callers are few and long-lived, so a hash would leave
//! workers idle. A request runs to completion on the worker of its connection.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{self, RequestBody};
use super::listener::{Accepted, Peer};
use crate::core::api::ApiBody;

/// Connections that may wait for one worker to take them.
const HAND_OVER_QUEUE: usize = 256;

/// Answers the calls of one worker. Made on its thread, so it need be neither `Send` nor `Sync`.
pub trait WorkerService: 'static {
    /// Answers one call.
    fn call(
        self: Rc<Self>,
        request: Request<RequestBody>,
        peer: Rc<Peer>,
    ) -> impl Future<Output = Response<ApiBody>> + 'static;
}

/// Limits of one connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Calls in flight.
    pub max_concurrent_streams: u32,
    /// A connection that does not answer a ping for this long is dropped.
    pub keep_alive_timeout: Duration,
}

/// A group of worker threads.
pub struct WorkerGroup {
    workers: Vec<Worker>,
    stop: CancellationToken,
    abort: CancellationToken,
}

struct Worker {
    connections: Arc<AtomicUsize>,
    hand_over: mpsc::Sender<Accepted>,
    thread: std::thread::JoinHandle<()>,
}

impl WorkerGroup {
    /// Starts `count` workers, each with a service of its own.
    ///
    /// Errors: a thread or event loop could not be made; workers begun are ended again.
    pub fn start<S, F>(count: usize, limits: ConnectionLimits, service: F) -> std::io::Result<Self>
    where
        S: WorkerService,
        F: Fn(usize) -> S + Send + Sync + Clone + 'static,
    {
        let stop = CancellationToken::new();
        let abort = CancellationToken::new();
        let mut workers = Vec::new();
        for number in 0..count.max(1) {
            let (hand_over, incoming) = mpsc::channel(HAND_OVER_QUEUE);
            let connections = Arc::new(AtomicUsize::new(0));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (service, stop, abort) = (service.clone(), stop.clone(), abort.clone());
            let counter = Arc::clone(&connections);
            let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                crate::core::telemetry::shard::claim(number);
                let local = tokio::task::LocalSet::new();
                local.block_on(
                    &runtime,
                    serve(incoming, Rc::new(service(number)), limits, counter, stop, abort),
                );
            })?;
            workers.push(Worker { connections, hand_over, thread });
        }
        Ok(Self { workers, stop, abort })
    }

    /// Gives a connection to the worker with the fewest. Waits while the worker is too busy to take it.
    pub async fn serve(&self, connection: Accepted) {
        let least = self.workers.iter().min_by_key(|w| w.connections.load(Ordering::Relaxed));
        if let Some(worker) = least {
            worker.connections.fetch_add(1, Ordering::Relaxed);
            if worker.hand_over.send(connection).await.is_err() {
                worker.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Connections of each worker.
    pub fn connections(&self) -> Vec<usize> {
        self.workers.iter().map(|w| w.connections.load(Ordering::Relaxed)).collect()
    }

    /// Tells callers to go elsewhere and waits until their calls are answered, at most for `patience`; then drops what is left.
    /// Returns whether everything ended by itself.
    pub async fn stop(self, patience: Duration) -> bool {
        self.stop.cancel();
        let threads: Vec<_> = self
            .workers
            .into_iter()
            .map(|worker| {
                drop(worker.hand_over);
                tokio::task::spawn_blocking(move || worker.thread.join().is_ok())
            })
            .collect();
        let mut joined = std::pin::pin!(futures_util::future::join_all(threads));
        let in_time = tokio::time::timeout(patience, &mut joined).await.is_ok();
        if !in_time {
            self.abort.cancel();
            joined.await;
        }
        in_time
    }
}

/// The life of a worker.
async fn serve<S: WorkerService>(
    mut incoming: mpsc::Receiver<Accepted>,
    service: Rc<S>,
    limits: ConnectionLimits,
    connections: Arc<AtomicUsize>,
    stop: CancellationToken,
    abort: CancellationToken,
) {
    let running = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = incoming.recv() => accepted,
            () = stop.cancelled() => None,
        };
        let Some(accepted) = accepted else { break };
        let service = Rc::clone(&service);
        let connections = Arc::clone(&connections);
        let stop = stop.clone();
        tokio::task::spawn_local(running.track_future(async move {
            connection::serve(accepted, service, limits, stop).await;
            connections.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    running.close();
    tokio::select! {
        () = running.wait() => {}
        () = abort.cancelled() => {}
    }
}
