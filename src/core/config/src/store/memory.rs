//! An in-memory store, for the embedded sample and tests.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::document::read_file_as;
use super::{ConfigStore, Reading, StoreContents};

/// A store of files in memory.
#[derive(Debug)]
pub struct MemoryStore {
    url: String,
    reading: Reading,
    state: Mutex<MemoryState>,
    changed: Notify,
}

#[derive(Debug)]
struct MemoryState {
    contents: Arc<StoreContents>,
    /// Whether `contents` was called since the last change.
    seen: bool,
}

impl MemoryStore {
    /// A store of files, given by name and text.
    pub fn new<'f>(url: &str, files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        Self::reading(url, Reading::default(), files)
    }

    /// [`new`](Self::new), of files that are read in another way.
    pub fn reading<'f>(
        url: &str,
        reading: Reading,
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Self {
        let state = MemoryState { contents: Arc::new(read_all(reading, files)), seen: false };
        Self { url: url.to_owned(), reading, state: Mutex::new(state), changed: Notify::new() }
    }

    /// A store of contents that were read elsewhere, such as by [`read_sources`](super::read_sources).
    pub fn holding(url: &str, contents: Arc<StoreContents>) -> Self {
        let state = MemoryState { contents, seen: false };
        Self {
            url: url.to_owned(),
            reading: Reading::default(),
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Replaces all files.
    pub fn set<'f>(&self, files: impl IntoIterator<Item = (&'f str, &'f str)>) {
        *self.state.lock() = MemoryState { contents: Arc::new(read_all(self.reading, files)), seen: false };
        self.changed.notify_one();
    }
}

fn read_all<'f>(reading: Reading, files: impl IntoIterator<Item = (&'f str, &'f str)>) -> StoreContents {
    let mut contents = StoreContents::default();
    let read = |(name, text): (&str, &str)| read_file_as(reading, &name.into(), text.as_bytes(), None);
    contents.add(&files.into_iter().map(read).collect::<Vec<_>>());
    contents
}

impl ConfigStore for MemoryStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn contents(&self) -> Arc<StoreContents> {
        let mut state = self.state.lock();
        state.seen = true;
        state.contents.clone()
    }

    fn has_changed(&self) -> bool {
        !self.state.lock().seen
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            while self.state.lock().seen {
                self.changed.notified().await;
            }
        })
    }
}
