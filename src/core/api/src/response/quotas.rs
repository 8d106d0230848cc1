//! Encodes the quotas of a CheckResponse.

use std::ops::ControlFlow;

use super::ResponseBuilder;
use crate::pipeline::QuotaSink;
use mixer_attribute::AttributeBag;
use mixer_attribute::response::{QuotaGrant, forbid_reuse, push_quota};
use mixer_base::rate_limit::RateLimit;
use mixer_engine::dispatch::{DispatchError, QuotaOutcome, QuotaRequest};
use mixer_engine::secret_values::for_log;

/// The names of quotas of which nothing was granted.
#[derive(Debug, Default)]
pub(crate) struct Ungranted {
    exhausted: String,
    failed: String,
}

impl Ungranted {
    fn push(&mut self, name: &str, has_failed: bool) {
        let names = if has_failed { &mut self.failed } else { &mut self.exhausted };
        if !names.is_empty() {
            names.push(',');
        }
        names.push_str(name);
    }

    /// The names, joined with commas, and the message of a refusal; `None` if there are none.
    pub(crate) fn refusal(&self) -> Option<(String, String)> {
        let Self { exhausted, failed } = self;
        let (names, message) = match (exhausted.is_empty(), failed.is_empty()) {
            (true, true) => return None,
            (false, true) => (exhausted.clone(), format!("Quota is exhausted for: {exhausted}")),
            (true, false) => (failed.clone(), format!("Quota failed: {failed}")),
            (false, false) => (
                format!("{exhausted},{failed}"),
                format!("Quota is exhausted for: {exhausted}; quota failed: {failed}"),
            ),
        };
        Some((names, message))
    }
}

impl QuotaSink for ResponseBuilder<'_> {
    fn allocated(
        &mut self,
        quota: QuotaRequest<'_>,
        result: Result<QuotaOutcome, DispatchError>,
        bag: &AttributeBag<'_>,
    ) -> ControlFlow<()> {
        let grant = match &result {
            Ok(outcome) => {
                QuotaGrant { valid_duration: outcome.valid_duration, granted_amount: outcome.granted }
            }
            Err(error) => {
                /// Callers choose how many quotas fail.
                static LOGGED: RateLimit = RateLimit::at(20, concat!(file!(), ":", line!()));
                if LOGGED.admit_or_note().is_some() {
                    let error = for_log(error, bag, self.secrets);
                    tracing::warn!(target: "api", "Quota failure: performing quota alloc failed: {error}");
                }
                QuotaGrant::default()
            }
        };
        // A part of what was asked for lets requests pass.
        if grant.granted_amount == 0 && quota.amount > 0 {
            self.ungranted.push(quota.name, result.is_err());
        }
        let (global_word_count, reads) = (self.global_word_count, self.reads());
        push_quota(&mut self.out, quota.name, grant, |out| {
            bag.encode_references(global_word_count, reads, out)
        });
        // Proxies take from the tokens of a quota only while they reuse the answer to the check.
        if self.confuses_proxies(bag) {
            forbid_reuse(&mut self.out);
        }
        ControlFlow::Continue(())
    }
}
