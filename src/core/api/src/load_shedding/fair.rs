//! Fair shares of callers under overload.

use std::time::{Duration, Instant};

/// Number of accounts. Callers are assigned by hash: memory is bounded, and many addresses gain nothing.
const ACCOUNTS: usize = 256;
/// After this time past usage counts half.
const HALF_LIFE: Duration = Duration::from_secs(1);
/// A caller without calls for this long is inactive.
const ACTIVE: Duration = Duration::from_secs(2);
/// How often active callers are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// The usage of the callers of one account.
#[derive(Debug, Clone, Copy)]
struct Account {
    used: f64,
    updated: Instant,
    called: Option<Instant>,
}

impl Account {
    fn used(&self, now: Instant) -> f64 {
        let idle = now.saturating_duration_since(self.updated).as_secs_f64();
        self.used * (-idle / HALF_LIFE.as_secs_f64()).exp2()
    }
}

/// The accounts of all callers.
#[derive(Debug)]
pub(super) struct Shares {
    accounts: Vec<Account>,
    counted: Option<Instant>,
    /// Active accounts, and their mean usage.
    active: usize,
    mean: f64,
}

impl Shares {
    pub(super) fn new(now: Instant) -> Self {
        let empty = Account { used: 0.0, updated: now, called: None };
        Self { accounts: vec![empty; ACCOUNTS], counted: None, active: 0, mean: 0.0 }
    }

    /// Whether `caller`, which is calling now, is above the mean usage of active callers. A single active caller never is.
    pub(super) fn is_over_its_share(&mut self, caller: u64, now: Instant) -> bool {
        if let Some(account) = self.account(caller) {
            account.called = Some(now);
        }
        if self.counted.is_none_or(|counted| now.saturating_duration_since(counted) >= COUNT_INTERVAL) {
            self.count(now);
        }
        let mean = self.mean;
        self.active > 1 && self.account(caller).is_some_and(|account| account.used(now) > mean)
    }

    /// Charges an admitted call.
    pub(super) fn charge(&mut self, caller: u64, cost: usize, now: Instant) {
        if let Some(account) = self.account(caller) {
            *account =
                Account { used: account.used(now) + cost as f64, updated: now, called: account.called };
        }
    }

    fn account(&mut self, caller: u64) -> Option<&mut Account> {
        let index = usize::try_from(caller % ACCOUNTS as u64).unwrap_or(0);
        self.accounts.get_mut(index)
    }

    fn count(&mut self, now: Instant) {
        let is_active =
            |account: &&Account| account.called.is_some_and(|at| now.saturating_duration_since(at) < ACTIVE);
        let (count, used) = self
            .accounts
            .iter()
            .filter(is_active)
            .fold((0_usize, 0.0), |(count, used), account| (count + 1, used + account.used(now)));
        self.active = count;
        self.mean = used / count.max(1) as f64;
        self.counted = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_caller_is_never_over_its_share() {
        let start = Instant::now();
        let mut shares = Shares::new(start);
        shares.charge(1, 1000, start);
        assert!(!shares.is_over_its_share(1, start));
    }

    #[test]
    fn a_caller_above_the_mean_is_over_until_its_usage_decays() {
        let start = Instant::now();
        let mut shares = Shares::new(start);
        shares.is_over_its_share(2, start);
        shares.charge(1, 100, start);
        shares.charge(2, 10, start);
        let later = start + Duration::from_millis(200);
        assert!(shares.is_over_its_share(1, later) || shares.is_over_its_share(1, later + COUNT_INTERVAL));
        assert!(!shares.is_over_its_share(2, later + COUNT_INTERVAL));
        // The other caller is inactive.
        let alone = start + Duration::from_secs(10);
        assert!(!shares.is_over_its_share(1, alone));
    }
}
