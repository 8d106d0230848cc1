//! The filters of a connection manager: before a route acts, when a response begins, and at the end of a request.
//!
//! [`Filter`] is a filter as it serves, [`Call`] a request on its way through one. A filter lets a request pass, changes its head, or answers
//! it; while it waits, what the client sends waits, too, and the end of the client ends the wait. What a filter adds to responses it adds to
//! all of them, in the reverse order of the filters.

use super::body::Ahead;
use super::connection::Connection;
use super::descriptors::{self, Source};
use super::framing::{Framing, Remaining};
use super::hash;
use super::routes::{Found, Target};
use super::transaction::Transaction;
use crate::bootstrap::RouteFilter;
use crate::ext_authz::{Authorizer, Body, Denial, Facts, Grant, Verdict};
use crate::flags::Flag;
use crate::head::Head;
use crate::header_changes::Unwritable;
use crate::mixer::{HttpCall, HttpFilter, Next, Peer, Summary};
use crate::rate_limit::{Additions, Limited, Limiter, includes_host};

/// A filter as it serves.
#[derive(Debug)]
pub(crate) enum Filter {
    Mixer(HttpFilter),
    ExtAuthz(Box<Authorizer>),
    RateLimit(Box<Limiter>),
}

/// A request on its way through a filter.
#[derive(Debug)]
pub(super) enum Call {
    Mixer(Box<HttpCall>),
    /// With changes of the response.
    Granted(Box<Grant>),
    /// With headers of the response.
    Limited(Box<Additions>),
}

/// What a filter does with a request.
pub(super) enum Step {
    Pass,
    /// The head of the request was changed: a route is to be chosen again.
    Reroute,
    /// The proxy answers.
    Reply(LocalReply),
    /// The client is gone.
    Gone,
}

/// An answer of a filter.
#[derive(Debug, Default)]
pub(super) struct LocalReply {
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) details: &'static str,
    pub(super) flag: Option<Flag>,
    /// Headers that an authorization server adds.
    pub(super) denial: Option<Denial>,
    /// Headers that a server of rate limits adds.
    pub(super) additions: Option<Box<Additions>>,
    /// The status of gRPC, if it is not that of the status.
    pub(super) grpc_status: Option<&'static str>,
}

impl Call {
    /// Changes the head of a response.
    pub(super) fn edit_response(&self, head: &mut Head) {
        match self {
            Call::Mixer(call) => call.edit_response(head),
            Call::Granted(grant) => grant.edit_response(head),
            Call::Limited(additions) => additions.edit_response(head),
        }
    }
}

/// The answer to a request that a server has changed to one that cannot be sent, with the status and the text of Envoy.
fn unwritten(Unwritable(body): Unwritable, details: &'static str) -> Step {
    Step::Reply(LocalReply { status: 503, body, details, ..LocalReply::default() })
}

/// The answer to a request that a server is not asked about, as there is no memory for it.
fn without_memory(details: &'static str) -> Step {
    let body = "no memory for the request".to_owned();
    Step::Reply(LocalReply { status: 503, body, details, flag: Some(Flag::UO), ..LocalReply::default() })
}

impl<'m> Connection<'m> {
    /// Has the filters decide on a request, one after the other. Returns the route that the request takes then; `None` if it is answered,
    /// or its client is gone.
    pub(super) async fn pass_filters(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        mut found: Option<Found<'m>>,
    ) -> Option<Option<Found<'m>>> {
        let manager = self.manager;
        transaction.take(found);
        for (index, filter) in manager.filters.iter().enumerate() {
            let own = found.and_then(|found| found.filter(index));
            let step = match filter {
                Filter::Mixer(filter) => self.ask_mixer(transaction, framing, filter, own).await,
                Filter::RateLimit(filter) => self.ask_limiter(transaction, framing, filter, found, own).await,
                Filter::ExtAuthz(filter) => {
                    self.ask_authorizer(transaction, framing, filter, found, own).await
                }
            };
            match step {
                Step::Pass => {}
                Step::Reroute => {
                    found = manager.routes.find(&self.request, transaction.random, &mut self.scratch);
                    transaction.take(found);
                    if self.refuses_upgrade(transaction, found) {
                        self.refuse_upgrade(transaction, found).await;
                        return None;
                    }
                }
                Step::Reply(answer) => {
                    let arrived = self.client.arrived(framing);
                    transaction.received = u64::try_from(arrived).unwrap_or(0).max(transaction.received);
                    // Nobody gets it.
                    self.client.forget_ahead();
                    transaction.details = answer.details;
                    if let Some(flag) = answer.flag {
                        transaction.flags.set(flag);
                    }
                    self.answer_locally(transaction, framing, answer).await;
                    return None;
                }
                Step::Gone => {
                    let (flag, details) = self.client.gone();
                    transaction.flags.set(flag);
                    transaction.details = details;
                    transaction.closes = true;
                    transaction.is_aborted = true;
                    return None;
                }
            }
        }
        Some(found)
    }

    async fn answer_locally(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        answer: LocalReply,
    ) {
        self.begin_reply(transaction, answer.status);
        if let Some(status) = answer.grpc_status.filter(|_| self.is_grpc(transaction)) {
            self.response.set("grpc-status", status.as_bytes());
        }
        if let Some(denial) = &answer.denial {
            denial.edit(&mut self.response);
        }
        if let Some(additions) = &answer.additions {
            additions.edit_response(&mut self.response);
        }
        let body = self.settle_reply(transaction, &answer.body);
        self.send_reply(transaction, framing, body).await;
    }

    /// Has the Mixer filter decide on a request.
    async fn ask_mixer(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        filter: &HttpFilter,
        own: Option<&RouteFilter>,
    ) -> Step {
        let service = match own {
            Some(RouteFilter::Mixer(service)) => Some(service),
            _ => None,
        };
        let peer = Peer::of(&self.info);
        let Some(mut call) = filter.begin(&mut self.request, service, &peer, &self.worker.mixer) else {
            return Step::Pass;
        };
        let mut next = Ok(Next::Forward);
        if call.wants_check() {
            // Boxed: a check is most of what a connection would hold for good.
            let outcome = self.while_filtered(transaction, framing, Box::pin(call.check())).await;
            next = outcome.map(|outcome| call.apply(outcome, &mut self.request));
        }
        transaction.is_unchecked = call.is_unchecked();
        let details = call.details();
        transaction.calls.push(Call::Mixer(call));
        match next {
            Err(step) => step,
            Ok(Next::Forward) => Step::Pass,
            Ok(Next::Reroute) => Step::Reroute,
            Ok(Next::Reply { status, body, is_direct: true }) => {
                let details = "mixer_direct_response";
                Step::Reply(LocalReply { status, body, details, ..LocalReply::default() })
            }
            Ok(Next::Reply { status, body, is_direct: false }) => {
                let flag = Some(Flag::Uaex);
                Step::Reply(LocalReply { status, body, details, flag, ..LocalReply::default() })
            }
        }
    }

    /// Has an authorization server decide on a request.
    async fn ask_authorizer(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        filter: &Authorizer,
        found: Option<Found<'m>>,
        own: Option<&RouteFilter>,
    ) -> Step {
        let own = match own {
            Some(RouteFilter::ExtAuthz(route)) => Some(&**route),
            _ => None,
        };
        if own.is_some_and(|route| route.disabled) || found.is_none() {
            return Step::Pass;
        }
        let mut body = None;
        if let Some(wanted) = filter.body(own)
            && !Remaining::of(framing).is_done()
        {
            match self.read_ahead(transaction, framing, wanted.max, wanted.allow_partial).await {
                Ok(Ahead { data, received, is_partial }) => {
                    body = Some(Body { data, received, is_partial, as_bytes: wanted.as_bytes });
                }
                Err(step) => return step,
            }
        }
        let facts = Facts {
            head: &self.request,
            connection: &self.info,
            start: transaction.start,
            protocol: self.client.protocol(),
            body,
        };
        let request = filter.request(facts, own);
        let worker = self.worker;
        let asked = Box::pin(filter.check(&worker.channels, request));
        let decision = match self.while_filtered(transaction, framing, asked).await {
            Ok(decision) => decision,
            Err(step) => return step,
        };
        match filter.settle(decision, found.and_then(|found| found.cluster())) {
            Verdict::Pass { grant, reroutes } => {
                if let Err(unwritable) = grant.edit_request(&mut self.request) {
                    return unwritten(unwritable, "ext_authz_invalid");
                }
                if grant.changes_response() {
                    transaction.calls.push(Call::Granted(grant));
                }
                if reroutes { Step::Reroute } else { Step::Pass }
            }
            Verdict::NoMemory => without_memory("ext_authz_overflow"),
            Verdict::Refuse { mut denial, details } => Step::Reply(LocalReply {
                status: denial.status.unwrap_or(403),
                body: std::mem::take(&mut denial.body),
                details,
                flag: Some(Flag::Uaex),
                denial: Some(denial),
                ..LocalReply::default()
            }),
        }
    }

    /// Has a server of rate limits decide on a request.
    async fn ask_limiter(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        filter: &Limiter,
        found: Option<Found<'m>>,
        own: Option<&RouteFilter>,
    ) -> Step {
        let own = match own {
            Some(RouteFilter::RateLimit(route)) => Some(&**route),
            _ => None,
        };
        let Some(Found { host, route, .. }) = found else { return Step::Pass };
        let worker = self.worker;
        let cluster = found.and_then(|found| found.cluster());
        let (Target::Forward(forward), Some(cluster), Some(pool)) =
            (&route.target, cluster, cluster.and_then(|cluster| worker.pool(cluster)))
        else {
            return Step::Pass;
        };
        let source = Source {
            head: &self.request,
            client: hash::client(&self.request, &self.info, self.manager.use_remote_address),
            own_cluster: &worker.shared.node.cluster,
            cluster: &pool.cluster.config.name,
        };
        let (limits, include) = &forward.limits;
        let mut descriptors = Vec::new();
        descriptors::add(limits, filter.stage(), &source, &mut self.scratch, &mut descriptors);
        if includes_host(own, *include, !limits.is_empty()) {
            descriptors::add(&host.limits, filter.stage(), &source, &mut self.scratch, &mut descriptors);
        }
        if descriptors.is_empty() {
            return Step::Pass;
        }
        let asked = Box::pin(filter.ask(&worker.channels, own, descriptors));
        let answer = match self.while_filtered(transaction, framing, asked).await {
            Ok(answer) => answer,
            Err(step) => return step,
        };
        match filter.settle(answer, cluster) {
            Limited::Within(additions) => {
                if let Err(unwritable) = additions.edit_request(&mut self.request) {
                    return unwritten(unwritable, "rate_limiter_invalid");
                }
                if additions.has_response() {
                    transaction.calls.push(Call::Limited(additions));
                }
                Step::Pass
            }
            Limited::Over { status, body, grpc_status, additions } => {
                let additions = Some(additions);
                let (details, flag) = ("request_rate_limited", Some(Flag::RL));
                Step::Reply(LocalReply { status, body, details, flag, grpc_status, additions, denial: None })
            }
            Limited::NoMemory => without_memory("rate_limiter_overflow"),
            Limited::Failed(None) => Step::Pass,
            Limited::Failed(Some(status)) => {
                let (details, flag) = ("rate_limiter_error", Some(Flag::Rlse));
                Step::Reply(LocalReply { status, details, flag, ..LocalReply::default() })
            }
        }
    }

    /// Has the filters end their calls.
    pub(super) fn end_calls(&self, transaction: &mut Transaction<'_>) {
        for call in std::mem::take(&mut transaction.calls) {
            match call {
                Call::Mixer(call) => call.report(&self.summary(transaction)),
                Call::Granted(_) | Call::Limited(_) => {}
            }
        }
    }

    fn summary(&self, transaction: &Transaction<'_>) -> Summary<'_> {
        Summary {
            request: &self.request,
            response: &self.response,
            status: transaction.status,
            flags: transaction.flags,
            received: transaction.received,
            sent: transaction.sent,
            upstream: transaction.upstream,
            duration: transaction.began.elapsed(),
        }
    }
}
