//! A model of the scripts: what Redis does with one window. A test compares it with Redis, so that the simulation runs what Redis runs.

use std::collections::BTreeMap;

use super::{Answer, REMEMBERED, Request};

/// A window, as configured.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Kind {
    pub(in super::super) limit: i64,
    pub(in super::super) length: i64,
    /// Of a rolling window; 0 for a fixed one.
    pub(in super::super) step: i64,
    pub(in super::super) lease: i64,
}

#[derive(Debug, Clone)]
struct Record {
    number: u64,
    spent: i64,
    share: i64,
    kept: i64,
    window: i64,
    available: i64,
    due: i64,
}

impl Record {
    /// What is counted for the lease.
    fn counted(&self) -> i64 {
        self.share + self.kept
    }
}

/// The state of a window in Redis.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Model {
    pub(in super::super) used: i64,
    /// The end of a fixed window.
    pub(in super::super) ends: Option<i64>,
    in_step: i64,
    /// The begin of the step of a rolling window.
    begun: Option<i64>,
    number: i64,
    /// Amounts and scores of a rolling window, by member.
    data: BTreeMap<String, (i64, i64)>,
    leases: BTreeMap<String, Record>,
    answers: BTreeMap<String, (i64, i64)>,
}

impl Model {
    fn open(&mut self, kind: &Kind, now: i64) -> i64 {
        if kind.step == 0 {
            let ends = self.ends.filter(|ends| now < *ends);
            if ends.is_none() {
                self.used = 0;
            }
            let ends = ends.unwrap_or(i64::MAX).min(now + kind.length);
            self.ends = Some(ends);
            return ends;
        }
        match self.begun {
            None => (self.used, self.in_step, self.number, self.begun) = (0, 0, 0, Some(now)),
            Some(begun) if begun > now => {
                self.begun = Some(now);
                self.data.values_mut().for_each(|(_, score)| *score = now.min(*score));
            }
            Some(_) => {}
        }
        let begun = self.begun.unwrap_or(now);
        if now - begun + 1 > kind.step {
            if self.in_step > 0 {
                self.number += 1;
                self.data.insert(format!("{}.{}", self.number, self.in_step), (self.in_step, begun));
            }
            (self.in_step, self.begun) = (0, Some(now));
        }
        let over = now - kind.length;
        let expired: i64 =
            self.data.values().filter(|(_, score)| *score <= over).map(|(amount, _)| amount).sum();
        self.data.retain(|_, (_, score)| *score > over);
        self.used = (self.used - expired).max(0);
        0
    }

    /// `scripts/lease.lua`.
    pub(in super::super) fn lease(
        &mut self,
        kind: &Kind,
        now: i64,
        id: &str,
        request: &Request,
    ) -> Option<Answer> {
        let known = self.leases.get(id).cloned();
        if known.is_none() {
            self.leases.retain(|_, record| record.due >= now);
        }
        if known.as_ref().is_some_and(|known| request.number < known.number) {
            return None;
        }
        let repeat = |known: &Record, valid: i64| Answer {
            granted: known.share,
            kept: known.kept,
            window: known.window,
            valid: valid.cast_unsigned(),
            available: known.available,
        };
        let repeated = known.as_ref().filter(|known| known.number == request.number);
        if let Some(known) = repeated.filter(|_| kind.step > 0) {
            return Some(repeat(known, kind.length));
        }
        let window = self.open(kind, now);
        let valid = if kind.step > 0 { kind.length } else { window - now };
        if let Some(known) = repeated.filter(|known| known.window == window) {
            return Some(repeat(known, valid));
        }
        let current = known.as_ref().filter(|known| known.window == window);
        if let Some(known) = current {
            let member = format!("{id}-{}.{}", known.number, known.counted());
            if kind.step == 0 || self.data.remove(&member).is_some() {
                self.used = (self.used - known.counted()).max(0);
            }
        }
        let (granted, keep) = match request.window == window {
            true => {
                let before = current.map_or(request.acknowledged, |known| known.spent);
                ((request.spent - before).max(0), request.keep)
            }
            false => (0, 0),
        };
        self.used += granted + keep;
        let available = (kind.limit - self.used).max(0);
        let share = match available >= request.least {
            true => {
                let share = available.min(request.need);
                share + request.extra.min((available - share + keep) / 8 - keep).max(0)
            }
            false => 0,
        };
        self.used += share;
        if kind.step > 0 {
            self.in_step += granted;
            if share + keep > 0 {
                let member = format!("{id}-{}.{}", request.number, share + keep);
                self.data.insert(member, (share + keep, now + kind.lease));
            }
        }
        let record = Record {
            number: request.number,
            spent: request.spent,
            share,
            kept: keep,
            window,
            available: available - share,
            due: now + REMEMBERED.cast_signed() * kind.lease,
        };
        let answer = repeat(&record, valid);
        self.leases.insert(id.to_owned(), record);
        Some(answer)
    }

    /// The scripts that allocate. Returns the grant, and its validity.
    pub(in super::super) fn allocate(
        &mut self,
        kind: &Kind,
        now: i64,
        amount: i64,
        best_effort: bool,
        id: &str,
    ) -> (i64, i64) {
        if let Some((granted, due)) = self.answers.get(id).filter(|(_, due)| now < *due) {
            return (*granted, due - now);
        }
        let window = self.open(kind, now);
        let (valid, due) =
            if kind.step > 0 { (kind.length, now + kind.length) } else { (window - now, window) };
        let available = kind.limit - self.used;
        let granted = match (amount <= available, best_effort && available > 0) {
            _ if kind.step > 0 && amount < 0 => amount,
            (true, _) if kind.step == 0 || available > 0 => amount,
            (false, true) => available,
            _ if kind.step == 0 => return (0, 0),
            _ => 0,
        };
        self.used = (self.used + granted).max(0);
        self.in_step = (self.in_step + granted).max(0);
        if granted > 0 {
            self.answers.insert(id.to_owned(), (granted, due));
        }
        if kind.step > 0 && granted == 0 && (amount > 0 || available <= 0) {
            (0, 0)
        } else {
            (granted, valid)
        }
    }
}
