//! Encodes a CheckResponse from the results of the phases.

mod quotas;

pub(super) use quotas::Ungranted;

use super::pipeline::{Cacheable, DecisionSink};
use mixer_attribute::response::{
    HeaderAction, HeaderOperation, Precondition, RouteDirective, push_precondition,
};
use mixer_attribute::{AttributeBag, Reads};
use mixer_base::secrets::SecretNames;
use mixer_engine::adapter::Status;
use mixer_engine::check_cache::CheckAnswer;
use mixer_engine::dispatch::{self, CheckOutcome, Protocol};
use mixer_engine::routing::Refuser;
use mixer_engine::snapshot::HeaderOperationKind;

/// Encodes a CheckResponse as the phases complete.
pub(super) struct ResponseBuilder<'s> {
    /// Number of global words that the client knows.
    pub(super) global_word_count: u32,
    /// The status of the check.
    pub(super) status: Status,
    /// The rule that refuses the request.
    pub(super) refused_by: Option<Refuser>,
    /// The quotas of which nothing was granted although the check passes.
    pub(super) ungranted: Ungranted,
    /// The message, with a prefix that has no length yet.
    pub(super) out: Vec<u8>,
    /// [`DecisionSink::protocol`].
    pub(super) protocol: Protocol,
    /// What is secret in requests, for the log.
    pub(super) secrets: &'s SecretNames,
}

impl DecisionSink for ResponseBuilder<'_> {
    type Answer = CheckAnswer;

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn checked(
        &mut self,
        outcome: CheckOutcome,
        bag: &AttributeBag<'_>,
        is_cacheable: bool,
    ) -> Option<Cacheable<CheckAnswer>> {
        let reads = self.reads();
        // What is made of a whole map follows from more than references can express.
        let reads_whole_map = || outcome.depends_on_map || bag.reads_map_without_key();
        let is_confusing =
            self.confuses_proxies(bag) || self.protocol != Protocol::IstioMixer && reads_whole_map();
        let outcome = match is_confusing {
            true => CheckOutcome { valid_use_count: 0, ..outcome },
            false => outcome,
        };
        let cacheable = is_cacheable.then(|| {
            let mut references = Vec::new();
            bag.encode_references(self.global_word_count, reads, &mut references);
            let answer = CheckAnswer {
                status_code: outcome.status.code,
                status_message: outcome.status.message.clone(),
                refused_by: outcome.refused_by.clone(),
                valid_use_count: outcome.valid_use_count,
                references,
                directive: outcome.directive.as_ref().and_then(encode_directive),
                made_secrets: outcome.made_secrets.clone(),
            };
            answer.push(outcome.valid_duration, &mut self.out);
            Cacheable { answer, valid: outcome.valid_duration.to_std_or_zero() }
        });
        if cacheable.is_none() {
            push_outcome(&outcome, bag, (self.global_word_count, reads), &mut self.out);
        }
        (self.status, self.refused_by) = (outcome.status, outcome.refused_by);
        cacheable
    }
}

impl ResponseBuilder<'_> {
    /// The reads that the client is told of.
    fn reads(&self) -> Reads {
        if self.protocol == Protocol::IstioMixer { Reads::Received } else { Reads::All }
    }

    /// Whether a proxy must not reuse the answer: it would, also where the caller made a map and not a generator, or the other way round.
    /// compat(1.3): Istio Mixer lets it. Pinned by the scenario `preprocess-attributes`.
    fn confuses_proxies(&self, bag: &AttributeBag<'_>) -> bool {
        self.protocol != Protocol::IstioMixer && bag.depends_on_origin_of_map()
    }
}

/// Appends the precondition result of a CheckResponse, with references of `bag`.
fn push_outcome(
    outcome: &CheckOutcome,
    bag: &AttributeBag<'_>,
    (global_word_count, reads): (u32, Reads),
    out: &mut Vec<u8>,
) {
    let directive = outcome.directive.as_ref().and_then(encode_directive);
    let precondition = Precondition {
        status_code: outcome.status.code,
        status_message: &outcome.status.message,
        valid_duration: outcome.valid_duration,
        valid_use_count: outcome.valid_use_count,
        route_directive: directive.as_deref(),
    };
    push_precondition(out, &precondition, |out| bag.encode_references(global_word_count, reads, out));
}

/// An encoded `RouteDirective`; `None` if it has only unset headers, which the Mixer API ignores.
pub fn encode_directive(directive: &dispatch::RouteDirective) -> Option<Vec<u8>> {
    let dispatch::RouteDirective { request_headers, response_headers, direct_response_code, .. } = directive;
    let changes_nothing =
        request_headers.is_empty() && response_headers.is_empty() && *direct_response_code == 0;
    if changes_nothing && !directive.unset_request_headers.is_empty() {
        return None;
    }
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
    Some(out)
}
