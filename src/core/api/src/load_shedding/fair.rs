//! Who uses how much: shares of callers under overload.

use std::time::{Duration, Instant};

/// Callers that are told apart. More than these share accounts, by a hash: memory is bounded, and nobody gains by many addresses.
const ACCOUNTS: usize = 256;
/// After how long what a caller used counts half.
const HALF_LIFE: Duration = Duration::from_secs(1);
/// A caller that asked for nothing for this long takes no part.
const ACTIVE: Duration = Duration::from_secs(2);
/// How often it is counted who takes part.
const COUNT: Duration = Duration::from_millis(100);

/// What one caller used.
#[derive(Debug, Clone, Copy)]
struct Account {
    used: f64,
    updated: Instant,
    asked: Option<Instant>,
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
    /// Callers that take part, and what one of them uses on average.
    active: usize,
    mean: f64,
}

impl Shares {
    pub(super) fn new(now: Instant) -> Self {
        let empty = Account { used: 0.0, updated: now, asked: None };
        Self { accounts: vec![empty; ACCOUNTS], counted: None, active: 0, mean: 0.0 }
    }

    /// Whether `caller`, who asks now, has used more than those who take part do on average. Somebody alone never has.
    pub(super) fn is_over_its_share(&mut self, caller: u64, now: Instant) -> bool {
        if let Some(account) = self.account(caller) {
            account.asked = Some(now);
        }
        if self.counted.is_none_or(|counted| now.saturating_duration_since(counted) >= COUNT) {
            self.count(now);
        }
        let mean = self.mean;
        self.active > 1 && self.account(caller).is_some_and(|account| account.used(now) > mean)
    }

    /// Charges a call that was taken.
    pub(super) fn charge(&mut self, caller: u64, cost: usize, now: Instant) {
        if let Some(account) = self.account(caller) {
            *account = Account { used: account.used(now) + cost as f64, updated: now, asked: account.asked };
        }
    }

    fn account(&mut self, caller: u64) -> Option<&mut Account> {
        let index = usize::try_from(caller % ACCOUNTS as u64).unwrap_or(0);
        self.accounts.get_mut(index)
    }

    fn count(&mut self, now: Instant) {
        let takes_part =
            |account: &&Account| account.asked.is_some_and(|at| now.saturating_duration_since(at) < ACTIVE);
        let (count, used) = self
            .accounts
            .iter()
            .filter(takes_part)
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
    fn somebody_alone_is_never_over_its_share() {
        let start = Instant::now();
        let mut shares = Shares::new(start);
        shares.charge(1, 1000, start);
        assert!(!shares.is_over_its_share(1, start));
    }

    #[test]
    fn those_above_the_mean_are_over_until_it_is_forgotten() {
        let start = Instant::now();
        let mut shares = Shares::new(start);
        shares.is_over_its_share(2, start);
        shares.charge(1, 100, start);
        shares.charge(2, 10, start);
        let later = start + Duration::from_millis(200);
        assert!(shares.is_over_its_share(1, later) || shares.is_over_its_share(1, later + COUNT));
        assert!(!shares.is_over_its_share(2, later + COUNT));
        // The other one left: nobody to share with.
        let alone = start + Duration::from_secs(10);
        assert!(!shares.is_over_its_share(1, alone));
    }
}
