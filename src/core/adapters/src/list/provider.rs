//! The provider of a list: fetched at build, refreshed on an interval, purged when it is too old.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::EntryType;
use super::addresses::Dialect;
use super::content::{self, SuspiciousLines};
use super::entries::Entries;
use super::fetch::{FetchError, Fetcher, ListSource, MAX_FETCH_TIME};
use super::inheritance::KnownProviders;
use super::openness;
use crate::files::{FileWatches, SETTLE_TIME};
use crate::version::next_version;
use mixer_attribute::SignedDuration;
use mixer_base::file_stamp::SETTLED;
use mixer_engine::check_cache::AnswerEpoch;

/// A file that is being changed for this long is an error, although its last list serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// The current list. Replaced as a whole.
#[derive(Debug, Default, Clone)]
pub(super) struct ListState {
    /// `None`: no list was loaded, or it was purged.
    pub(super) entries: Option<Arc<Entries>>,
    /// The version of the entries, also after they were purged: what they said last is not what a list before them said.
    pub(super) version: u64,
    /// Error of the last fetch.
    pub(super) error: Option<String>,
    /// That the list replaced one with which it has no entry in common, until it is fetched again.
    pub(super) replaced: Option<String>,
    /// What was fetched last, if it is in use. Istio Mixer's way does without.
    fetched: Option<Fetched>,
}

impl ListState {
    /// What is wrong with the list, or unexpected about it.
    pub(super) fn trouble(&self) -> Option<String> {
        self.error.clone().or_else(|| self.replaced.clone())
    }
}

/// The text of a list.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    body: Arc<[u8]>,
    /// When it was fetched last.
    pub(super) at: Instant,
}

/// The list, for concurrent readers.
#[derive(Debug)]
pub(super) struct Provider {
    source: ListSource,
    entry_type: EntryType,
    overrides: Vec<String>,
    handler_name: Arc<str>,
    /// Whether a body that holds no list is an empty list.
    accepts_empty: bool,
    dialect: Dialect,
    blacklist: bool,
    state: ArcSwap<ListState>,
    /// Advances when the entries change.
    answers: Arc<AnswerEpoch>,
}

impl Provider {
    /// Nothing loaded yet.
    pub(super) fn new(
        source: ListSource,
        entry_type: EntryType,
        overrides: Vec<String>,
        handler_name: Arc<str>,
        accepts_empty: bool,
    ) -> Self {
        Self {
            source,
            entry_type,
            overrides,
            handler_name,
            accepts_empty,
            dialect: Dialect::Native,
            blacklist: false,
            state: ArcSwap::default(),
            answers: Arc::default(),
        }
    }

    /// Reads entries as Istio Mixer does.
    pub(super) fn like_istio_mixer(self) -> Self {
        Self { dialect: Dialect::Istio, ..self }
    }

    /// Of a blacklist, which entries that match everything do not open.
    pub(super) fn of_blacklist(self, blacklist: bool) -> Self {
        Self { blacklist, ..self }
    }

    /// Ends the cached answers of a server when the entries change.
    pub(super) fn ending(self, answers: Arc<AnswerEpoch>) -> Self {
        Self { answers, ..self }
    }

    /// Other entries, or none, are in effect from now on.
    fn replace(&self, state: ListState) {
        self.state.store(Arc::new(state));
        self.answers.advance();
    }

    /// The current list. Takes no lock.
    pub(super) fn state(&self) -> arc_swap::Guard<Arc<ListState>> {
        self.state.load()
    }

    /// Whether there is a source to refresh from.
    pub(super) fn has_source(&self) -> bool {
        self.source != ListSource::None
    }

    /// What was fetched last, if that was from `source`.
    pub(super) fn fetched_from(&self, source: &ListSource) -> Option<Fetched> {
        self.state.load().fetched.clone().filter(|_| self.source == *source)
    }

    /// Keeps the list and records the error.
    fn fail(&self, text: String) {
        tracing::error!(target: "adapters", adapter = &*self.handler_name, "{text}");
        let state = ListState { error: Some(text), ..ListState::clone(&self.state.load()) };
        self.state.store(Arc::new(state));
    }

    /// Records that the first fetch has taken so long, unless an error of it is known already. It goes on in the background.
    pub(super) fn is_awaited(&self, for_time: Duration) {
        let state = self.state.load();
        if state.entries.is_none() && state.error.is_none() {
            let name = self.source.name();
            self.fail(format!(
                "could not fetch list from {name}: no answer within {for_time:?}, it is waited for"
            ));
        }
    }

    /// The entries of a body. Errors: why it is none of a list.
    fn read(&self, body: &[u8]) -> Result<Entries, String> {
        let name = self.source.name();
        let entries = Entries::parse(self.entry_type, body, &self.overrides, self.dialect)
            .map_err(|error| format!("Could not parse data from {name}: {error}"))?;
        // Nothing tells a list that was cut short from one that is meant to be empty.
        if entries.lacks_list && self.has_source() && !self.accepts_empty {
            return Err(format!("the list from {name} is empty; if that is meant, set `allowEmptyList`"));
        }
        if self.entry_type == EntryType::Regex
            && self.dialect == Dialect::Native
            && let Some((line, why)) =
                openness::refused_line(body, self.blacklist, entries.may_match_everything())
        {
            return Err(format!("the list from {name} is not used, line {line}: {why}"));
        }
        Ok(entries)
    }

    /// Warns about lines that are probably no entries as they stand. Their texts may be secret.
    fn warn_of_lines(&self, body: &[u8]) {
        let Some(lines) = SuspiciousLines::of(body, self.entry_type) else { return };
        let SuspiciousLines { count, first, why } = lines;
        let name = self.source.name();
        tracing::warn!(
            target: "adapters",
            adapter = &*self.handler_name,
            "{count} entries of the list from {name} probably do not do what they say, the first in line {first}: {why}"
        );
    }

    /// Warns that a list has no entry in common with the one before: it may be something else in its place. It serves: lists change.
    fn replaced_by(&self, before: &[u8], body: &[u8]) -> Option<String> {
        // Documents of addresses cannot be anything else.
        if self.entry_type == EntryType::IpAddresses {
            return None;
        }
        let entries = |body| content::entries(body).collect::<std::collections::HashSet<_>>();
        let (old, new) = (entries(before), entries(body));
        if old.is_empty() || new.is_empty() || !old.is_disjoint(&new) {
            return None;
        }
        let text = format!(
            "the list from {} has no entry in common with the one before: {} entries were replaced by {}",
            self.source.name(),
            old.len(),
            new.len()
        );
        tracing::warn!(target: "adapters", adapter = &*self.handler_name, "{text}");
        Some(text)
    }

    fn info(&self, text: std::fmt::Arguments<'_>) {
        tracing::info!(target: "adapters", adapter = &*self.handler_name, "{text}");
    }
}

/// Fetches the list, at build and in the background.
pub(super) struct Refresher {
    provider: Arc<Provider>,
    interval: Duration,
    ttl: Duration,
    fetcher: Fetcher,
    hasher: std::hash::RandomState,
    /// Length and hash of the body of the current list.
    latest: Option<(usize, u64)>,
    /// Since when each look found the file in the middle of a change.
    unsettled: Option<Instant>,
    patience: Duration,
    /// Notified of changes of the file.
    changed: Arc<tokio::sync::Notify>,
    watches: FileWatches,
    /// Whether the first fetch has ended.
    is_loaded: bool,
    /// Whether the text of the list is kept for a handler that takes the place of this one.
    keeps_text: bool,
}

impl Refresher {
    /// Nothing fetched yet.
    pub(super) fn new(provider: Arc<Provider>, interval: SignedDuration, ttl: SignedDuration) -> Self {
        let entry_type = provider.entry_type;
        let positive = |d: SignedDuration| Duration::from_nanos(d.nanos.max(1).cast_unsigned());
        let changed = Arc::<tokio::sync::Notify>::default();
        Self {
            provider,
            interval: positive(interval),
            ttl: positive(ttl),
            fetcher: Fetcher::of(entry_type),
            hasher: std::hash::RandomState::new(),
            latest: None,
            unsettled: None,
            patience: PATIENCE,
            watches: FileWatches::new(Arc::clone(&changed)),
            changed,
            is_loaded: false,
            keeps_text: true,
        }
    }

    /// Takes every answer for a list and leaves nothing to other handlers.
    pub(super) fn like_istio_mixer(mut self) -> Self {
        self.fetcher.accepts_pages();
        self.keeps_text = false;
        self
    }

    /// Begins with the list that another handler fetched from the same source, unless the first fetch succeeded. The list keeps its age.
    pub(super) fn inherit(&self, known: &KnownProviders) {
        let provider = &self.provider;
        let state = provider.state.load_full();
        if state.entries.is_some() {
            return;
        }
        let Some(fetched) = known.latest(&provider.source).filter(|fetched| fetched.at.elapsed() < self.ttl)
        else {
            return;
        };
        // Of another type it may be no list.
        if content::of_no_list(&fetched.body, provider.entry_type).is_some() {
            return;
        }
        let Ok(entries) = provider.read(&fetched.body) else { return };
        provider.info(format_args!("The list that was fetched before serves, with {} entries", entries.len));
        let (entries, error) = (Some(Arc::new(entries)), state.error.clone());
        let state =
            ListState { entries, version: next_version(), error, fetched: Some(fetched), replaced: None };
        provider.state.store(Arc::new(state));
    }

    /// As on a file system that does not tell who has a file open.
    #[cfg(test)]
    pub(super) fn without_leases(mut self) -> Self {
        if let ListSource::File(_, path) = &self.provider.source {
            self.fetcher = Fetcher::without_leases(path);
        }
        self
    }

    /// Any file in the middle of a change is an error.
    #[cfg(test)]
    pub(super) fn without_patience(mut self) -> Self {
        self.patience = Duration::ZERO;
        self
    }

    /// The first fetch. It waits once for a file that may be in the middle of a change.
    pub(super) async fn load(&mut self) {
        // Before the file is read, so that no change is missed.
        if let ListSource::File(_, path) = &self.provider.source
            && let Err(problem) = self.watches.add(path, self.interval.min(MAX_FETCH_TIME)).await
        {
            tracing::warn!(
                target: "adapters",
                adapter = &*self.provider.handler_name,
                "{problem}; the file is looked at every second"
            );
        }
        self.fetch().await;
        if let Some(at) = self.looks_again_at() {
            sleep_until(at).await;
            self.fetch().await;
        }
        self.is_loaded = true;
    }

    /// When to look again at a file that was in the middle of a change.
    pub(super) fn looks_again_at(&self) -> Option<Instant> {
        self.unsettled.map(|_| Instant::now() + SETTLED)
    }

    /// Refreshes the list until the task is aborted. Begins with the first fetch, if that took too long.
    pub(super) async fn run(&mut self) {
        if !self.is_loaded {
            self.load().await;
        }
        let start = Instant::now();
        let mut ticks = interval_at(start + self.interval, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let fetched_at = self.provider.state.load().fetched.as_ref().map_or(start, |fetched| fetched.at);
        let mut purge_at = Some(fetched_at + self.ttl);
        let changed = Arc::clone(&self.changed);
        loop {
            let look_again = self.looks_again_at();
            tokio::select! {
                biased;
                _ = ticks.tick() => {}
                () = changed.notified(), if !self.watches.is_empty() => tokio::time::sleep(SETTLE_TIME).await,
                () = self.watches.exchanged(), if !self.watches.is_empty() => {}
                () = until(look_again) => {}
                () = until(purge_at) => {
                    self.purge();
                    purge_at = None;
                    continue;
                }
            }
            if self.fetch().await {
                purge_at = Some(Instant::now() + self.ttl);
            } else if purge_at.is_some_and(|at| at <= Instant::now()) {
                // Something else may be ready each time: a file that is written all the time, for example.
                self.purge();
                purge_at = None;
            }
        }
    }

    fn purge(&mut self) {
        tracing::warn!(
            target: "adapters",
            adapter = &*self.provider.handler_name,
            "Purging list due to inability to refresh it in time"
        );
        let state = ListState::clone(&self.provider.state.load());
        self.provider.replace(ListState { entries: None, fetched: None, ..state });
    }

    /// Fetches and installs the list. Returns false if that failed and the old list is kept.
    pub(super) async fn fetch(&mut self) -> bool {
        let provider = self.provider.clone();
        let name = provider.source.name();
        if provider.has_source() {
            provider.info(format_args!("Fetching list from {name}"));
        }
        let fetched = self.fetcher.fetch(&provider.source, self.interval).await;
        if let ListSource::File(_, path) = &provider.source {
            self.watches.has_read(path, self.fetcher.file_stamp());
        }
        let body = match fetched {
            Ok(body) => body,
            Err(FetchError { text, is_unsettled }) => {
                self.not_fetched(text, is_unsettled);
                return false;
            }
        };
        self.unsettled = None;
        let digest = (body.len(), self.hasher.hash_one(&body));
        let state = provider.state.load_full();
        let at = Instant::now();
        if state.entries.is_some() && self.latest == Some(digest) {
            provider.info(format_args!("Fetched list is unchanged"));
            let fetched = state.fetched.as_ref().map(|fetched| Fetched { at, ..fetched.clone() });
            let state = ListState { error: None, replaced: None, fetched, ..ListState::clone(&state) };
            provider.state.store(Arc::new(state));
            return true;
        }
        match provider.read(&body) {
            Ok(entries) => {
                provider.info(format_args!("Installing updated list with {} entries", entries.len));
                if self.keeps_text {
                    provider.warn_of_lines(&body);
                }
                let before = state.fetched.as_ref().filter(|_| self.keeps_text);
                let replaced = before.and_then(|before| provider.replaced_by(&before.body, &body));
                let keeps_text = self.keeps_text && provider.has_source();
                let fetched = keeps_text.then(|| Fetched { body: body.into(), at });
                let entries = Some(Arc::new(entries));
                let version = if self.latest == Some(digest) { state.version } else { next_version() };
                provider.replace(ListState { entries, version, error: None, replaced, fetched });
                self.latest = Some(digest);
                true
            }
            Err(why) => {
                provider.fail(why);
                false
            }
        }
    }

    /// Records why the source was not read.
    fn not_fetched(&mut self, text: String, is_unsettled: bool) {
        if !is_unsettled {
            self.unsettled = None;
            self.provider.fail(text);
            return;
        }
        let since = *self.unsettled.get_or_insert_with(Instant::now);
        let state = self.provider.state.load();
        // A file changes now and then: the list serves on until the change is complete. It is looked at every second: one record is
        // enough.
        let is_known = state.entries.is_some() && since.elapsed() < self.patience;
        if !is_known && state.error.as_ref() != Some(&text) {
            self.provider.fail(text);
        }
    }
}

/// Waits until then; without a time forever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
