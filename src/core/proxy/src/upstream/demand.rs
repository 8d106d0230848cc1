//! Requests that wait for connections to hosts, and the attempts at such connections.
//!
//! An attempt does not belong to the request that caused it: it goes on when that has left, within the time limit of the cluster, and what it
//! gives is for whoever waits then, or for the next request. Otherwise there would never be a connection to a host whose handshake takes
//! longer than clients wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{ConnectError, Pool};
use crate::cluster::Host;

/// What a request is told that waits.
type Answer<T> = Result<T, ConnectError>;

/// Those who wait for connections of a cluster on one worker, and the attempts at connections, by host. As many entries as requests wait and
/// attempts are running.
#[derive(Debug)]
pub(super) struct Demands<T> {
    by_host: RefCell<Vec<Demand<T>>>,
    next: Cell<u64>,
    /// Whether a connection serves many requests: then there is one attempt at a time, and its failure is that of all who wait.
    is_shared: bool,
}

#[derive(Debug)]
struct Demand<T> {
    host: Arc<Host>,
    /// In the order in which they came, which is that of their numbers.
    waiting: VecDeque<(u64, oneshot::Sender<Answer<T>>)>,
    attempts: usize,
}

impl<T> Demands<T> {
    pub(super) fn new(is_shared: bool) -> Rc<Self> {
        Rc::new(Self { by_host: RefCell::default(), next: Cell::new(0), is_shared })
    }

    fn join(&self, host: &Arc<Host>) -> (u64, oneshot::Receiver<Answer<T>>) {
        let (answer, receiver) = oneshot::channel();
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let mut by_host = self.by_host.borrow_mut();
        match by_host.iter_mut().find(|demand| Arc::ptr_eq(&demand.host, host)) {
            Some(demand) => demand.waiting.push_back((number, answer)),
            None => {
                let waiting = VecDeque::from([(number, answer)]);
                by_host.push(Demand { host: Arc::clone(host), waiting, attempts: 0 });
            }
        }
        (number, receiver)
    }

    fn leave(&self, host: &Arc<Host>, number: u64) {
        self.with(host, |demand| {
            if let Ok(place) = demand.waiting.binary_search_by_key(&number, |(number, _)| *number) {
                drop(demand.waiting.remove(place));
            }
        });
    }

    /// Changes what is known of a host, if anything is.
    fn with<R>(&self, host: &Arc<Host>, change: impl FnOnce(&mut Demand<T>) -> R) -> Option<R> {
        let mut by_host = self.by_host.borrow_mut();
        let place = by_host.iter().position(|demand| Arc::ptr_eq(&demand.host, host))?;
        let demand = by_host.get_mut(place)?;
        let result = change(demand);
        if demand.waiting.is_empty() && demand.attempts == 0 {
            by_host.swap_remove(place);
        }
        Some(result)
    }

    /// Whether anybody waits for a host.
    pub(super) fn is_wanted(&self, host: &Arc<Host>) -> bool {
        let by_host = self.by_host.borrow();
        by_host.iter().any(|demand| !demand.waiting.is_empty() && Arc::ptr_eq(&demand.host, host))
    }

    /// The hosts that somebody waits for.
    pub(super) fn wanted(&self) -> Vec<Arc<Host>> {
        let by_host = self.by_host.borrow();
        let wanted = by_host.iter().filter(|demand| !demand.waiting.is_empty());
        wanted.map(|demand| Arc::clone(&demand.host)).collect()
    }

    /// Whether those who wait for a host need one more attempt.
    pub(super) fn needs_attempt(&self, host: &Arc<Host>) -> bool {
        let by_host = self.by_host.borrow();
        let demand = by_host.iter().find(|demand| Arc::ptr_eq(&demand.host, host));
        demand.is_some_and(|demand| match self.is_shared {
            true => demand.attempts == 0 && !demand.waiting.is_empty(),
            false => demand.attempts < demand.waiting.len(),
        })
    }

    /// Begins an attempt.
    pub(super) fn begin(self: &Rc<Self>, host: &Arc<Host>) -> Attempt<T> {
        self.with(host, |demand| demand.attempts += 1);
        Attempt {
            demands: Rc::clone(self),
            host: Arc::clone(host),
            // Also if it ends by a panic.
            failure: Some(ConnectError::Failed),
        }
    }

    /// Hands something to the first who waits. Returns it if nobody does.
    pub(super) fn hand(&self, host: &Arc<Host>, mut value: T) -> Option<T> {
        while let Some((_, answer)) = self.with(host, |demand| demand.waiting.pop_front()).flatten() {
            match answer.send(Ok(value)) {
                Err(Ok(back)) => value = back,
                Ok(()) | Err(Err(_)) => return None,
            }
        }
        Some(value)
    }
}

/// A connection attempt. Dropped, it has failed.
#[derive(Debug)]
pub(super) struct Attempt<T> {
    demands: Rc<Demands<T>>,
    host: Arc<Host>,
    failure: Option<ConnectError>,
}

impl<T> Attempt<T> {
    /// It was successful; what it gave is to be handed on.
    pub(super) fn succeed(mut self) {
        self.failure = None;
    }

    /// It has failed: who waits for it is told.
    pub(super) fn fail(mut self, error: ConnectError) {
        self.failure = Some(error);
    }
}

impl<T> Drop for Attempt<T> {
    fn drop(&mut self) {
        let (failure, is_shared) = (self.failure, self.demands.is_shared);
        let failed = self.demands.with(&self.host, |demand| {
            demand.attempts = demand.attempts.saturating_sub(1);
            let count = match (failure, is_shared) {
                (None, _) => 0,
                (Some(_), true) => demand.waiting.len(),
                (Some(_), false) => demand.waiting.len().min(1),
            };
            demand.waiting.drain(..count).collect::<Vec<_>>()
        });
        for (_, answer) in failed.into_iter().flatten() {
            // Who has left needs no answer.
            let _ = answer.send(Err(failure.unwrap_or(ConnectError::Failed)));
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter<'p, T> {
    pool: &'p Pool,
    demands: &'p Rc<Demands<T>>,
    host: &'p Arc<Host>,
    number: u64,
    answer: oneshot::Receiver<Answer<T>>,
    /// What becomes of a connection that was handed to a request which has left meanwhile.
    give_back: fn(&Pool, T),
}

impl<'p, T> Waiter<'p, T> {
    pub(super) fn new(
        pool: &'p Pool,
        demands: &'p Rc<Demands<T>>,
        host: &'p Arc<Host>,
        give_back: fn(&Pool, T),
    ) -> Self {
        let (number, answer) = demands.join(host);
        Self { pool, demands, host, number, answer, give_back }
    }

    /// Waits. Errors: the attempt at a connection has failed.
    pub(super) async fn answer(&mut self) -> Answer<T> {
        loop {
            tokio::select! {
                biased;
                answer = &mut self.answer => return answer.unwrap_or(Err(ConnectError::Failed)),
                // One is told for all.
                () = self.pool.open.changed.notified() => self.pool.serve_waiting(),
            }
        }
    }
}

impl<T> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        self.demands.leave(self.host, self.number);
        self.answer.close();
        if let Ok(Ok(value)) = self.answer.try_recv() {
            (self.give_back)(self.pool, value);
        }
    }
}
