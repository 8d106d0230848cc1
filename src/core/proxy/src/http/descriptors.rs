//! Descriptors of rate limits: what routes and virtual hosts make of a request.

use mixer_wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use mixer_wire::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;

use crate::bootstrap::{LimitAction, LimitConfig};
use crate::head::Head;

/// What descriptors are made of.
pub(super) struct Source<'s> {
    pub(super) head: &'s Head,
    /// The address of the client.
    pub(super) client: std::net::IpAddr,
    /// The cluster of the proxy.
    pub(super) own_cluster: &'s str,
    /// The cluster of the route.
    pub(super) cluster: &'s str,
}

/// Adds the descriptors of the limits of a stage.
pub(super) fn add(
    limits: &[LimitConfig],
    stage: u32,
    source: &Source<'_>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<RateLimitDescriptor>,
) {
    for limit in limits.iter().filter(|limit| limit.stage == stage) {
        let mut entries = Vec::with_capacity(limit.actions.len());
        let is_complete = limit.actions.iter().all(|action| source.add(action, scratch, &mut entries));
        if is_complete {
            out.push(RateLimitDescriptor { entries, ..RateLimitDescriptor::default() });
        }
    }
}

impl Source<'_> {
    /// Adds the entry of an action. Returns false if there is no descriptor without it.
    fn add(&self, action: &LimitAction, scratch: &mut Vec<u8>, entries: &mut Vec<Entry>) -> bool {
        let (key, value) = match action {
            LimitAction::SourceCluster => ("source_cluster", self.own_cluster.to_owned()),
            LimitAction::DestinationCluster => ("destination_cluster", self.cluster.to_owned()),
            LimitAction::RemoteAddress => ("remote_address", self.client.to_string()),
            LimitAction::GenericKey(key, value) => (key.as_str(), value.clone()),
            LimitAction::RequestHeader { header, key, skip_if_absent } => {
                match self.head.pseudo_or_field(header) {
                    Some(value) => (key.as_str(), String::from_utf8_lossy(value).into_owned()),
                    None => return *skip_if_absent,
                }
            }
            LimitAction::HeaderValueMatch { key, value, expected, headers } => {
                let matches = headers.iter().all(|header| header.takes(self.head, scratch));
                if matches != *expected {
                    return false;
                }
                (key.as_str(), value.clone())
            }
        };
        entries.push(Entry { key: key.to_owned(), value });
        true
    }
}
