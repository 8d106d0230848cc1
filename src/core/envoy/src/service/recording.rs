//! Calls of Envoy as exchanges of Mixer's API, for the decision log and recordings.

use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::rate_limit::{LimitCode, LimitStatus};
use mixer_api::encode_directive;
use mixer_api::grpc::GrpcError;
use mixer_api::observers::Observation;
use mixer_attribute::request::{
    CheckCall, ReportWords, Semantics, encode_check_request, encode_report_request,
};
use mixer_attribute::response::{Precondition, QuotaGrant, push_precondition, push_quota};
use mixer_attribute::{AttributeBag, OwnedAttributes, Reads};
use mixer_engine::dispatch::{CheckOutcome, Protocol, QuotaOutcome, QuotaRequest, RouteDirective};

/// The quotas that a check takes, under its deduplication id.
pub(super) struct RequiredQuotas<'q> {
    /// Names and amounts.
    pub(super) quotas: Vec<(&'q str, i64)>,
    pub(super) id: String,
}

impl RequiredQuotas<'_> {
    pub(super) fn requests(&self) -> impl ExactSizeIterator<Item = QuotaRequest<'_>> + Clone {
        self.quotas.iter().map(|(name, amount)| QuotaRequest {
            name,
            amount: *amount,
            best_effort: false,
            deduplication_id: &self.id,
            level: true,
            is_partial: false,
            protocol: Protocol::Envoy,
        })
    }
}

/// A CheckRequest of Mixer under construction, and its CheckResponse.
#[derive(Default)]
pub(super) struct RecordedExchange {
    /// The deduplication id.
    id: String,
    quotas: Vec<(String, i64)>,
    response: Vec<u8>,
    error: Option<GrpcError>,
}

impl RecordedExchange {
    /// A check that takes these quotas.
    pub(super) fn of_check(required: &RequiredQuotas<'_>) -> Self {
        let quotas = required.quotas.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        Self { id: required.id.clone(), quotas, ..Self::default() }
    }

    /// A check of a rate limit descriptor.
    pub(super) fn of_limit(status: &LimitStatus, id: String) -> Self {
        let exchange = Self { id, ..Self::default() };
        match (status.code, &status.exceeds) {
            (LimitCode::OverLimit, Some(limit)) => {
                exchange.with_status(8, &format!("over the limit {}", limit.full_key), None)
            }
            (LimitCode::OverLimit, None) => exchange.with_status(8, "over the limit", None),
            (LimitCode::Ok, _) => exchange.with_status(0, "", None),
        }
    }

    /// The deduplication id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Adds a quota to the request.
    pub(super) fn push_quota(&mut self, quota: &QuotaRequest<'_>) {
        self.quotas.push((quota.name.to_owned(), quota.amount));
    }

    /// Responds with a status.
    pub(super) fn with_status(
        mut self,
        code: i32,
        message: &str,
        directive: Option<&RouteDirective>,
    ) -> Self {
        let directive = directive.and_then(encode_directive);
        let precondition = Precondition {
            status_code: code,
            status_message: message,
            route_directive: directive.as_deref(),
            ..Precondition::default()
        };
        push_precondition(&mut self.response, &precondition, |_| {});
        self
    }

    /// Responds with the outcome of the rules.
    pub(super) fn set_outcome(&mut self, outcome: &CheckOutcome, bag: &AttributeBag<'_>) {
        let directive = outcome.directive.as_ref().and_then(encode_directive);
        let precondition = Precondition {
            status_code: outcome.status.code,
            status_message: &outcome.status.message,
            valid_duration: outcome.valid_duration,
            valid_use_count: outcome.valid_use_count,
            route_directive: directive.as_deref(),
        };
        push_precondition(&mut self.response, &precondition, |out| bag.encode_references(0, Reads::All, out));
    }

    /// Adds the grant of a quota to the response.
    pub(super) fn push_grant(&mut self, name: &str, outcome: &QuotaOutcome) {
        let grant = QuotaGrant { valid_duration: outcome.valid_duration, granted_amount: outcome.granted };
        push_quota(&mut self.response, name, grant, |_| {});
    }

    /// Responds with an error.
    pub(super) fn failed(self, error: GrpcError) -> Self {
        Self { error: Some(error), ..self }
    }

    /// Records the exchange.
    pub(super) fn record(self, observation: &Observation<'_>, attributes: &Attributes<'_>) {
        let quotas = self.quotas.into_iter().map(|(name, amount)| (name, (amount, false))).collect();
        let call = CheckCall { deduplication_id: &self.id, quotas };
        let request = encode_check_request(&attributes.to_owned_attributes(), 0, &call);
        let response = self.error.as_ref().map_or(Ok(self.response.into()), Err);
        observation.record(request.into(), response);
    }
}

/// Records a report.
pub(super) fn record_report(
    observation: &Observation<'_>,
    records: &[OwnedAttributes],
    failed: Option<&GrpcError>,
) {
    let request = encode_report_request(records, 0, ReportWords::Own, Semantics::Independent);
    observation.record(request.into(), failed.map_or(Ok(Bytes::new()), Err));
}
