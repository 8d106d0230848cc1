//! The client's side of Mixer's API, without I/O and without clocks: what any client that asks and reports needs beside a connection.
//!
//! | type | subject |
//! | --- | --- |
//! | [`DecisionCache`] | answers of checks, by the attributes that decided them |
//! | [`QuotaCache`] | amounts of quotas that were fetched ahead |
//! | [`ReportBatch`] | reports that are sent together |
//! | [`Verdict`] | what a CheckResponse says of a request |
//!
//! Nothing here is shared between threads: each worker has its own. Times are instants of the monotonic clock that the caller passes.
//!
//! ```ignore
//! let verdict = match cache.get(b"", &attributes, now) {
//!     Some(verdict) => verdict,
//!     None => {
//!         let answer = ask(&attributes).await;
//!         let verdict = Rc::new(Verdict::of(&answer));
//!         if let Some(lifetime) = verdict.lifetime(now) {
//!             cache.insert(b"", &attributes, &answer.referenced_attributes, GLOBAL_WORDS.len(), Rc::clone(&verdict), lifetime);
//!         }
//!         verdict
//!     }
//! };
//! ```

mod batch;
mod cache;
mod prefetch;
mod quota;
mod shape;
#[cfg(test)]
mod tests;
mod verdict;

pub use batch::{BatchLimits, ReportBatch};
pub use cache::{CacheLimits, CachedValue, DecisionCache, Lifetime};
pub use quota::{QuotaCache, QuotaOutcome, QuotaRequest};
pub use verdict::{Directive, HeaderEdit, Verdict};
