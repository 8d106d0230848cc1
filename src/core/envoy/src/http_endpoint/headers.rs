//! The headers that rules need over HTTP, where Envoy sends and takes only those that it is told to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::config::{EnvoyConfig, HttpSourceIp, MappedFrom, OriginIp};
use mixer_engine::snapshot::{Condition, HeaderOperationKind, Snapshot, SnapshotId};

/// What Envoy sends without `allowed_headers`.
const ALWAYS_SENT: [&str; 3] = ["authorization", "content-length", "host"];

/// The attributes that are made of a header, with its name.
const MADE_OF: [(&str, &str); 5] = [
    ("context.protocol", "content-type"),
    ("request.id", "x-request-id"),
    ("request.referer", "referer"),
    ("request.scheme", "x-forwarded-proto"),
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
    /// Headers of the request that rules set.
    set: BTreeSet<String>,
}

impl NeededHeaders {
    fn of(snapshot: &Snapshot, config: &EnvoyConfig) -> Self {
        let mut needed = Self::default();
        for rule in snapshot.rules.iter().filter(|rule| !rule.dry_run) {
            let condition = match &rule.condition {
                Condition::When(program) => Some(program),
                _ => None,
            };
            let instances = rule.actions.iter().flat_map(|action| &action.instances);
            let values = instances.flat_map(|instance| instance.programs.iter().flatten());
            let headers = rule.request_headers.iter().chain(&rule.response_headers);
            let headers = headers.filter_map(|operation| operation.value.as_ref());
            for program in condition.into_iter().chain(values).chain(headers) {
                let entries = program.entries().into_iter();
                let headers = entries.filter(|read| snapshot.vocabulary.name(read.slot) == "request.headers");
                needed.read.extend(
                    headers.filter_map(|read| read.key).map(|key| String::from_utf8_lossy(key).into_owned()),
                );
                for slot in program.attributes() {
                    let name = snapshot.vocabulary.name(slot);
                    let made_of = MADE_OF.iter().filter(|(attribute, _)| *attribute == name);
                    needed.read.extend(made_of.map(|(_, header)| (*header).to_owned()));
                }
            }
            let sets = rule.request_headers.iter().filter(|o| o.kind != HeaderOperationKind::Remove);
            needed.set.extend(sets.map(|operation| operation.name.to_ascii_lowercase()));
        }
        for mapping in &config.mappings {
            match &mapping.source {
                MappedFrom::RequestHeader(name) => drop(needed.read.insert(name.to_string())),
                MappedFrom::Cookie(_) => drop(needed.read.insert("cookie".to_owned())),
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
        needed.read.extend(source.into_iter().chain(origin).map(str::to_owned));
        needed.read.retain(|name| !ALWAYS_SENT.contains(&name.as_str()));
        needed.set.retain(|name| !name.starts_with(':'));
        needed
    }

    fn is_empty(&self) -> bool {
        self.read.is_empty() && self.set.is_empty()
    }
}

impl std::fmt::Display for NeededHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listed =
            |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if !self.read.is_empty() {
            write!(f, "rules read {} (allowed_headers)", listed(&self.read))?;
        }
        if !self.read.is_empty() && !self.set.is_empty() {
            f.write_str("; ")?;
        }
        if !self.set.is_empty() {
            let names = listed(&self.set);
            write!(f, "rules set {names} (allowed_upstream_headers of authorization_response)")?;
        }
        Ok(())
    }
}
