//! Keeps a store equal to what an API server has: lists the objects, follows their changes, and lists again when it has to.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use mixer_base::load::{self, Load};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::client::Client;
use crate::error::Error;
use crate::object::Object;
use crate::progress::Progress;
use crate::selection::Selection;
use crate::watch::{Event, PageMetadata, Watch, list};

/// Where objects are kept. A reflector calls it from one task.
///
/// What readers see changes in [`publish`](Self::publish) alone.
pub trait Store: Send + 'static {
    /// What is kept.
    type Object: Object;

    /// A list begins. What was there before stays until it is complete; a list that began earlier is forgotten.
    fn begin(&mut self);

    /// An object of the list.
    fn list(&mut self, object: Self::Object);

    /// The list is complete: what was not in it is gone.
    fn complete(&mut self);

    /// An object was made, or changed.
    fn apply(&mut self, object: Self::Object);

    /// An object was deleted; its last state.
    fn delete(&mut self, object: Self::Object);

    /// No more changes wait: readers see those since the last time.
    fn publish(&mut self);

    /// What the server has is unknown from now on, for this reason, until changes are followed again. Told before the next attempt.
    fn failed(&mut self, why: &str) {
        let _ = why;
    }

    /// Whether objects were left out for which there may be room by now: they are listed when the watch ends.
    fn wants_list(&self) -> bool {
        false
    }
}

/// How often an API server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Most objects of a page.
    pub page: usize,
    /// How long a watch lasts at least; up to twice as long, so that those of many servers end at different times.
    pub watch: Duration,
    /// The pause after the first failure; it doubles with every failure in a row. Each pause is shortened at random by up to a half, so
    /// that servers that failed together do not come back together.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            page: 500,
            watch: Duration::from_secs(300),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// A watch that lasted this long works.
const SETTLED: Duration = Duration::from_secs(1);
/// How much later than announced a server may end a watch.
const GRACE: Duration = Duration::from_secs(30);
/// Changes after which readers see them although more wait.
const MAX_UNPUBLISHED: usize = 1000;
/// A list that takes longer is told, for changes are not followed meanwhile.
const LISTING: Duration = Duration::from_secs(5);
/// The longest pause that an API server can ask for.
const LONGEST_REQUESTED_PAUSE: Duration = Duration::from_secs(300);

/// Keeps a [`Store`] equal to what an API server has.
pub struct Reflector<S: Store> {
    client: Client,
    selection: Selection,
    store: S,
    progress: Arc<Progress>,
    pace: Pace,
    random: fastrand::Rng,
    /// How long changes are followed before everything is listed again; `None`: as long as the server has them.
    relist: Option<Duration>,
    /// When the last list was complete.
    listed: Instant,
    /// Failures in a row.
    failures: u32,
    /// Whether no watch worked since the last list.
    is_new: bool,
}

/// How a watch ended.
enum Ended {
    /// The changes after this version can be watched.
    Follow(String),
    /// The objects have to be listed.
    List,
}

impl<S: Store> Reflector<S> {
    /// Nothing is asked before it runs.
    pub fn new(client: Client, selection: Selection, store: S) -> Self {
        Self {
            client,
            selection,
            store,
            progress: Arc::default(),
            pace: Pace::default(),
            random: fastrand::Rng::new(),
            relist: None,
            listed: Instant::now(),
            failures: 0,
            is_new: false,
        }
    }

    /// Asks at another pace.
    #[must_use]
    pub fn at(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Lists everything again so long after each list, although changes are followed: whatever was missed is found then.
    #[must_use]
    pub fn listing_every(self, period: Option<Duration>) -> Self {
        Self { relist: period, ..self }
    }

    /// What it has reached.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Goes on until the future is dropped. Begins with a list each time.
    pub async fn run(&mut self) -> std::convert::Infallible {
        loop {
            let mut version = self.list().await;
            while let Ended::Follow(next) = self.follow(version).await {
                version = next;
            }
        }
    }

    /// Lists all objects, until that succeeds. Returns their version.
    async fn list(&mut self) -> String {
        let mut page = self.pace.page.max(1);
        loop {
            match self.list_and_tell(page).await {
                Ok(version) => {
                    self.store.complete();
                    self.store.publish();
                    self.progress.listed(&version);
                    self.listed = Instant::now();
                    self.is_new = true;
                    return version;
                }
                // Pages of a version that the server has forgotten meanwhile: one that lasts less long may do.
                Err(error) if error.is_gone() => {
                    page = page.saturating_mul(4);
                    self.failed(&error).await;
                }
                Err(error @ Error::TooLarge { .. }) => {
                    page = (page / 4).max(1);
                    self.failed(&error).await;
                }
                Err(error) => self.failed(&error).await,
            }
        }
    }

    /// Lists all objects once, and tells if that takes long.
    async fn list_and_tell(&mut self, page: usize) -> Result<String, Error> {
        let progress = Arc::clone(&self.progress);
        let mut listing = std::pin::pin!(self.list_once(page));
        if let Ok(listed) = timeout(LISTING, &mut listing).await {
            return listed;
        }
        progress.lists_again_for(LISTING);
        listing.await
    }

    async fn list_once(&mut self, limit: usize) -> Result<String, Error> {
        self.store.begin();
        let load = Load::begin(
            format!("{} {}", self.client.server(), self.selection.resource),
            "objects",
            "listed",
            0,
        );
        let mut next = String::new();
        loop {
            let page = list::<S::Object>(&self.client, &self.selection, limit, &next).await?;
            let PageMetadata { resource_version, next: following, remaining_item_count } =
                page.metadata.clone();
            let items = page.into_items();
            let remaining = usize::try_from(remaining_item_count.unwrap_or(0)).unwrap_or(0);
            let known = load.progress();
            let known = usize::try_from(known.of_documents - known.documents).unwrap_or(0);
            // What was made meanwhile is known once it is listed.
            load::documents_known(load.id(), (items.len() + remaining).saturating_sub(known));
            for object in items {
                self.store.list(object);
                load::documents_done(load.id(), 1);
            }
            if following.is_empty() {
                return Ok(resource_version);
            }
            if following == next {
                let (server, path) = (self.client.server(), self.selection.resource.to_string());
                return Err(Error::Malformed { server, path, why: "a page follows itself".to_owned() });
            }
            next = following;
        }
    }

    /// Follows the changes after a version until the watch ends, or everything is to be listed again.
    async fn follow(&mut self, version: String) -> Ended {
        let Some(due) = self.relist.and_then(|period| self.listed.checked_add(period)) else {
            return self.follow_on(version).await;
        };
        let ended = tokio::select! {
            ended = self.follow_on(version) => Some(ended),
            () = sleep_until(due) => None,
        };
        // What was applied since is part of the list.
        ended.unwrap_or(Ended::List)
    }

    async fn follow_on(&mut self, mut version: String) -> Ended {
        let lasts = self.pace.watch.mul_f64(1.0 + self.random.f64());
        let opened = Watch::open(&self.client, &self.selection, &version, lasts).await;
        let ended = match opened {
            Ok(mut watch) => {
                let now = Instant::now();
                let settled = now + SETTLED;
                let ended = self.drain(&mut watch, &mut version, settled, now + lasts + GRACE).await;
                self.store.publish();
                self.progress.followed(&version);
                if ended.is_ok() && Instant::now() < settled {
                    // A server that ends watches at once would be asked all the time.
                    self.failures = self.failures.saturating_add(1);
                    sleep(self.pause(Duration::ZERO)).await;
                }
                ended
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) if self.store.wants_list() => Ended::List,
            Ok(()) => Ended::Follow(version),
            Err(error) if error.is_gone() => {
                tracing::debug!(objects = %self.selection.resource, "the watch is too old: {error}");
                if self.is_new {
                    // A server that has forgotten what it listed a moment ago would be asked for lists all the time.
                    self.failed(&error).await;
                }
                Ended::List
            }
            Err(error) => {
                self.failed(&error).await;
                match error {
                    // What cannot be read was a change, which would come again.
                    Error::Malformed { .. } | Error::TooLarge { .. } => Ended::List,
                    _ => Ended::Follow(version),
                }
            }
        }
    }

    /// Applies changes until the watch ends. `version`: up to which they are applied.
    async fn drain(
        &mut self,
        watch: &mut Watch,
        version: &mut String,
        settled: Instant,
        end: Instant,
    ) -> Result<(), Error> {
        let mut works = false;
        loop {
            let limit = if works { end } else { settled };
            let event = match timeout_at(limit, watch.next::<S::Object>()).await {
                Ok(event) => event?,
                Err(_) if !works => {
                    works = true;
                    self.works();
                    continue;
                }
                Err(_) => {
                    self.client.reconnect();
                    let (server, limit) = (self.client.server(), self.pace.watch * 2 + GRACE);
                    return Err(Error::Timeout { server, limit });
                }
            };
            let Some(event) = event else { return Ok(()) };
            works = true;
            self.works();
            self.apply(event, version);
            for _ in 0..MAX_UNPUBLISHED {
                match watch.arrived()? {
                    Some(event) => self.apply(event, version),
                    None => break,
                }
            }
            self.store.publish();
            self.progress.followed(version);
        }
    }

    fn apply(&mut self, event: Event<S::Object>, version: &mut String) {
        let mut reached = |object: &S::Object| object.resource_version().clone_into(version);
        match event {
            Event::Applied(object) => {
                reached(&object);
                self.store.apply(object);
            }
            Event::Deleted(object) => {
                reached(&object);
                self.store.delete(object);
            }
            Event::Bookmark(at) => *version = at,
        }
    }

    fn works(&mut self) {
        self.failures = 0;
        self.is_new = false;
        self.progress.works();
    }

    /// Waits before the next attempt.
    async fn failed(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        let pause = self.pause(error.after().min(LONGEST_REQUESTED_PAUSE));
        tracing::debug!(objects = %self.selection.resource, ?pause, "{error}");
        let why = error.to_string();
        self.progress.failed(&why, error.is_forbidden());
        self.store.failed(&why);
        sleep(pause).await;
    }

    fn pause(&mut self, least: Duration) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures.saturating_sub(1).min(16));
        let pause = self.pace.first_pause.saturating_mul(doubled).min(self.pace.longest_pause);
        pause.mul_f64(0.5 + self.random.f64() / 2.0).max(least)
    }
}
