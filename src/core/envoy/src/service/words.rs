//! Calls of Envoy in the words of Mixer, for the decision log and recordings: a check of Envoy is the check that it stands for.

use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::rate_limit::{Code as LimitCode, Status};
use super::check::Required;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::mixer::encode_directive;
use mixer_api::observe::Watch;
use mixer_attribute::request::{
    CheckCall, ReportWords, Semantics, encode_check_request, encode_report_request,
};
use mixer_attribute::response::{Precondition, QuotaGrant, push_precondition, push_quota};
use mixer_attribute::{AttributeBag, OwnedAttributes};
use mixer_engine::dispatch::{CheckOutcome, QuotaOutcome, QuotaRequest, RouteDirective};

/// Who wants the words, and what was asked about.
pub(super) type Wanted<'w, 'a> = (&'w Watch<'w>, &'w Attributes<'a>);

/// A question and the beginning of its answer.
#[derive(Default)]
pub(super) struct Words {
    id: String,
    quotas: Vec<(String, i64)>,
    answer: Vec<u8>,
}

impl Words {
    /// A check that takes these quotas.
    pub(super) fn asking(required: &Required<'_>) -> Self {
        let quotas = required.requests().map(|asked| (asked.name.to_owned(), asked.amount)).collect();
        Self { id: required.id.clone(), quotas, answer: Vec::new() }
    }

    /// A look at limits, within or over.
    pub(super) fn limit(status: &Status, id: String) -> Self {
        let words = Self { id, ..Self::default() };
        match status.code {
            LimitCode::OverLimit => words.status(8, "over the limit", None),
            LimitCode::Ok => words.status(0, "", None),
        }
    }

    /// What tells it from others.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// One more quota is asked for.
    pub(super) fn ask(&mut self, asked: &QuotaRequest<'_>) {
        self.quotas.push((asked.name.to_owned(), asked.amount));
    }

    /// The answer is a status.
    pub(super) fn status(mut self, code: i32, message: &str, directive: Option<&RouteDirective>) -> Self {
        let directive = directive.map(encode_directive);
        let precondition = Precondition {
            status_code: code,
            status_message: message,
            route_directive: directive.as_deref(),
            ..Precondition::default()
        };
        push_precondition(&mut self.answer, &precondition, |_| {});
        self
    }

    /// The answer is that of the rules.
    pub(super) fn outcome(mut self, outcome: &CheckOutcome, bag: &AttributeBag<'_>) -> Self {
        let directive = outcome.directive.as_ref().map(encode_directive);
        let precondition = Precondition {
            status_code: outcome.status.code,
            status_message: &outcome.status.message,
            valid_duration: outcome.valid_duration,
            valid_use_count: outcome.valid_use_count,
            route_directive: directive.as_deref(),
        };
        push_precondition(&mut self.answer, &precondition, |out| bag.encode_references(0, out));
        self
    }

    /// A quota grants this.
    pub(super) fn grant(&mut self, name: &str, outcome: &QuotaOutcome) {
        let grant = QuotaGrant { valid_duration: outcome.valid_duration, granted_amount: outcome.granted };
        push_quota(&mut self.answer, name, grant, |_| {});
    }

    fn request(&self, attributes: &Attributes<'_>) -> Bytes {
        let quotas = self.quotas.iter().map(|(name, amount)| (name.clone(), (*amount, false))).collect();
        let call = CheckCall { deduplication_id: &self.id, quotas };
        encode_check_request(&attributes.to_owned_attributes(), 0, &call).into()
    }

    /// Tells question and answer.
    pub(super) fn tell(self, watch: &Watch<'_>, attributes: &Attributes<'_>) {
        watch.tell(self.request(attributes), Ok(self.answer.into()));
    }

    /// Tells that there is no answer.
    pub(super) fn fail(self, watch: &Watch<'_>, attributes: &Attributes<'_>, why: &str) {
        watch.tell(self.request(attributes), Err(&GrpcError::new(Code::Internal, why.to_owned())));
    }
}

/// Tells about a report.
pub(super) fn tell_report(watch: &Watch<'_>, records: &[OwnedAttributes], failed: Option<&GrpcError>) {
    let request = encode_report_request(records, 0, ReportWords::Own, Semantics::Independent);
    watch.tell(request.into(), failed.map_or(Ok(Bytes::new()), Err));
}
