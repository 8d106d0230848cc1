//! Quotas: amounts that were fetched ahead, by the attributes that their dimensions depend on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mixer_attribute::OwnedAttributes;
use mixer_wire::istio::mixer::v1::check_response::QuotaResult;

use crate::cache::{CacheLimits, CachedValue, DecisionCache, Lifetime};
use crate::prefetch::{Fetch, Prefetcher};
use crate::verdict::duration;

/// Time without a use after which amounts are forgotten.
const IDLE: Duration = Duration::from_secs(600);
/// Most names of quotas that wait for their first answer. Names come from the configuration.
const MAX_PENDING: usize = 1024;

/// What is shared between the cache, the names that wait, and fetches in flight.
type Shared = Rc<RefCell<Prefetcher>>;

impl CachedValue for Shared {
    fn heap_bytes(&self) -> usize {
        // A constant, so that an entry does not change its size while it is in a table. A grant has 40 bytes, and few are kept.
        1024
    }
}

/// An amount that is to be fetched, with `best_effort`. Its answer must be passed to [`QuotaCache::answer`], failed or not.
#[derive(Debug)]
pub struct QuotaRequest {
    /// The name of the quota.
    pub name: String,
    fetch: Fetch,
    prefetcher: Shared,
}

impl QuotaRequest {
    /// The amount to ask for.
    pub fn amount(&self) -> i64 {
        self.fetch.amount
    }
}

/// What a request gets.
#[derive(Debug, Default)]
pub struct QuotaOutcome {
    /// Quotas of which there is not enough; empty if the request may pass.
    pub exhausted: Vec<String>,
    /// What is to be fetched, whoever waits for it.
    pub requests: Vec<QuotaRequest>,
}

/// Amounts of quotas that were fetched ahead. Spec: proxy.md, "Quota".
#[derive(Debug)]
pub struct QuotaCache {
    /// By the attributes of the answers, with the name as scope.
    known: DecisionCache<Shared>,
    /// By name, until the first answer.
    pending: HashMap<String, Shared>,
}

impl QuotaCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> Self {
        Self { known: DecisionCache::new(limits).with_idle_expiry(IDLE), pending: HashMap::new() }
    }

    /// Charges a request.
    pub fn check(
        &mut self,
        attributes: &OwnedAttributes,
        quotas: &[(String, i64)],
        now: Instant,
    ) -> QuotaOutcome {
        let mut outcome = QuotaOutcome::default();
        for (name, charge) in quotas {
            let prefetcher = match self.known.get(name.as_bytes(), attributes, now) {
                Some(known) => known,
                None => {
                    if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(name) {
                        self.pending.clear();
                    }
                    let new = || Rc::new(RefCell::new(Prefetcher::new(now)));
                    Rc::clone(self.pending.entry(name.clone()).or_insert_with(new))
                }
            };
            let (is_enough, fetch) = prefetcher.borrow_mut().check(*charge, now);
            if !is_enough {
                outcome.exhausted.push(name.clone());
            }
            outcome.requests.extend(fetch.map(|fetch| QuotaRequest {
                name: name.clone(),
                fetch,
                prefetcher,
            }));
        }
        outcome
    }

    /// Takes the answer to a fetch for a request with these attributes; `None` if the call failed. `global_words` as in
    /// [`DecisionCache::insert`].
    pub fn answer(
        &mut self,
        attributes: &OwnedAttributes,
        request: QuotaRequest,
        result: Option<&QuotaResult>,
        global_words: usize,
        now: Instant,
    ) {
        let granted =
            result.map(|result| (result.granted_amount, result.valid_duration.as_ref().map(duration)));
        request.prefetcher.borrow_mut().answer(request.fetch, granted, now);
        let is_pending = self.pending.get(&request.name).is_some_and(|p| Rc::ptr_eq(p, &request.prefetcher));
        let (Some(references), true) = (result.and_then(|r| r.referenced_attributes.as_ref()), is_pending)
        else {
            return;
        };
        let scope = request.name.as_bytes();
        if self.known.get(scope, attributes, now).is_some() {
            // Another request was faster; its amounts stay.
            self.pending.remove(&request.name);
            return;
        }
        let lifetime = Lifetime { since: now, expires: now.checked_add(IDLE), uses: None };
        if self.known.insert(scope, attributes, references, global_words, request.prefetcher, lifetime) {
            self.pending.remove(&request.name);
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.known.len() + self.pending.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
