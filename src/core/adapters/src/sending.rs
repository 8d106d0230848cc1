//! What operators see of a handler that sends through several deliveries.

use mixer_delivery::DeliveryStatus;
use mixer_engine::adapter::{HandlerStatus, QueueStatus};

/// The status of such a handler, put together delivery by delivery.
pub(crate) struct SendingStatus {
    /// The size of each queue in bytes.
    capacity: usize,
    queues: Vec<QueueStatus>,
    troubles: Vec<String>,
}

impl SendingStatus {
    /// Without a delivery; the queue of each has so many bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, queues: Vec::new(), troubles: Vec::new() }
    }

    /// Adds the delivery of what is called `name`, with what is wrong with its backend.
    pub(crate) fn add(&mut self, name: &str, status: DeliveryStatus, trouble: Option<String>) {
        self.queues.push(QueueStatus {
            name: format!("bytes of {name} to be sent"),
            length: status.queued_bytes,
            capacity: self.capacity,
            dropped: status.full,
        });
        self.troubles.extend(trouble.map(|trouble| format!("{name}: {trouble}")));
    }

    /// Adds the series of a metric.
    pub(crate) fn add_series(&mut self, metric: &str, length: usize, capacity: usize, dropped: u64) {
        self.queues.push(QueueStatus { name: format!("series {metric}"), length, capacity, dropped });
    }

    /// The status.
    pub(crate) fn finish(self) -> HandlerStatus {
        let trouble = (!self.troubles.is_empty()).then(|| self.troubles.join("; "));
        HandlerStatus { trouble, queues: self.queues, ..HandlerStatus::default() }
    }
}
