//! Where batches go.

use std::future::Future;
use std::time::Duration;

/// A sink that blocks, such as a file. It has a thread of its own.
pub trait BlockingSink<B>: Send + 'static {
    /// Delivers a batch, which is never empty. Items that are not in the [`Tally`] when it returns have failed for good, unless it
    /// says that [another attempt may help](Tally::try_again).
    ///
    /// A sink may remove items from the batch as it goes. If it panics then, those that are left are given to it again; a sink that
    /// panics with a complete batch loses it.
    fn deliver(&mut self, batch: &mut B, tally: &mut Tally);
}

/// A sink that waits for the network. It runs in a task.
pub trait AsyncSink<B>: Send + 'static {
    /// As [`BlockingSink::deliver`]. The future is dropped, and what is not delivered is lost, at the deadline of
    /// [`Delivery::close`](crate::Delivery::close).
    fn deliver(&mut self, batch: &mut B, tally: &mut Tally) -> impl Future<Output = ()> + Send;
}

/// What became of the items of a batch.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) delivered: usize,
    /// Why items were not delivered.
    pub(crate) trouble: Option<String>,
    /// The items that are left are to be tried again after this pause at the earliest.
    pub(crate) again: Option<Duration>,
}

impl Tally {
    /// So many more items were delivered.
    pub fn delivered(&mut self, items: usize) {
        self.delivered += items;
    }

    /// The backend is out of reach or overloaded: the items that are left in the batch are to be tried again, as far as the settings
    /// allow it. The sink has removed all others. `why` is shown to operators and holds no credentials.
    pub fn try_again(&mut self, why: impl Into<String>) {
        self.try_again_after(why, Duration::ZERO);
    }

    /// As [`try_again`](Self::try_again), after the pause that the backend asked for.
    pub fn try_again_after(&mut self, why: impl Into<String>, pause: Duration) {
        self.trouble = Some(why.into());
        self.again = Some(pause);
    }

    /// The items that are not delivered have failed for good. `why` is shown to operators and holds no credentials.
    pub fn give_up(&mut self, why: impl Into<String>) {
        self.trouble = Some(why.into());
        self.again = None;
    }
}
