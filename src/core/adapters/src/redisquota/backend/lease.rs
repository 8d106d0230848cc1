//! Leases: shares of windows in Redis, from which a server grants without asking.
//!
//! [`Lease`] is the state machine of one server for one window. It does no I/O and has no clock: times are passed in. A server exchanges what
//! it holds for a new share, one [`Request`] at a time:
//!
//! - Redis counts a share as used from the moment it hands it out, so shares and grants together are never more than the limit.
//! - A request says what was granted from shares so far ([`spent`](Request::spent), a total) and what of them is kept. Redis replaces what it
//!   counted for the lease by that, so what is neither granted nor kept is available again. It does not matter which of the requests
//!   before arrived: the share of an answer that was lost is given back by the next request.
//! - Requests are numbered. Redis repeats its answer to the last one, and ignores those that were overtaken.
//! - A share can be granted for a lease time from when the request for it was *sent*, by the monotonic clock of the server, less a margin for
//!   the rates of the clocks, and not after the end of its window. Redis counts it for a lease time from when the request *arrived*.
//! - A share of a server that died counts as granted, because nobody knows how much of it was.
//!
//! The scripts are in `scripts/`; `lease/model.rs` is a model of them, and `lease/simulation.rs` runs both with lost and delayed messages.

#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// A lease lasts a 64th less for its server, whose clock may be slower than that of Redis.
const RATE_MARGIN: u64 = 64;
/// For how many lease times Redis remembers a lease that is not renewed.
pub(super) const REMEMBERED: u64 = 4;
/// Largest limit of which shares are leased: twice as much is the largest integer up to which doubles, in which scripts count, have them all.
pub(super) const MAX_LIMIT: i64 = 1 << 52;
/// Longest pause in which a server that was refused does not ask again, in nanoseconds.
const LONGEST_REFUSAL: u64 = 50_000_000;
/// Longest pause between two requests for which no call waits, in nanoseconds.
const LONGEST_SPACING: u64 = 10_000_000;

/// What a server sends to Redis. The script gets the limit, the window and the id of the lease besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Counts the requests of the lease from 1.
    pub(super) number: u64,
    /// All that was granted from shares of the lease.
    pub(super) spent: i64,
    /// The part of it that an answer acknowledged.
    pub(super) acknowledged: i64,
    /// What the server keeps of what it holds.
    pub(super) keep: i64,
    /// The window of which it holds that; 0 before the first answer.
    pub(super) window: i64,
    /// What calls wait for.
    pub(super) need: i64,
    /// Less than this is of no use to them.
    pub(super) least: i64,
    /// What the server wants besides, for calls to come. It holds at most an eighth of what remains.
    pub(super) extra: i64,
}

/// What Redis answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    /// The new share.
    pub(super) granted: i64,
    /// What is kept: as requested, or 0 if the window of it is over.
    pub(super) kept: i64,
    /// The window, by its end on the clock of Redis; 0 for rolling windows.
    pub(super) window: i64,
    /// For how long a grant is valid, in nanoseconds.
    pub(super) valid: u64,
    /// What others can still get.
    pub(super) available: i64,
}

/// What a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// So much, for so many nanoseconds.
    Granted(i64, u64),
    /// Nothing: there was not enough a moment ago.
    Refused,
    /// Nothing before the next answer.
    Waits,
}

/// What a lease needs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// This request is to be sent.
    Send(Request),
    /// Nothing before this time.
    Later(u64),
    /// Nothing: there is nothing to give back.
    Rest,
    /// Redis has forgotten the lease. Another one begins; what was held of this one is lost.
    Lost(i64),
}

/// What a lease is, for operators. Times are those of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseStatus {
    /// The limit of the window.
    pub(super) limit: i64,
    /// What is granted of the window, and what servers hold of it, as far as it is known.
    pub(super) used: i64,
    /// When Redis said so.
    pub(super) known_at: u64,
    /// The share, less what was given back of it.
    pub(super) share: i64,
    /// What was granted of it.
    pub(super) granted: i64,
    /// From when on the rest cannot be granted.
    pub(super) ends: u64,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    request: Request,
    at: u64,
}

/// The lease of a server on shares of one window. Times are nanoseconds of a monotonic clock; amounts are those of calls.
#[derive(Debug)]
pub(super) struct Lease {
    /// How long a share lasts.
    length: u64,
    /// The limit of the window.
    limit: i64,
    /// Which lease of the window it is: a lease that Redis has forgotten is followed by another.
    generation: u32,
    number: u64,
    sent: Option<Sent>,
    held: i64,
    /// What was held after the last answer, less what was given back.
    share: i64,
    /// What others could get at the last answer, and when that was.
    known: Option<(i64, u64)>,
    /// From when on what is held cannot be granted.
    ends: u64,
    window: i64,
    /// Until when a grant is valid.
    valid_until: u64,
    spent: i64,
    acknowledged: i64,
    /// Whether Redis may count a share that is not held, because an answer did not arrive.
    is_unsettled: bool,
    /// When Redis has forgotten the lease.
    forgotten_at: u64,
    /// Nothing is requested before, except for calls that wait.
    pause_until: u64,
    demand: Demand,
    /// What calls wait for that no request has asked for.
    waiting: i64,
    least: i64,
    refusal: Refusal,
}

/// How much is asked for.
#[derive(Debug, Default)]
struct Demand {
    /// Since the last request.
    asked: i64,
    /// When that was.
    since: u64,
    last_call: u64,
    /// A nanosecond.
    rate: f64,
    /// The share for half a lease time.
    target: i64,
}

/// What is known not to be available.
#[derive(Debug, Default)]
struct Refusal {
    /// What was available.
    available: i64,
    /// Until when that counts.
    until: u64,
}

impl Lease {
    /// A lease of shares that last `length` nanoseconds, of a window with this limit.
    pub(super) fn new(length: u64, limit: i64, now: u64) -> Self {
        Self {
            length,
            limit,
            generation: 0,
            number: 0,
            sent: None,
            held: 0,
            share: 0,
            known: None,
            ends: 0,
            window: 0,
            valid_until: 0,
            spent: 0,
            acknowledged: 0,
            is_unsettled: false,
            forgotten_at: 0,
            pause_until: 0,
            demand: Demand { since: now, last_call: now, ..Demand::default() },
            waiting: 0,
            least: i64::MAX,
            refusal: Refusal::default(),
        }
    }

    /// Which lease of the window it is.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// What can be granted without asking.
    pub(super) fn held(&self, now: u64) -> i64 {
        if now < self.ends { self.held } else { 0 }
    }

    /// What Redis counts as held: also what cannot be granted any more.
    pub(super) fn total_held(&self) -> i64 {
        self.held
    }

    /// What is known of its window; `None`: nothing, or the window is over.
    pub(super) fn status(&self, now: u64) -> Option<LeaseStatus> {
        let (available, known_at) = self.known.filter(|_| now < self.valid_until)?;
        Some(LeaseStatus {
            limit: self.limit,
            used: self.limit.saturating_sub(available).saturating_sub(self.held(now)).max(0),
            known_at,
            share: self.share,
            granted: self.share.saturating_sub(self.held).max(0),
            ends: self.ends,
        })
    }

    /// Whether a request is under way.
    pub(super) fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether it should be filled up now.
    pub(super) fn is_low(&self, now: u64) -> bool {
        let held = self.held(now);
        let may_ask = self.sent.is_none() && now >= self.pause_until && now >= self.refusal.until;
        held > 0 && held < self.demand.target / 2 && may_ask
    }

    /// A call for `amount` > 0, or for what there is of it. `is_new`: it did not wait before.
    pub(super) fn call(&mut self, now: u64, amount: i64, best_effort: bool, is_new: bool) -> Outcome {
        if is_new {
            self.demand.asked = self.demand.asked.saturating_add(amount);
            self.demand.last_call = now;
        }
        let held = self.held(now);
        if amount <= held {
            return self.grant(now, amount);
        }
        if now < self.refusal.until {
            let most = held.saturating_add(self.refusal.available);
            if most == 0 || (!best_effort && amount > most) {
                return Outcome::Refused;
            }
            if best_effort && self.refusal.available == 0 {
                return self.grant(now, held);
            }
        }
        self.waiting = self.waiting.saturating_add(amount);
        self.least = self.least.min(if best_effort { 1 } else { amount - held });
        Outcome::Waits
    }

    fn grant(&mut self, now: u64, amount: i64) -> Outcome {
        self.held -= amount;
        self.spent += amount;
        Outcome::Granted(amount, self.valid_until.saturating_sub(now))
    }

    /// What it needs now. A request is to be sent at once. `patience`: when a request without an answer is given up, in nanoseconds.
    pub(super) fn step(&mut self, now: u64, patience: u64) -> Step {
        if let Some(sent) = self.sent {
            let due = sent.at.saturating_add(patience);
            if now < due {
                return Step::Later(due);
            }
            self.fail(now);
        }
        if self.number > 0 && now >= self.forgotten_at {
            // What was spent and not acknowledged counts already, as a part of the share.
            return Step::Lost(self.renew());
        }
        if self.waiting > 0 {
            return Step::Send(self.request(now, false));
        }
        let held = self.held(now);
        let due = if self.is_unsettled {
            Some(self.pause_until)
        } else if held > 0 && held < self.target(now) / 2 {
            Some(self.pause_until.max(self.refusal.until).min(self.renewal()))
        } else if self.held > 0 {
            Some(self.pause_until.max(self.renewal()))
        } else {
            None
        };
        match due {
            None => Step::Rest,
            Some(due) if due > now => Step::Later(due),
            Some(_) => Step::Send(self.request(now, false)),
        }
    }

    /// The request that gives back everything, whether or not another one is under way; `None` if there is nothing to give back.
    pub(super) fn settle(&mut self, now: u64) -> Option<Request> {
        self.is_unsettled |= self.sent.take().is_some();
        let has_any = self.held > 0 || self.is_unsettled;
        (has_any && now < self.forgotten_at).then(|| self.request(now, true))
    }

    /// When what is held is reported, and asked for again or given back: half a lease time after the last request, or after the last call.
    fn renewal(&self) -> u64 {
        let half = self.length / 2;
        let (since, idle) = (self.demand.since, self.demand.last_call.saturating_add(half));
        if since < idle { idle.min(since.saturating_add(half)) } else { since.saturating_add(half) }
    }

    /// The share wanted: none if no call came for half a lease time.
    fn target(&self, now: u64) -> i64 {
        let is_idle = now.saturating_sub(self.demand.last_call) >= self.length / 2;
        if is_idle { 0 } else { self.demand.target }
    }

    fn request(&mut self, now: u64, is_last: bool) -> Request {
        self.measure(now);
        // A total that is about to be too large for scripts is that of another lease.
        let is_last = is_last || self.spent >= MAX_LIMIT;
        let target = if is_last { 0 } else { self.target(now) };
        let held = self.held(now);
        let waiting = if is_last { 0 } else { self.waiting };
        // A little more than wanted is kept: it is about to be used.
        let keep =
            if held > target.saturating_add(target / 2) { held.min(target.max(waiting)) } else { held };
        let spare = (keep - waiting).max(0);
        self.number += 1;
        let need = waiting.saturating_sub(keep).max(0);
        let request = Request {
            number: self.number,
            spent: self.spent,
            acknowledged: self.acknowledged,
            keep,
            window: self.window,
            need,
            least: self.least.min(need),
            extra: (target - spare).max(0),
        };
        if self.number == 1 {
            self.forgotten_at = now.saturating_add(self.length.saturating_mul(REMEMBERED - 1));
        }
        // INVARIANT: what is given back is not granted any more, also if the answer is lost.
        self.share = self.share.saturating_sub(self.held - keep);
        self.held = keep;
        self.sent = Some(Sent { request, at: now });
        (self.waiting, self.least) = (0, i64::MAX);
        self.pause_until = now.saturating_add((self.length / 64).min(LONGEST_SPACING));
        request
    }

    /// Estimates how much is asked for in half a lease time.
    fn measure(&mut self, now: u64) {
        let half = (self.length / 2).max(1) as f64;
        let elapsed = now.saturating_sub(self.demand.since).max(1) as f64;
        let asked = self.demand.asked as f64;
        let recent = asked / elapsed;
        let weight = (elapsed / half).min(1.0);
        self.demand.rate += (recent - self.demand.rate) * weight;
        // The first calls say little about the rate: the share doubles.
        let grown = (2.0 * asked).min(recent * half);
        // The first call says nothing.
        let target = if self.number == 0 { 0.0 } else { grown.max(self.demand.rate * half) };
        self.demand.target = (target as i64).min(self.limit);
        (self.demand.asked, self.demand.since) = (0, now);
    }

    /// The answer to the request with this number; one to an earlier request has no effect. Calls that wait are to be repeated. Returns
    /// what Redis does not count any more of what was held.
    pub(super) fn answer(&mut self, now: u64, number: u64, answer: &Answer) -> i64 {
        let Some(sent) = self.sent.filter(|sent| sent.request.number == number) else { return 0 };
        self.sent = None;
        self.is_unsettled = false;
        let mut over = 0;
        if answer.window != self.window || answer.kept < sent.request.keep {
            // The window is over, and with it what was kept.
            over = std::mem::take(&mut self.held);
            self.spent = sent.request.spent;
        }
        self.held = self.held.saturating_add(answer.granted.max(0));
        // What was granted since the request was sent is used of the new share.
        self.share = self.held.saturating_add(self.spent - sent.request.spent);
        self.known = Some((answer.available.max(0), now));
        self.acknowledged = sent.request.spent;
        self.window = answer.window;
        let lasts = self.length.min(answer.valid);
        self.ends = sent.at.saturating_add(lasts - lasts / RATE_MARGIN);
        self.valid_until = sent.at.saturating_add(answer.valid);
        self.forgotten_at = self.ends.saturating_add(self.length.saturating_mul(REMEMBERED - 2));
        let wanted = sent.request.need.saturating_add(sent.request.extra);
        let is_exhausted = answer.granted == 0 && wanted > 0 && answer.available < wanted;
        let is_short = answer.granted < sent.request.need || is_exhausted;
        let pause = (self.length / 8).min(LONGEST_REFUSAL);
        let until = if is_short { now.saturating_add(pause.min(answer.valid.max(pause / 8))) } else { 0 };
        self.refusal = Refusal { available: answer.available.max(0), until };
        if self.spent >= MAX_LIMIT && self.held == 0 {
            self.renew();
        }
        over
    }

    /// The request under way has no answer. Calls that wait have failed.
    pub(super) fn fail(&mut self, now: u64) {
        if self.sent.take().is_some() {
            self.is_unsettled = true;
            self.pause_until = now.saturating_add(self.length / 8);
        }
        (self.waiting, self.least) = (0, i64::MAX);
    }

    /// Begins another lease. Returns what was held of this one.
    fn renew(&mut self) -> i64 {
        let lost = self.held;
        let fresh = Self::new(self.length, self.limit, self.demand.since);
        let old = std::mem::replace(self, fresh);
        self.generation = old.generation.wrapping_add(1);
        self.demand = old.demand;
        (self.waiting, self.least) = (old.waiting, old.least);
        lost
    }

    /// Whether nothing is lost by forgetting it.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let has_calls = now.saturating_sub(self.demand.last_call) < self.length;
        !has_calls
            && self.held == 0
            && !self.is_unsettled
            && self.sent.is_none()
            && self.waiting == 0
            && now >= self.refusal.until
    }
}
