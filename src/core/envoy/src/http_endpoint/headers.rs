//! The headers that rules need over HTTP, where Envoy sends and takes only those that it is told to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::config::{EnvoyConfig, HttpSourceIp, MappedFrom, OriginIp};
use mixer_engine::snapshot::{Condition, HeaderOperationKind, Snapshot, SnapshotId};
use mixer_engine::template::Variety;

/// What Envoy sends without `allowed_headers`.
const ALWAYS_SENT: [&str; 2] = ["authorization", "host"];

/// The header with the scheme.
const SCHEME: &str = "x-forwarded-proto";

/// The attributes that are made of a header, with its name.
const MADE_OF: [(&str, &str); 5] = [
    ("context.protocol", "content-type"),
    ("request.id", "x-request-id"),
    ("request.referer", "referer"),
    ("request.scheme", SCHEME),
    ("request.useragent", "user-agent"),
];

/// Tells which headers Envoy must be told to send and to take, when a configuration is first used and they are others than before.
#[derive(Debug, Default)]
pub(super) struct HeaderAdvice {
    seen: Cell<SnapshotId>,
    told: RefCell<NeededHeaders>,
}

impl HeaderAdvice {
    /// Looks at the configuration of a check. Cost: linear in the rules for a new one, else a comparison.
    pub(super) fn tell(&self, snapshot: &Snapshot, config: &EnvoyConfig) {
        if self.seen.replace(snapshot.id) == snapshot.id {
            return;
        }
        let needed = NeededHeaders::of(snapshot, config);
        if needed != *self.told.borrow() && !needed.is_empty() {
            tracing::warn!("Envoy sends and takes over HTTP only the headers that ext_authz lists: {needed}");
        }
        self.told.replace(needed);
    }
}

/// Names in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
struct NeededHeaders {
    /// Headers of the request that rules read.
    read: BTreeSet<String>,
    /// Whether rules read all headers of the request.
    reads_all: bool,
    /// Whether rules read the length of the body.
    reads_length: bool,
    /// Headers of the request that rules set.
    set: BTreeSet<String>,
}

impl NeededHeaders {
    fn of(snapshot: &Snapshot, config: &EnvoyConfig) -> Self {
        let mut needed = Self::default();
        let name_of = |slot| snapshot.vocabulary.name(slot);
        for rule in snapshot.rules.iter().filter(|rule| !rule.dry_run) {
            let condition = match &rule.condition {
                Condition::When(program) => Some(program),
                _ => None,
            };
            let instances = rule.actions.iter().flat_map(|action| &action.instances);
            // Reports are of access logs.
            let instances = instances.filter(|instance| instance.template().variety != Variety::Report);
            let values = instances.flat_map(|instance| instance.programs.iter().flatten());
            let headers = rule.request_headers.iter().chain(&rule.response_headers);
            let headers = headers.filter_map(|operation| operation.value.as_ref());
            for program in condition.into_iter().chain(values).chain(headers) {
                for read in program.reads().iter().filter(|read| name_of(read.slot) == "request.headers") {
                    match read.key {
                        Some(key) => needed.header(&String::from_utf8_lossy(key)),
                        None => needed.reads_all = true,
                    }
                }
                program.attributes().into_iter().for_each(|slot| needed.attribute(name_of(slot)));
            }
            let sets = rule.request_headers.iter().filter(|o| o.kind != HeaderOperationKind::Remove);
            needed.set.extend(sets.map(|operation| operation.name.to_ascii_lowercase()));
        }
        let tests = config.check_quotas.iter().flat_map(|quota| &quota.matches).flatten();
        tests.for_each(|(slot, _)| needed.attribute(name_of(*slot)));
        for mapping in &config.mappings {
            match &mapping.source {
                MappedFrom::RequestHeader(name) => needed.header(name),
                MappedFrom::Cookie(_) => needed.header("cookie"),
                _ => {}
            }
        }
        let source = match &config.http_source_ip {
            HttpSourceIp::None => None,
            HttpSourceIp::Header(name) => Some(name.as_str()),
            HttpSourceIp::ForwardedFor(_) => Some("x-forwarded-for"),
        };
        let origin = match config.origin_ip {
            OriginIp::Peer => None,
            OriginIp::ExternalAddress => Some("x-envoy-external-address"),
            OriginIp::ForwardedFor(_) => Some("x-forwarded-for"),
        };
        source.into_iter().chain(origin).for_each(|name| needed.header(name));
        // It is that of the whole body then, unless Envoy truncates it.
        needed.reads_length &= !config.settings.check.include_body;
        needed.set.retain(|name| !name.starts_with(':'));
        needed
    }

    /// Notes a header that is read.
    fn header(&mut self, name: &str) {
        match name {
            // All others with a colon are made of the request line.
            ":scheme" => self.header(SCHEME),
            "content-length" => self.reads_length = true,
            _ if name.starts_with(':') || ALWAYS_SENT.contains(&name) => {}
            _ => drop(self.read.insert(name.to_owned())),
        }
    }

    /// Notes the headers of which an attribute is made that is read.
    fn attribute(&mut self, name: &str) {
        let made_of = MADE_OF.iter().filter(|(attribute, _)| *attribute == name);
        made_of.for_each(|(_, header)| self.header(header));
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for NeededHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listed =
            |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut told = Vec::new();
        if self.reads_all {
            told.push("rules read all headers (allowed_headers)".to_owned());
        } else if !self.read.is_empty() {
            told.push(format!("rules read {} (allowed_headers)", listed(&self.read)));
        }
        if !self.set.is_empty() {
            let names = listed(&self.set);
            told.push(format!("rules set {names} (allowed_upstream_headers of authorization_response)"));
        }
        if self.reads_length {
            told.push(
                "rules read content-length, which is that of the body that Envoy sends with the check (with_request_body, and \
                 `check: {includeBody: true}`)"
                    .to_owned(),
            );
        }
        f.write_str(&told.join("; "))
    }
}
