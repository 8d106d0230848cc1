//! The HTTP filter: one call of it is one request.

use std::rc::Rc;
use std::sync::Arc;

use mixer_attribute::OwnedAttributes;
use mixer_base::rpc_code;

use super::bounds::{self, Excess, Size};
use super::client::{Client, ClientConfig, Clients, Outcome};
use super::node::Node;
use super::peer::Peer;
use super::request::{self, Summary};
use super::{api, forwarded, headers, quotas};
use crate::bootstrap::{MixerConfig, ServiceConfig, Told};
use crate::head::Head;
use crate::header_changes::Unwritable;

/// The filter of a connection manager.
#[derive(Debug)]
pub(crate) struct HttpFilter {
    client: Arc<ClientConfig>,
    /// Of the node and of the filter.
    attributes: OwnedAttributes,
    forward: OwnedAttributes,
    /// The service of routes without one.
    service: Option<Arc<ServiceConfig>>,
    told: Told,
}

/// What follows a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The request goes on, on the route that is there.
    Forward,
    /// The head of the request was changed: a route is chosen again.
    Reroute,
    /// The proxy answers.
    Reply {
        status: u16,
        body: String,
        /// Whether Mixer wants this answer; otherwise it is a refusal.
        is_direct: bool,
    },
}

/// A request on its way through the filter.
#[derive(Debug)]
pub(crate) struct HttpCall {
    client: Rc<Client>,
    service: Arc<ServiceConfig>,
    attributes: OwnedAttributes,
    outcome: Option<Outcome>,
    /// What is too much of the request.
    excess: Option<Excess>,
    /// Whether the operations for the response apply.
    edits_response: bool,
    /// Bytes of the head as the filter saw it.
    head_bytes: u64,
}

fn merge(into: &mut OwnedAttributes, from: &OwnedAttributes) {
    for (name, value) in from.iter() {
        into.insert(name, value.clone());
    }
}

impl Drop for HttpFilter {
    /// The clients of workers for this filter end with it.
    fn drop(&mut self) {
        self.client.retire();
    }
}

impl HttpFilter {
    pub(crate) fn new(config: &MixerConfig, node: &Node, client: Arc<ClientConfig>) -> Self {
        let (mut attributes, mut forward) = node.attributes(&config.attributes);
        merge(&mut attributes, &config.attributes);
        merge(&mut forward, &config.forward);
        let service = config.services.get(&config.default_service).cloned();
        Self { client, attributes, forward, service, told: config.told }
    }

    /// The attributes of a request, without those that are too large, and what is too much of it.
    pub(super) fn attributes(
        &self,
        head: &Head,
        service: &ServiceConfig,
        peer: &Peer,
    ) -> (OwnedAttributes, Option<Excess>) {
        let mut attributes = self.attributes.clone();
        merge(&mut attributes, &service.attributes);
        let excess = request::extract(head, peer, &mut attributes);
        api::extract(&service.api, head, &mut attributes);
        if let Some(told) = head.get(forwarded::HEADER).filter(|_| self.told != Told::Ignored) {
            let overrides = self.told == Told::Overrides;
            for (name, value) in forwarded::decode(told).iter() {
                // What the configuration or a certificate says is not for a client to say.
                if overrides || attributes.get(name).is_none() {
                    attributes.insert(name, value.clone());
                }
            }
        }
        let excess = excess.or_else(|| Size::of(&attributes).excess());
        if excess.is_some() {
            bounds::trim(&mut attributes);
        }
        (attributes, excess)
    }

    /// Takes a request: reads what the proxy before says of it, and tells the next one. `service` is that of the route. `None` if the request
    /// is neither checked nor reported.
    pub(crate) fn begin(
        &self,
        head: &mut Head,
        service: Option<&Arc<ServiceConfig>>,
        peer: &Peer,
        clients: &Clients,
    ) -> Option<Box<HttpCall>> {
        let service = service.or(self.service.as_ref());
        let call = service.filter(|service| service.checks || service.reports).map(|service| {
            let (attributes, excess) = self.attributes(head, service, peer);
            Box::new(HttpCall {
                client: clients.of(&self.client),
                service: Arc::clone(service),
                attributes,
                outcome: None,
                excess,
                edits_response: false,
                head_bytes: head.size(),
            })
        });
        head.remove(forwarded::HEADER.as_bytes());
        let mut forward = self.forward.clone();
        if let Some(service) = service {
            merge(&mut forward, &service.forward);
        }
        if !forward.is_empty() {
            head.add(forwarded::HEADER, forwarded::encode(&forward).as_bytes());
        }
        call
    }
}

impl HttpCall {
    /// Whether the request is to be checked.
    pub(crate) fn wants_check(&self) -> bool {
        self.service.checks
    }

    /// Checks the request. Dropping the future cancels the call.
    pub(crate) async fn check(&self) -> Outcome {
        if let Some(excess) = self.excess {
            return self.client.refuse(excess);
        }
        let quotas = quotas::required(&self.service.quotas, &self.attributes);
        self.client.check(&self.attributes, &quotas).await
    }

    /// Applies the outcome of the check to the head of the request, and keeps it for the response and the report.
    pub(crate) fn apply(&mut self, outcome: Outcome, head: &mut Head) -> Next {
        let outcome = self.outcome.insert(outcome);
        let directive = outcome.verdict.as_ref().and_then(|verdict| verdict.directive.as_ref());
        if let Some((status, body)) = directive.and_then(|directive| directive.direct.as_ref()) {
            self.edits_response = true;
            // What is no status of a final response is an error of the policy.
            let status = u16::try_from(*status).ok().filter(|status| (200..600).contains(status));
            return Next::Reply { status: status.unwrap_or(500), body: body.clone(), is_direct: true };
        }
        if outcome.code != 0 {
            let (status, body) = (status_of(outcome), refusal(outcome));
            return Next::Reply { status, body, is_direct: false };
        }
        self.edits_response = true;
        let edited = directive.map(|directive| headers::edit_request(head, &directive.request));
        match edited.unwrap_or(Ok(false)) {
            Ok(true) => Next::Reroute,
            Ok(false) => Next::Forward,
            // The policy means a request that cannot be made.
            Err(Unwritable(text)) => {
                Next::Reply { status: 500, body: format!("INTERNAL:{text}"), is_direct: false }
            }
        }
    }

    /// Whether the request passes because no server has answered.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.is_unchecked)
    }

    /// The details of the response code of a refusal.
    pub(crate) fn details(&self) -> &'static str {
        match &self.outcome {
            Some(Outcome { excess: Some(excess), .. }) => excess.details(),
            Some(outcome) if outcome.is_overflow() => "mixer_overflow",
            _ => "mixer_access_denied",
        }
    }

    /// Applies the operations for the response to its head.
    pub(crate) fn edit_response(&self, head: &mut Head) {
        let verdict = self.outcome.as_ref().and_then(|outcome| outcome.verdict.as_ref());
        if let (true, Some(directive)) = (self.edits_response, verdict.and_then(|v| v.directive.as_ref())) {
            headers::edit_response(head, &directive.response);
        }
    }

    /// Reports the request.
    pub(crate) fn report(self, summary: &Summary<'_>) {
        if !self.service.reports {
            return;
        }
        let mut attributes = self.attributes;
        request::complete(summary, self.head_bytes, &mut attributes);
        if let Some(outcome) = &self.outcome {
            attributes.insert("check.cache_hit", outcome.check_hit);
            attributes.insert("quota.cache_hit", outcome.quota_hit);
            if outcome.code != 0 {
                attributes.insert("response.code", i64::from(status_of(outcome)));
                attributes.insert("check.error_code", i64::from(outcome.code));
                attributes.insert("check.error_message", refusal(outcome).as_str());
            }
        }
        bounds::trim(&mut attributes);
        self.client.report(attributes);
    }
}

/// The status of HTTP of a refusal.
fn status_of(outcome: &Outcome) -> u16 {
    outcome.excess.map_or_else(|| rpc_code::http_status(outcome.code), Excess::status)
}

/// The name of the code, and the message if there is one.
pub(super) fn refusal(outcome: &Outcome) -> String {
    let name = rpc_code::name(outcome.code).unwrap_or("UNKNOWN");
    match outcome.message.as_str() {
        "" => name.to_owned(),
        message => format!("{name}:{message}"),
    }
}
