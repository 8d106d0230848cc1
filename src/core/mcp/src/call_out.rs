//! A source that calls a server of sinks.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::ClientOptions;
use crate::source::Source;

/// A source that calls a server of sinks.
#[derive(Debug)]
pub struct CallOut {
    #[expect(dead_code, reason = "not served yet")]
    source: Arc<Source>,
    #[expect(dead_code, reason = "not served yet")]
    options: ClientOptions,
}

impl CallOut {
    /// Connects when it runs.
    pub fn new(source: Arc<Source>, options: ClientOptions) -> Self {
        Self { source, options }
    }

    /// Serves the source on a stream to the server until `stop`, and on another one when that ends. A task of its own, supervised by the
    /// caller.
    pub async fn run(&self, stop: CancellationToken) {
        stop.cancelled().await;
    }
}
