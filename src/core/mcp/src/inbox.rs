//! What a stream is to send: answers that the cache has put there, one a collection.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ledger::Publication;
use crate::model::Collection;

/// A version of a collection for a stream.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) collection: Arc<Collection>,
    /// The publication that brought this version.
    pub(crate) publication: Publication,
    /// Whether the request asked for differences.
    pub(crate) incremental: bool,
}

/// The answers for one stream. Never more than one a collection: a later one takes the place of an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Answer>,
    is_cancelled: bool,
}

/// The watches of the stream were cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

impl Inbox {
    pub(crate) fn put(&self, answer: Answer) {
        {
            let mut state = self.state.lock();
            let queued = state.answers.iter_mut().find(|a| a.collection.name() == answer.collection.name());
            match queued {
                Some(queued) => *queued = answer,
                None => state.answers.push_back(answer),
            }
        }
        self.wake.notify_one();
    }

    pub(crate) fn cancel(&self) {
        self.state.lock().is_cancelled = true;
        self.wake.notify_one();
    }

    pub(crate) fn take(&self) -> Result<Option<Answer>, Cancelled> {
        let mut state = self.state.lock();
        if state.is_cancelled { Err(Cancelled) } else { Ok(state.answers.pop_front()) }
    }

    /// Waits until something may be there. For one waiter.
    pub(crate) async fn filled(&self) {
        self.wake.notified().await;
    }
}
