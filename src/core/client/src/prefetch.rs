//! Amounts of one quota that were fetched ahead.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back the use of a quota is looked at, in how many parts.
const WINDOW: Duration = Duration::from_millis(1000);
const PARTS: usize = 20;
/// The least amount that is fetched.
const LEAST: i64 = 10;
/// The pause between two attempts while the server grants less than was asked for.
const CLOSE_WAIT: Duration = Duration::from_millis(500);
/// The validity of an amount of which the server does not say how long it is valid, or has not said yet.
const VALIDITY: Duration = Duration::from_secs(60);
/// Most grants that are kept apart.
const MAX_GRANTS: usize = 256;

/// Whether the server grants what it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Close,
}

/// An amount, until it expires.
#[derive(Debug)]
struct Grant {
    /// The attempt that asked for it.
    attempt: u64,
    amount: i64,
    expires: Instant,
    /// Whether it was granted before the answer to its attempt.
    is_ahead: bool,
}

/// Fetches amounts of one quota ahead, by how much was used during the last second, so that a request does not wait for the server.
///
/// While the server grants everything, an amount that was asked for may be used before the answer arrives. Spec: proxy.md, "Quota".
#[derive(Debug)]
pub(crate) struct Prefetcher {
    mode: Mode,
    grants: VecDeque<Grant>,
    counter: Counter,
    in_flight: u32,
    last_attempt: Option<Instant>,
    next: u64,
}

/// A fetch that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) attempt: u64,
    pub(crate) amount: i64,
}

impl Prefetcher {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            mode: Mode::Open,
            grants: VecDeque::new(),
            counter: Counter::new(now),
            in_flight: 0,
            last_attempt: None,
            next: 0,
        }
    }

    /// What can be used at `now`.
    pub(crate) fn available(&self, now: Instant) -> i64 {
        let valid = self.grants.iter().filter(|grant| grant.expires >= now);
        valid.fold(0, |sum: i64, grant| sum.saturating_add(grant.amount))
    }

    /// Uses an amount, all or nothing. Returns whether there was enough, and what is to be fetched.
    pub(crate) fn check(&mut self, amount: i64, now: Instant) -> (bool, Option<Fetch>) {
        // One that is used up before its answer stays, for the answer to find that it was granted.
        self.grants.retain(|grant| grant.is_ahead || (grant.expires >= now && grant.amount > 0));
        let fetch = self.attempt(amount, now);
        self.counter.add(amount.max(0), now);
        let is_enough = self.available(now) >= amount;
        let mut left = if is_enough { amount } else { 0 };
        for grant in &mut self.grants {
            let taken = grant.amount.min(left).max(0);
            grant.amount -= taken;
            left -= taken;
        }
        (is_enough, fetch)
    }

    fn attempt(&mut self, amount: i64, now: Instant) -> Option<Fetch> {
        let waits = self.last_attempt.is_some_and(|last| now.saturating_duration_since(last) < CLOSE_WAIT);
        if self.mode == Mode::Close && (self.in_flight > 0 || waits) {
            return None;
        }
        let available = self.available(now);
        let desired = self.counter.total(now).max(LEAST);
        if !((available < desired / 2 && self.in_flight == 0) || available < amount)
            || self.grants.len() >= MAX_GRANTS
        {
            return None;
        }
        let fetch = Fetch { attempt: self.next, amount: amount.max(desired) };
        self.next += 1;
        self.in_flight += 1;
        self.last_attempt = Some(now);
        if available == 0 && self.mode == Mode::Open {
            let (attempt, amount) = (fetch.attempt, fetch.amount);
            self.grants.push_back(Grant { attempt, amount, expires: now + VALIDITY, is_ahead: true });
        }
        Some(fetch)
    }

    /// Takes the answer to a fetch: what was granted and for how long, or `None` if the call failed, which grants everything.
    pub(crate) fn answer(&mut self, fetch: Fetch, granted: Option<(i64, Option<Duration>)>, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (granted, valid) = granted.unwrap_or((fetch.amount, None));
        let granted = granted.clamp(0, fetch.amount);
        // A validity beyond what can be represented is a long one.
        let expires = now.checked_add(valid.unwrap_or(VALIDITY)).unwrap_or(now + VALIDITY);
        self.mode = if granted == fetch.amount { Mode::Open } else { Mode::Close };
        let own = self.grants.iter_mut().find(|grant| grant.attempt == fetch.attempt);
        let Some(own) = own else {
            if granted > 0 {
                let attempt = fetch.attempt;
                self.grants.push_back(Grant { attempt, amount: granted, expires, is_ahead: false });
            }
            return;
        };
        (own.expires, own.is_ahead) = (expires, false);
        let mut shortfall = fetch.amount - granted;
        let taken = own.amount.min(shortfall);
        own.amount -= taken;
        shortfall -= taken;
        for grant in &mut self.grants {
            let taken = grant.amount.min(shortfall).max(0);
            grant.amount -= taken;
            shortfall -= taken;
        }
    }
}

/// What was used during the last second.
#[derive(Debug)]
struct Counter {
    parts: [i64; PARTS],
    start: Instant,
    /// The number of the part that was used last, since the start.
    at: u128,
}

impl Counter {
    fn new(start: Instant) -> Self {
        Self { parts: [0; PARTS], start, at: 0 }
    }

    /// Clears the parts between the last one and the current one.
    fn advance(&mut self, now: Instant) -> usize {
        let length = WINDOW.as_nanos() / PARTS as u128;
        let current = now.saturating_duration_since(self.start).as_nanos() / length;
        let passed = current.saturating_sub(self.at).min(PARTS as u128);
        for step in 0..passed {
            if let Some(part) = self.parts.get_mut(place(current - step)) {
                *part = 0;
            }
        }
        self.at = self.at.max(current);
        place(self.at)
    }

    fn add(&mut self, amount: i64, now: Instant) {
        let at = self.advance(now);
        if let Some(part) = self.parts.get_mut(at) {
            *part = part.saturating_add(amount);
        }
    }

    fn total(&mut self, now: Instant) -> i64 {
        self.advance(now);
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

fn place(part: u128) -> usize {
    usize::try_from(part % PARTS as u128).unwrap_or(0)
}
