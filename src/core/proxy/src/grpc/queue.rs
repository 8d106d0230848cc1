//! Calls that wait for a place.

use std::time::Duration;

use tokio::sync::{Mutex, Notify};

/// The pause between two looks at the places that other workers use.
pub(super) const PLACE_INTERVAL: Duration = Duration::from_millis(10);

/// Calls of this worker that wait for a place, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    first: Mutex<()>,
    /// Told of every place of this worker that becomes free.
    pub(super) freed: Notify,
}

impl Queue {
    /// A place, if nobody waits for one and there is one.
    pub(super) fn take<P>(&self, take: impl Fn() -> Option<P>) -> Option<P> {
        let _first = self.first.try_lock().ok()?;
        take()
    }

    /// Waits until there is a place. `None` if there was none in time.
    pub(super) async fn wait<P>(&self, limit: Duration, take: impl Fn() -> Option<P>) -> Option<P> {
        let waiting = async {
            let _first = self.first.lock().await;
            loop {
                if let Some(place) = take() {
                    return place;
                }
                // Ended by the interval as well: nobody tells of places that other workers free.
                let _ = tokio::time::timeout(PLACE_INTERVAL, self.freed.notified()).await;
            }
        };
        tokio::time::timeout(limit, waiting).await.ok()
    }
}
