//! Data files of a policy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regorus::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::super::file_path;
use super::compile::Policy;
use super::document::document;
use super::evaluate::Prepared;
use super::handler::Shared;
use super::kinds::Kinds;
use crate::files::{FileWatches, SETTLE_TIME, SettledFile, Unread};
use crate::version::next_version;
use mixer_base::file_stamp::SETTLED;

/// Largest size of all files together, in bytes.
const MAX_DATA: usize = 16 << 20;
/// How long a read may take.
const READ_TIME: Duration = Duration::from_secs(10);
/// How often files are read without a notification: file systems may not send any.
const REFRESH: Duration = Duration::from_secs(60);
/// A file that is being changed for this long is an error, although its last contents serve.
const PATIENCE: Duration = Duration::from_secs(10);

/// The data files of a handler.
pub(super) struct DataFiles {
    files: Vec<(String, PathBuf, SettledFile)>,
    policy: Arc<Policy>,
    /// The documents of the last good version, as texts.
    texts: Vec<Vec<u8>>,
    version: u64,
    /// The kinds of the values of the last good version that the policy reads; `None`: they may be missing.
    kinds: Option<Arc<Kinds>>,
    /// Since when a file is in the middle of a change.
    unsettled: Option<Instant>,
}

/// Why files have no data.
enum Unusable {
    /// A file may be in the middle of a change.
    Unsettled(String),
    Broken(String),
}

impl DataFiles {
    /// Nothing read yet. `needs_all`: the files must have what the policy reads.
    pub(super) fn new(written: &[String], policy: Arc<Policy>, needs_all: bool) -> Self {
        let file = |written: &String| {
            let path = file_path(written).to_owned();
            (written.clone(), path.clone(), SettledFile::new(path))
        };
        let files = written.iter().map(file).collect();
        let kinds = needs_all.then(Arc::default);
        Self { files, policy, texts: Vec::new(), version: 0, kinds, unsettled: None }
    }

    /// The first read. It waits once for a file that may be in the middle of a change. Errors: one line.
    pub(super) async fn load(&mut self) -> Result<Prepared, String> {
        let first = match self.read().await {
            Err(Unusable::Unsettled(_)) => {
                sleep(SETTLED).await;
                self.read().await
            }
            first => first,
        };
        match first {
            Ok(Some(prepared)) => Ok(prepared),
            Ok(None) => Err("there are no data files".to_owned()),
            Err(Unusable::Unsettled(text) | Unusable::Broken(text)) => Err(text),
        }
    }

    /// Reads the files again when they change, until the task is aborted.
    pub(super) async fn follow(&mut self, shared: &Shared) {
        let changed = Arc::new(Notify::new());
        let mut watches = FileWatches::new(Arc::clone(&changed));
        for (_, path, _) in &self.files {
            if let Err(problem) = watches.add(path, READ_TIME).await {
                shared.warn(&format!("{problem}; the file is looked at every second"));
            }
        }
        loop {
            self.refresh(shared).await;
            for (_, path, file) in &self.files {
                watches.has_read(path, file.read_stamp());
            }
            let pause = if self.unsettled.is_some() { SETTLED } else { REFRESH };
            tokio::select! {
                () = changed.notified() => sleep(SETTLE_TIME).await,
                () = watches.exchanged() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Reads the files; what serves stays if they cannot be used.
    async fn refresh(&mut self, shared: &Shared) {
        match self.read().await {
            Ok(prepared) => {
                self.unsettled = None;
                if let Some(prepared) = prepared {
                    shared.replace(prepared);
                }
                shared.set_trouble(None);
            }
            Err(Unusable::Broken(text)) => {
                self.unsettled = None;
                shared.set_trouble(Some(text));
            }
            Err(Unusable::Unsettled(text)) => {
                let since = *self.unsettled.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    shared.set_trouble(Some(text));
                }
            }
        }
    }

    /// An engine with the data of all files; `None` if nothing changed.
    async fn read(&mut self) -> Result<Option<Prepared>, Unusable> {
        let mut texts = Vec::new();
        let mut left = MAX_DATA;
        for (written, _, file) in &mut self.files {
            let failed = |why: String| format!("could not read data from {written}: {why}");
            let text = file.read(READ_TIME, left).await.map_err(|error| match error {
                Unread::Unsettled(why) => Unusable::Unsettled(failed(why)),
                Unread::TooLarge => {
                    Unusable::Broken(failed(format!("the data is larger than {MAX_DATA} bytes")))
                }
                Unread::Late => Unusable::Broken(failed(format!("no complete answer within {READ_TIME:?}"))),
                Unread::Failed(why) => Unusable::Broken(failed(why)),
            })?;
            left -= text.len().min(left);
            texts.push(text);
        }
        if texts == self.texts && self.version > 0 {
            return Ok(None);
        }
        let names: Vec<String> = self.files.iter().map(|(written, ..)| written.clone()).collect();
        let (policy, version, before) = (Arc::clone(&self.policy), next_version(), self.kinds.clone());
        // Parsing may take long.
        let prepare = tokio::task::spawn_blocking(move || {
            let documents = names.iter().zip(&texts).map(|(name, text)| document(name, text));
            let documents = documents.collect::<Result<Vec<Value>, String>>()?;
            let engine = policy.with_data(&documents).map_err(|problem| problem.text)?;
            let kinds = before.map(|before| before.of(&documents, &policy.needed)).transpose()?;
            Ok((Prepared::new(engine, policy.entry.clone(), version), texts, kinds.map(Arc::new)))
        });
        let prepared = prepare.await.unwrap_or_else(|error| Err(error.to_string()));
        let (prepared, texts, kinds) = prepared.map_err(Unusable::Broken)?;
        (self.texts, self.version, self.kinds) = (texts, version, kinds);
        Ok(Some(prepared))
    }
}
