//! Encodes the quotas of a CheckResponse.

use std::ops::ControlFlow;

use super::ResponseBuilder;
use crate::pipeline::QuotaSink;
use mixer_attribute::AttributeBag;
use mixer_attribute::response::{QuotaGrant, forbid_reuse, push_quota};
use mixer_engine::dispatch::{DispatchError, QuotaOutcome, QuotaRequest};

impl QuotaSink for ResponseBuilder {
    fn allocated(
        &mut self,
        quota: QuotaRequest<'_>,
        result: Result<QuotaOutcome, DispatchError>,
        bag: &AttributeBag<'_>,
    ) -> ControlFlow<()> {
        let grant = match result {
            Ok(outcome) => {
                // A part of what was asked for lets requests pass.
                if outcome.granted == 0 && quota.amount > 0 {
                    if !self.exhausted.is_empty() {
                        self.exhausted.push(',');
                    }
                    self.exhausted.push_str(quota.name);
                }
                QuotaGrant { valid_duration: outcome.valid_duration, granted_amount: outcome.granted }
            }
            Err(error) => {
                tracing::warn!(target: "api", "Quota failure: performing quota alloc failed: {error}");
                QuotaGrant::default()
            }
        };
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
