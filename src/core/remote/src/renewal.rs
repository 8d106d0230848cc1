//! Tokens that are fetched when one is needed, and kept until they end.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// After a failure without a valid token, no other attempt for so long: callers who wait for one token do not ask one after another.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// The same while the last token is valid. One caller waits for each attempt.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// A token that was fetched because the one before was refused is not replaced for so long, although it is refused as well: a service that
/// accepts no token would have one fetched for every call.
const REFUSALS: Duration = Duration::from_secs(10);

/// A token, and until when it is used.
#[derive(Debug, Clone)]
pub(crate) struct Lasting<T> {
    pub(crate) token: T,
    /// From when on the next one is fetched; `None`: never.
    pub(crate) replaced: Option<Instant>,
    /// From when on it is of no use; `None`: never.
    pub(crate) ends: Option<Instant>,
}

impl<T> Lasting<T> {
    /// A token that was fetched now, and is replaced so long before it ends; one that lasts less long, after half of its time.
    pub(crate) fn of(token: T, lasts: Duration, margin: Duration) -> Self {
        let now = Instant::now();
        let replaced = now + lasts.saturating_sub(margin).max(lasts / 2);
        Self { token, replaced: Some(replaced), ends: Some(now + lasts) }
    }

    /// A token that is used until it is refused.
    pub(crate) fn endless(token: T) -> Self {
        Self { token, replaced: None, ends: None }
    }
}

/// The current token of a source, for concurrent callers: one of them fetches the next one, and meanwhile the others use the last one.
#[derive(Debug)]
pub(crate) struct Renewal<T> {
    held: Mutex<Held<T>>,
    /// Held while a token is fetched.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Held<T> {
    token: Option<Lasting<T>>,
    failed: Option<(Instant, String)>,
    /// When a token was last given up because it was refused.
    refused: Option<Instant>,
}

impl<T> Default for Renewal<T> {
    fn default() -> Self {
        let held = Held { token: None, failed: None, refused: None };
        Self { held: Mutex::new(held), turn: tokio::sync::Mutex::default() }
    }
}

fn is_before(now: Instant, end: Option<Instant>) -> bool {
    end.is_none_or(|end| now < end)
}

fn is_within(since: Instant, time: Duration, now: Instant) -> bool {
    now.saturating_duration_since(since) < time
}

impl<T: Clone + PartialEq> Renewal<T> {
    /// A token that is valid now; `fetch` gets the next one. Errors: there is none, and why.
    pub(crate) async fn token(
        &self,
        fetch: impl Future<Output = Result<Lasting<T>, String>>,
    ) -> Result<T, String> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let last = {
            let now = Instant::now();
            let held = self.held.lock();
            held.token.as_ref().filter(|last| is_before(now, last.ends)).map(|last| last.token.clone())
        };
        let _turn = match (&last, self.turn.try_lock()) {
            (_, Ok(turn)) => turn,
            (Some(last), Err(_)) => return Ok(last.clone()),
            (None, Err(_)) => self.turn.lock().await,
        };
        // Another call may have fetched it, or failed to, meanwhile.
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let pause = if last.is_some() { LONG_PAUSE } else { PAUSE };
        let now = Instant::now();
        let failed = self.held.lock().failed.clone().filter(|failed| is_within(failed.0, pause, now));
        let why = match failed {
            Some((_, why)) => why,
            None => match fetch.await {
                Ok(next) => {
                    let token = next.token.clone();
                    let mut held = self.held.lock();
                    (held.token, held.failed) = (Some(next), None);
                    return Ok(token);
                }
                Err(why) => {
                    // When it failed: those who waited for a slow answer do not wait for one each.
                    self.held.lock().failed = Some((Instant::now(), why.clone()));
                    why
                }
            },
        };
        last.ok_or(why)
    }

    /// The token, if the next one need not be fetched yet.
    fn fresh(&self) -> Option<T> {
        let now = Instant::now();
        let held = self.held.lock();
        held.token.as_ref().filter(|token| is_before(now, token.replaced)).map(|token| token.token.clone())
    }

    /// The service did not accept a token: the next call fetches another one, unless there is one already. Returns whether the next call has
    /// another one.
    pub(crate) fn refused(&self, token: &T) -> bool {
        let now = Instant::now();
        let mut held = self.held.lock();
        if held.token.as_ref().is_none_or(|known| known.token != *token) {
            return true;
        }
        if held.refused.is_some_and(|at| is_within(at, REFUSALS, now)) {
            return false;
        }
        (held.token, held.refused) = (None, Some(now));
        true
    }

    /// The source has changed: the token is that of another one.
    pub(crate) fn forget(&self) {
        let mut held = self.held.lock();
        (held.token, held.failed, held.refused) = (None, None, None);
    }
}
