//! Encodes a CheckResponse from the results of the phases.

use std::ops::ControlFlow;

use super::grpc::begin_message;
use super::pipeline::{Cacheable, DecisionSink};
use mixer_attribute::AttributeBag;
use mixer_attribute::response::{
    HeaderAction, HeaderOperation, Precondition, QuotaGrant, RouteDirective, push_precondition, push_quota,
};
use mixer_engine::adapter::Status;
use mixer_engine::check_cache::CheckAnswer;
use mixer_engine::dispatch::{self, CheckOutcome, DispatchError, QuotaOutcome, QuotaRequest};
use mixer_engine::snapshot::HeaderOperationKind;

/// Encodes a CheckResponse as the phases complete.
pub(super) struct ResponseBuilder {
    global_word_count: u32,
    pub(super) status: Status,
    pub(super) out: Vec<u8>,
}

impl ResponseBuilder {
    pub(super) fn new(global_word_count: u32) -> Self {
        let mut out = Vec::with_capacity(256);
        begin_message(&mut out);
        Self { global_word_count, status: Status::default(), out }
    }
}

impl DecisionSink for ResponseBuilder {
    type Answer = CheckAnswer;

    fn checked(
        &mut self,
        outcome: CheckOutcome,
        bag: &AttributeBag<'_>,
        is_cacheable: bool,
    ) -> Option<Cacheable<CheckAnswer>> {
        let cacheable = is_cacheable.then(|| {
            let mut references = Vec::new();
            bag.encode_references(self.global_word_count, &mut references);
            let answer = CheckAnswer {
                status_code: outcome.status.code,
                status_message: outcome.status.message.clone(),
                valid_use_count: outcome.valid_use_count,
                references,
                directive: outcome.directive.as_ref().map(encode_directive),
            };
            answer.push(outcome.valid_duration, &mut self.out);
            Cacheable { answer, valid: outcome.valid_duration.to_std_or_zero() }
        });
        if cacheable.is_none() {
            push_outcome(&outcome, bag, self.global_word_count, &mut self.out);
        }
        self.status = outcome.status;
        cacheable
    }

    fn allocated(
        &mut self,
        quota: QuotaRequest<'_>,
        result: Result<QuotaOutcome, DispatchError>,
        bag: &AttributeBag<'_>,
    ) -> ControlFlow<()> {
        let grant = match result {
            Ok(outcome) => {
                QuotaGrant { valid_duration: outcome.valid_duration, granted_amount: outcome.granted }
            }
            Err(error) => {
                tracing::warn!(target: "api", "Quota failure: performing quota alloc failed: {error}");
                QuotaGrant::default()
            }
        };
        push_quota(&mut self.out, quota.name, grant, |out| {
            bag.encode_references(self.global_word_count, out)
        });
        ControlFlow::Continue(())
    }
}

/// Appends the precondition result of a CheckResponse, with the references of `bag`.
fn push_outcome(outcome: &CheckOutcome, bag: &AttributeBag<'_>, global_word_count: u32, out: &mut Vec<u8>) {
    let directive = outcome.directive.as_ref().map(encode_directive);
    let precondition = Precondition {
        status_code: outcome.status.code,
        status_message: &outcome.status.message,
        valid_duration: outcome.valid_duration,
        valid_use_count: outcome.valid_use_count,
        route_directive: directive.as_deref(),
    };
    push_precondition(out, &precondition, |out| bag.encode_references(global_word_count, out));
}

/// An encoded `RouteDirective`.
pub fn encode_directive(directive: &dispatch::RouteDirective) -> Vec<u8> {
    fn operations(changes: &[dispatch::HeaderChange]) -> impl Iterator<Item = HeaderOperation<'_>> {
        changes.iter().map(|change| HeaderOperation {
            name: &change.name,
            value: &change.value,
            action: match change.kind {
                HeaderOperationKind::Replace => HeaderAction::Replace,
                HeaderOperationKind::Remove => HeaderAction::Remove,
                HeaderOperationKind::Append => HeaderAction::Append,
            },
        })
    }
    let mut out = Vec::new();
    RouteDirective {
        request_headers: operations(&directive.request_headers),
        response_headers: operations(&directive.response_headers),
        direct_response_code: directive.direct_response_code,
        direct_response_body: &directive.direct_response_body,
    }
    .encode(&mut out);
    out
}
