//! The provider of a list: fetched at build, refreshed on an interval, purged when it is too old.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::EntryType;
use super::addresses::Dialect;
use super::content::{self, SuspiciousLines};
use super::entries::Entries;
use super::fetch::{Body, FetchError, Fetcher, ListSource, MAX_FETCH_TIME};
use super::inheritance::KnownProviders;
use super::metrics::{FetchResult, ListMetrics};
use super::openness;
use super::turn::{Awaited, aside, drop_aside, in_turn};
use crate::files::{FileWatches, SETTLE_TIME};
use crate::version::next_version;
use mixer_attribute::SignedDuration;
use mixer_base::file_stamp::SETTLED;
use mixer_engine::check_cache::AnswerEpoch;
use mixer_expr::functions::{MAX_OF_CONFIGURATION, TOO_LARGE_TOGETHER};

/// A file that is being changed for this long is an error, although its last list serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of the error of a list, which may quote an entry.
const MAX_ERROR: usize = 4 << 10;
/// What errors of patterns begin with, behind the source.
const REGEXP: &str = ": error parsing regexp: ";
/// After this time, patterns are read again that had no room beside those of others.
const ROOM_AGAIN: Duration = Duration::from_secs(60);

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
    /// Bytes of entries and text.
    fn bytes(&self) -> usize {
        let text = self.fetched.as_ref().map_or(0, |fetched| fetched.body.len());
        match &self.entries {
            Some(entries) if entries.has_text() => entries.bytes().max(text),
            Some(entries) => entries.bytes() + text,
            None => text,
        }
    }

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
    /// Whether a body is there that is being read, or waits for its turn.
    is_reading: AtomicBool,
    /// Advances when the entries change.
    answers: Arc<AnswerEpoch>,
    metrics: ListMetrics,
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
            is_reading: AtomicBool::new(false),
            answers: Arc::default(),
            metrics: ListMetrics::default(),
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

    /// With metrics of a server.
    pub(super) fn counting(self, metrics: ListMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Other entries, or none, are in effect from now on.
    fn replace(&self, state: ListState) {
        self.metrics.holds(state.bytes());
        let old = self.state.swap(Arc::new(state));
        self.answers.advance();
        drop_aside(old);
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
    fn is_awaited(&self, for_time: Duration) {
        let state = self.state.load();
        if state.entries.is_none() && state.error.is_none() {
            let name = self.source.name();
            self.fail(match self.is_reading.load(Ordering::Relaxed) {
                true => format!("the list from {name} is being read, it is waited for"),
                false => format!(
                    "could not fetch list from {name}: no answer within {for_time:?}, it is waited for"
                ),
            });
        }
    }

    /// The entries of a body. It takes seconds for a large one. Errors: why it is none of a list.
    fn read(&self, body: &Arc<[u8]>) -> Result<Entries, String> {
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

    /// Reads a body and looks at it, unless nobody waits for that any more. `before`: the text of the list before, if that is known.
    fn look_at(
        &self,
        body: Body,
        before: Option<&[u8]>,
        warns: bool,
        awaited: &Awaited,
    ) -> Result<Look, String> {
        let given_up = || Err("it is not waited for".to_owned());
        if awaited.is_over() {
            return given_up();
        }
        let body = body.listed()?;
        let entries = self.read(&body)?;
        if awaited.is_over() {
            return given_up();
        }
        let suspicious = if warns { SuspiciousLines::of(&body, self.entry_type) } else { None };
        let replaced = before.and_then(|before| self.replaced(before, &body));
        Ok(Look { body, entries, suspicious, replaced })
    }

    /// How many entries were replaced by how many, if there is none in common.
    fn replaced(&self, before: &[u8], body: &[u8]) -> Option<(usize, usize)> {
        // Documents of addresses cannot be anything else.
        if self.entry_type == EntryType::IpAddresses {
            return None;
        }
        let old: HashSet<_> = content::entries(before).collect();
        if old.is_empty() || content::entries(body).any(|entry| old.contains(entry)) {
            return None;
        }
        let new = content::entries(body).collect::<HashSet<_>>().len();
        (new > 0).then_some((old.len(), new))
    }

    /// Warns about lines that are probably no entries as they stand. Their texts may be secret.
    fn warn_of_lines(&self, lines: SuspiciousLines) {
        let SuspiciousLines { count, first, why } = lines;
        let name = self.source.name();
        tracing::warn!(
            target: "adapters",
            adapter = &*self.handler_name,
            "{count} entries of the list from {name} probably do not do what they say, the first in line {first}: {why}"
        );
    }

    /// Warns that a list has no entry in common with the one before: it may be something else in its place. It serves: lists change.
    fn warn_of_replacement(&self, (old, new): (usize, usize)) -> String {
        let text = format!(
            "the list from {} has no entry in common with the one before: {old} entries were replaced by {new}",
            self.source.name(),
        );
        tracing::warn!(target: "adapters", adapter = &*self.handler_name, "{text}");
        text
    }

    fn info(&self, text: std::fmt::Arguments<'_>) {
        tracing::info!(target: "adapters", adapter = &*self.handler_name, "{text}");
    }
}

/// What was found in a body.
struct Look {
    body: Arc<[u8]>,
    entries: Entries,
    suspicious: Option<SuspiciousLines>,
    /// How many entries were replaced by how many.
    replaced: Option<(usize, usize)>,
}

/// Length and hash of a body.
type Digest = (usize, u64);

/// A body that is no list: it is not read again as long as it is the same.
struct RefusedBody {
    digest: Digest,
    why: String,
    /// When it is read again all the same.
    until: Option<Instant>,
}

impl RefusedBody {
    fn new(digest: Digest, why: String, now: Instant) -> Self {
        // There may be room once other lists have changed.
        let until = lacks_room(&why).then(|| now + ROOM_AGAIN);
        Self { digest, why, until }
    }

    /// What its fetch ends with: nothing may be wrong with it but that it has no room beside others.
    fn result(&self) -> FetchResult {
        if self.until.is_some() { FetchResult::NoRoom } else { FetchResult::Refused }
    }

    fn is(&self, digest: Digest, now: Instant) -> bool {
        self.digest == digest && self.until.is_none_or(|until| now < until)
    }
}

/// Whether a list was refused for want of room.
fn lacks_room(why: &str) -> bool {
    // The rest quotes an entry.
    why.split_once(REGEXP).is_some_and(|(_, why)| why.starts_with(TOO_LARGE_TOGETHER))
}

/// Fetches the list, at build and in the background.
pub(super) struct Refresher {
    provider: Arc<Provider>,
    interval: Duration,
    ttl: Duration,
    fetcher: Fetcher,
    hasher: std::hash::RandomState,
    /// The body of the current list.
    latest: Option<Digest>,
    refused: Option<RefusedBody>,
    /// What another handler fetched, until it was read.
    inherited: Option<Fetched>,
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
            refused: None,
            inherited: None,
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

    /// Begins with the list that another handler fetched from the same source, unless the first fetch succeeded. The list keeps its age. If
    /// that takes longer than `limit`, it goes on in the background.
    pub(super) async fn inherit(&mut self, known: &KnownProviders, limit: Duration) {
        if self.provider.state.load().entries.is_none() {
            self.inherited = known.latest(&self.provider.source);
            // The text is kept: the handler that fetched it may be gone by then.
            let _ = timeout(limit, self.read_inherited()).await;
        }
    }

    async fn read_inherited(&mut self) {
        let Some(fetched) = self.inherited.clone().filter(|fetched| fetched.at.elapsed() < self.ttl) else {
            self.inherited = None;
            return;
        };
        let (provider, body) = (Arc::clone(&self.provider), Arc::clone(&fetched.body));
        let read = in_turn(body.len(), move |awaited| {
            // Of another type it may be no list.
            let is_list = !awaited.is_over() && content::of_no_list(&body, provider.entry_type).is_none();
            if is_list { provider.read(&body).ok() } else { None }
        });
        let read = read.await;
        self.inherited = None;
        let (provider, state) = (&self.provider, self.provider.state.load_full());
        let Some(entries) = read.ok().flatten().filter(|_| state.entries.is_none()) else { return };
        provider.info(format_args!("The list that was fetched before serves, with {} entries", entries.len));
        let (entries, error) = (Some(Arc::new(entries)), state.error.clone());
        let fetched = Some(fetched);
        provider.replace(ListState { entries, version: next_version(), error, fetched, replaced: None });
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

    /// The first fetch, for the building of a handler: waits so long for an answer, and as much as `for_reading` longer for one that is
    /// there and is being read.
    pub(super) async fn load_within(&mut self, limit: Duration, for_reading: Duration) {
        let provider = Arc::clone(&self.provider);
        let mut load = std::pin::pin!(self.load());
        if timeout(limit, &mut load).await.is_ok() {
            return;
        }
        let is_reading = provider.is_reading.load(Ordering::Relaxed);
        if !is_reading || timeout(for_reading, load).await.is_err() {
            provider.is_awaited(limit);
        }
    }

    /// When to look again at a file that was in the middle of a change.
    pub(super) fn looks_again_at(&self) -> Option<Instant> {
        self.unsettled.map(|_| Instant::now() + SETTLED)
    }

    /// Refreshes the list until the task is aborted. Begins with the first fetch, if that took too long.
    pub(super) async fn run(&mut self) {
        self.read_inherited().await;
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
        let state = self.provider.state.load();
        let (version, error, replaced) = (state.version, state.error.clone(), state.replaced.clone());
        drop(state);
        self.provider.replace(ListState { entries: None, version, error, replaced, fetched: None });
    }

    /// Fetches and installs the list. Returns false if that failed, and the old list is kept for a while; one for which there is no room leaves the old
    /// one in effect.
    pub(super) async fn fetch(&mut self) -> bool {
        let provider = self.provider.clone();
        provider.is_reading.store(false, Ordering::Relaxed);
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
        provider.is_reading.store(true, Ordering::Relaxed);
        let result = self.take(body).await;
        provider.is_reading.store(false, Ordering::Relaxed);
        provider.metrics.count(result);
        match result {
            FetchResult::Updated | FetchResult::Unchanged => true,
            // The source answers: what is kept is no older for want of room.
            FetchResult::NoRoom => provider.state.load().entries.is_some(),
            FetchResult::Refused | FetchResult::Failed => false,
        }
    }

    /// Installs the list of a body.
    async fn take(&mut self, body: Body) -> FetchResult {
        let (provider, at, length) = (Arc::clone(&self.provider), Instant::now(), body.bytes.len());
        let not_read = |why: String| format!("the list from {} was not read: {why}", provider.source.name());
        let hasher = self.hasher.clone();
        let hashed = aside(length, move || ((length, hasher.hash_one(&body.bytes)), body));
        let (digest, body) = match hashed.await {
            Ok(hashed) => hashed,
            Err(why) => {
                provider.fail(not_read(why));
                return FetchResult::Failed;
            }
        };
        let state = provider.state.load_full();
        if state.entries.is_some() && self.latest == Some(digest) {
            provider.info(format_args!("Fetched list is unchanged"));
            let fetched = state.fetched.as_ref().map(|fetched| Fetched { at, ..fetched.clone() });
            let state = ListState { error: None, replaced: None, fetched, ..ListState::clone(&state) };
            provider.state.store(Arc::new(state));
            return FetchResult::Unchanged;
        }
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.is(digest, at)) {
            provider.fail(refused.why.clone());
            return refused.result();
        }
        let keeps_text = self.keeps_text;
        let before = state.fetched.as_ref().filter(|_| keeps_text).map(|before| Arc::clone(&before.body));
        let version = if self.latest == Some(digest) { state.version } else { next_version() };
        drop(state);
        let reader = Arc::clone(&provider);
        let look =
            in_turn(length, move |awaited| reader.look_at(body, before.as_deref(), keeps_text, awaited));
        let Look { body, entries, suspicious, replaced } = match look.await {
            Ok(Ok(look)) => look,
            Ok(Err(mut why)) => {
                if why.len() > MAX_ERROR {
                    why.truncate(why.floor_char_boundary(MAX_ERROR));
                    why.push('…');
                }
                if lacks_room(&why) {
                    let most = (2 * MAX_OF_CONFIGURATION) >> 20;
                    let room = format!(
                        "; the list of {length} bytes has no room: all patterns of the process together take at most {most} MiB, \
                         whatever its flags; the list before it stays in effect until there is room"
                    );
                    why.push_str(&room);
                }
                let refused = RefusedBody::new(digest, why.clone(), Instant::now());
                let result = refused.result();
                self.refused = Some(refused);
                provider.fail(why);
                return result;
            }
            Err(why) => {
                provider.fail(not_read(why));
                return FetchResult::Failed;
            }
        };
        provider.info(format_args!("Installing updated list with {} entries", entries.len));
        if let Some(lines) = suspicious {
            provider.warn_of_lines(lines);
        }
        let replaced = replaced.map(|counts| provider.warn_of_replacement(counts));
        let fetched = (keeps_text && provider.has_source()).then_some(Fetched { body, at });
        provider.replace(ListState {
            entries: Some(Arc::new(entries)),
            version,
            error: None,
            replaced,
            fetched,
        });
        self.latest = Some(digest);
        self.refused = None;
        FetchResult::Updated
    }

    /// Records why the source was not read.
    fn not_fetched(&mut self, text: String, is_unsettled: bool) {
        if !is_unsettled {
            self.unsettled = None;
            self.provider.metrics.count(FetchResult::Failed);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Room comes back when other lists change; what else is wrong with a list stays.
    #[test]
    fn patterns_that_had_no_room_are_read_again_after_a_while() {
        let now = Instant::now();
        let no_room =
            format!("Could not parse data from /l: error parsing regexp: {TOO_LARGE_TOGETHER}: `a`");
        let quoted =
            format!("Could not parse data from /l: error parsing regexp: missing ): `({TOO_LARGE_TOGETHER}`");
        for (why, is_for_good) in
            [(no_room, false), (quoted, true), ("the list from /l is empty".to_owned(), true)]
        {
            let refused = RefusedBody::new((3, 7), why, now);
            let result = if is_for_good { FetchResult::Refused } else { FetchResult::NoRoom };
            assert_eq!(refused.result(), result);
            assert!(refused.is((3, 7), now) && !refused.is((3, 8), now) && !refused.is((4, 7), now));
            assert_eq!(refused.is((3, 7), now + ROOM_AGAIN), is_for_good);
        }
    }
}
