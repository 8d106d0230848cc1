//! Collects what is wrong with a resource, with the parts that several kinds have.

use std::collections::BTreeMap;

use mixer_base::decimal;
use mixer_base::quote::quoted;
use mixer_config::message::DecodeError;
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind};
use prost_types::Duration;

use super::code::{self, Code};
use super::text;
use crate::messages::istio::networking::v1alpha3::Percent;
use crate::place::Place;

/// The prefix of addresses of Unix domain sockets.
pub(super) const UNIX: &str = "unix://";

/// What was found in one resource.
pub(crate) struct Checker<'c> {
    body: &'c Node,
    null_entries: &'c [FieldPath],
    pub(super) problems: Vec<Diagnostic>,
    /// compat(1.3): whether the text of the problems is a list even if it is one.
    pub(super) is_list: bool,
}

impl<'c> Checker<'c> {
    /// Of the resource with this body.
    pub(crate) fn new(body: &'c Node, null_entries: &'c [FieldPath]) -> Self {
        Self { body, null_entries, problems: Vec::new(), is_list: false }
    }

    /// Adds a problem.
    pub(super) fn problem(&mut self, code: Code, at: &Place<'_>, text: impl Into<String>) {
        let mut problem = Diagnostic::error(code.name, at.path(), text).with_hint(code.cure);
        problem.span = Some(at.node(self.body).span);
        self.problems.push(problem);
    }

    /// Adds a problem of the decoder, with what it is of.
    pub(super) fn undecodable(&mut self, what: &str, error: DecodeError) {
        let text = format!("{what}: {}", error.message);
        let mut problem = Diagnostic::error(code::VALUE.name, error.field, text);
        problem.hint = error.hint;
        problem.span = Some(error.span);
        self.problems.push(problem);
    }

    /// The value at a place of the body.
    pub(super) fn node(&self, at: &Place<'_>) -> &'c Node {
        at.node(self.body)
    }

    /// Adds a problem of the name of the resource, which is not in its body.
    pub(super) fn name_problem(&mut self, text: String, cure: &str) {
        let field = FieldPath::root().field("metadata").field("name");
        self.problems.push(Diagnostic::error(code::NAME.name, field, text).with_hint(cure));
    }

    /// Adds a problem whose text Istio writes as a list even if it is the only one.
    pub(super) fn listed(&mut self, code: Code, at: &Place<'_>, text: impl Into<String>) {
        self.is_list = true;
        self.problem(code, at, text);
    }

    /// Adds the problem of a part.
    pub(super) fn part(&mut self, code: Code, at: &Place<'_>, result: Result<(), String>) {
        if let Err(text) = result {
            self.problem(code, at, text);
        }
    }

    /// Whether the document has something there, an empty list or mapping for example.
    pub(super) fn is_given(&self, at: &Place<'_>) -> bool {
        at.is_in(self.body) && !matches!(at.node(self.body).kind, NodeKind::Null)
    }

    /// Whether an entry of a map is null.
    pub(super) fn is_null_entry(&self, at: &Place<'_>) -> bool {
        !self.null_entries.is_empty() && self.null_entries.contains(&at.path())
    }

    pub(super) fn domain(&mut self, at: &Place<'_>, name: &str) {
        self.part(code::HOST, at, text::domain(name));
    }

    pub(super) fn wildcard_domain(&mut self, at: &Place<'_>, name: &str) {
        self.part(code::HOST, at, text::wildcard_domain(name));
    }

    pub(super) fn port(&mut self, at: &Place<'_>, number: impl Into<i64>) {
        self.part(code::PORT, at, text::port(number.into()));
    }

    pub(super) fn port_name(&mut self, at: &Place<'_>, name: &str) {
        if !text::is_label(name) {
            self.problem(code::PORT, at, format!("invalid port name: {name}"));
        }
    }

    pub(super) fn protocol(&mut self, at: &Place<'_>, name: &str) {
        if !name.is_empty() && text::protocol(name).is_none() {
            self.problem(code::PROTOCOL, at, format!("unsupported protocol: {name}"));
        }
    }

    pub(super) fn ipv4(&mut self, at: &Place<'_>, address: &str) {
        self.part(code::ADDRESS, at, text::ipv4(address));
    }

    pub(super) fn ipv4_subnet(&mut self, at: &Place<'_>, address: &str) {
        self.part(code::ADDRESS, at, text::ipv4_subnet(address));
    }

    pub(super) fn unix_path(&mut self, at: &Place<'_>, path: &str) {
        self.part(code::ADDRESS, at, text::unix_path(path));
    }

    /// A duration of at least a millisecond, in whole ones.
    pub(super) fn duration(&mut self, at: &Place<'_>, duration: &Duration) {
        const MILLI: i32 = 1_000_000;
        let is_short = duration.seconds < 0 || duration.seconds == 0 && duration.nanos < MILLI;
        if is_short {
            self.problem(code::DURATION, at, "duration must be greater than 1ms");
        } else if duration.nanos % MILLI != 0 {
            self.problem(code::DURATION, at, "only durations to ms precision are supported");
        }
    }

    pub(super) fn optional_duration(&mut self, at: &Place<'_>, duration: Option<&Duration>) {
        if let Some(duration) = duration {
            self.duration(at, duration);
        }
    }

    pub(super) fn percent(&mut self, at: &Place<'_>, percent: i32) {
        if !(0..=100).contains(&percent) {
            self.problem(code::PERCENTAGE, at, format!("percentage {percent} is not in range 0..100"));
        }
    }

    /// A fraction of a percent, or a whole number of percent.
    pub(super) fn percentage(&mut self, at: &Place<'_>, percentage: Option<&Percent>, percent: i32) {
        match percentage {
            Some(Percent { value }) => {
                let is_valid = *value == 0.0 || (0.0001..=100.0).contains(value) || value.is_nan();
                if !is_valid {
                    let shown = decimal::general(*value);
                    let text = format!("percentage {shown} is neither 0.0, nor in range [0.0001, 100.0]");
                    self.problem(code::PERCENTAGE, &at.field("percentage"), text);
                }
            }
            None => self.percent(&at.field("percent"), percent),
        }
    }

    pub(super) fn labels(&mut self, at: &Place<'_>, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            for result in [text::label_key(key), text::label_value(value)] {
                if let Err(text) = result {
                    self.listed(code::LABELS, &at.key(key), text);
                }
            }
        }
    }

    pub(super) fn subset_name(&mut self, at: &Place<'_>, name: &str) {
        if name.is_empty() {
            self.problem(code::NAME, at, "subset name cannot be empty");
        } else if !text::is_label(name) {
            self.problem(code::NAME, at, format!("subset name is invalid: {name}"));
        }
    }

    pub(super) fn header_name(&mut self, at: &Place<'_>, name: &str) {
        if name.is_empty() {
            self.problem(code::NAME, at, "header name cannot be empty");
        }
    }

    /// The names of headers in a map.
    pub(super) fn header_map(&mut self, at: &Place<'_>, headers: &BTreeMap<String, String>) {
        for name in headers.keys() {
            self.header_name(&at.key(name), name);
        }
    }

    /// The names of headers in a list.
    pub(super) fn header_list(&mut self, at: &Place<'_>, headers: &[String]) {
        for (index, name) in headers.iter().enumerate() {
            self.header_name(&at.index(index), name);
        }
    }

    pub(super) fn export_to(&mut self, body: &Place<'_>, export_to: &[String]) {
        let at = body.field("exportTo");
        match export_to {
            [] => {}
            [one] if one == "." || one == "*" => {}
            [_] => self.problem(
                code::UNSUPPORTED,
                &at.index(0),
                "only . or * is allowed in the exportTo in the current release",
            ),
            _ => self.problem(
                code::UNSUPPORTED,
                &at,
                "exportTo should have only one entry (. or *) in the current release",
            ),
        }
    }

    /// The names of gateways. compat(1.3): those after one without a namespace are not looked at.
    pub(super) fn gateway_names(&mut self, outer: &Place<'_>, names: &[String]) {
        let list = outer.field("gateways");
        for (index, name) in names.iter().enumerate() {
            let at = list.index(index);
            let Some((namespace, gateway)) = name.split_once('/') else {
                return self.domain(&at, name);
            };
            if namespace.is_empty() || gateway.is_empty() {
                self.problem(code::NAME, &at, "config namespace and gateway name cannot be empty");
            }
            for (part, what) in [(namespace, "namespace"), (gateway, "gateway name")] {
                if !text::is_label(part) {
                    self.problem(code::NAME, &at, format!("invalid value for {what}: {}", quoted(part)));
                }
            }
        }
    }

    /// A host with a namespace, of a sidecar or gateway.
    pub(super) fn namespaced_host(&mut self, at: &Place<'_>, host: &str, is_gateway: bool) {
        let Some((namespace, name)) = host.split_once('/') else {
            if is_gateway {
                return self.host_part(at, host, true);
            }
            return self.problem(code::HOST, at, "host must be of form namespace/dnsName");
        };
        if namespace.is_empty() || name.is_empty() {
            let text = "config namespace and dnsName in host entry cannot be empty";
            self.problem(code::HOST, at, text);
        }
        let is_special = matches!(namespace, "*" | ".") || !is_gateway && namespace == "~";
        if !is_special && !text::is_label(namespace) {
            let place = if is_gateway { "gateway" } else { "sidecar" };
            let text = format!("invalid namespace value {} in {place}", quoted(namespace));
            self.problem(code::NAME, at, text);
        }
        self.host_part(at, name, is_gateway);
    }

    fn host_part(&mut self, at: &Place<'_>, host: &str, is_gateway: bool) {
        if host != "*" && !host.contains('.') {
            self.problem(code::HOST, at, "short names (non FQDN) are not allowed");
        }
        if let Err(text) = text::wildcard_domain(host) {
            if !is_gateway {
                self.problem(code::HOST, at, text.clone());
            }
            // compat(1.3): what is no host of a sidecar is reported twice, unless it is an address.
            if !text::is_ip(host) {
                self.problem(code::HOST, at, text);
            }
        }
    }
}
