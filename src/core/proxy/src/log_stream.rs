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

    /// Ends the calls of logs that no listener has any more, once what waits is sent.
    pub(crate) fn sweep(&self) {
        self.known.borrow_mut().retain(|sender| {
            if sender.is_abandoned() {
                sender.close();
            }
            !sender.has_ended()
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::GrpcServiceConfig;
    use crate::upstream::Pools;

    #[tokio::test(start_paused = true)]
    async fn senders_end_with_the_listeners_of_their_logs() {
        let service = GrpcServiceConfig { cluster: "c".to_owned(), authority: "c".to_owned(), timeout: None };
        let config = LogStreamConfig {
            is_http: true,
            name: "web".to_owned(),
            service,
            interval: Duration::ZERO,
            buffer: 100,
            request_headers: Vec::new(),
            response_headers: Vec::new(),
        };
        let senders = Senders::new(Rc::new(Channels::new(Rc::new(Pools::new(&[])))));
        let start = |count: usize| {
            // There is no such server.
            let log = Arc::new(LogStream::new(&config, &Stats::default(), |_| None));
            let channels = Rc::clone(&senders.channels);
            let sender = Sender::start(Arc::clone(&log), &NodeIdentity::default(), channels);
            (0..count).for_each(|_| sender.add(b"an entry"));
            senders.known.borrow_mut().push(sender);
            log
        };
        let after = async |seconds: u64| {
            senders.sweep();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            senders.sweep();
            senders.known.borrow().len()
        };
        let both = async {
            let (quiet, busy) = (start(0), start(3));
            let stats = Arc::clone(&busy.stats);
            assert_eq!(after(100).await, 2, "they have listeners");
            drop((quiet, busy));
            assert_eq!(after(20).await, 1, "entries are tried to be sent for a while");
            assert_eq!(stats.get(LogStreamStat::LogsDropped), 0);
            assert_eq!(after(20).await, 0);
            assert_eq!(stats.get(LogStreamStat::LogsDropped), 3);
        };
        tokio::task::LocalSet::new().run_until(both).await;
    }
}
