//! Access logs that are sent to servers, with Envoy's protocol.
//!
//! A worker has a [`Sender`] for each log: entries are encoded at once and wait in memory, within a bound, for a task that sends them in one
//! call as long as that lasts. What does not fit is lost, and counted. `entry` says what an entry tells.

mod entry;
mod sender;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::access_log::Entry;
use crate::bootstrap::LogStreamConfig;
use crate::grpc::Channels;
use crate::node::NodeIdentity;
use crate::stats::{Block, LogStreamStat, Scope, Stats};

use sender::Sender;

/// A log as it is configured.
#[derive(Debug)]
pub(crate) struct LogStream {
    config: LogStreamConfig,
    cluster: Option<usize>,
    stats: Arc<Block<LogStreamStat>>,
}

impl LogStream {
    /// A log. `cluster` gives the index of a cluster by its name.
    pub(crate) fn new(
        config: &LogStreamConfig,
        stats: &Stats,
        cluster: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let (cluster, stats) = (cluster(&config.service.cluster), stats.block(&Scope::LogStream));
        Self { config: config.clone(), cluster, stats }
    }
}

/// The senders of a worker.
#[derive(Debug)]
pub(crate) struct Senders {
    channels: Rc<Channels>,
    known: RefCell<Vec<Rc<Sender>>>,
}

impl Senders {
    pub(crate) fn new(channels: Rc<Channels>) -> Self {
        Self { channels, known: RefCell::default() }
    }

    /// Adds an entry to a log.
    pub(crate) fn log(&self, log: &Arc<LogStream>, node: &NodeIdentity, entry: &Entry<'_>) {
        let found = self.known.borrow().iter().find(|sender| sender.is_of(log)).cloned();
        let sender = found.unwrap_or_else(|| {
            let sender = Sender::start(Arc::clone(log), node, Rc::clone(&self.channels));
            self.known.borrow_mut().push(Rc::clone(&sender));
            sender
        });
        sender.add(&entry::encode(entry, &log.config));
    }

    /// Sends what waits, ends the calls, and waits until servers have answered.
    pub(crate) async fn flush(&self) {
        let senders = self.known.borrow().clone();
        for sender in &senders {
            sender.close();
        }
        while senders.iter().any(|sender| !sender.has_ended()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
