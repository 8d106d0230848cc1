//! What resources say together: references that lead nowhere, conflicts, workloads outside of the mesh. The analyzers of Istio 1.5, one row
//! a message code in `ANALYZERS`.
//!
//! Analyzers read documents only, and never change them. One whose inputs are missing as a whole does not run: a directory without pods
//! says nothing of the workloads that a gateway selects.

mod annotations;
mod authentication;
mod conflicts;
mod deprecated;
mod references;
mod workloads;
mod world;

use std::collections::BTreeSet;

use mixer_config::{Diagnostic, DiagnosticDetails, FieldPath, Node, Severity};

use crate::check::{Subject, check};
use crate::kinds::{Body, Kind, Origin, analyzed_kinds, by_api};
use world::{World, text};

/// The annotation with codes that are not told of its resource, separated by commas, or `*`.
const SUPPRESS: &str = "galley.istio.io/analyze-suppress";

/// A resource that is analyzed.
#[derive(Debug, Clone, Copy)]
pub struct Object<'d> {
    /// Its kind, as of [`analyzed_kind`].
    pub kind: &'static Kind,
    /// `metadata.name`
    pub name: &'d str,
    /// `metadata.namespace`; empty for resources of the cluster.
    pub namespace: &'d str,
    /// The whole document.
    pub document: &'d Node,
}

impl Object<'_> {
    /// `NAME.NAMESPACE`, or the name alone.
    fn full_name(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{}.{namespace}", self.name),
        }
    }
}

/// What an analyzer says.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The position of the resource in what was analyzed.
    pub object: usize,
    /// Code, severity and text, with a span in the document.
    pub problem: Diagnostic,
}

impl Message {
    /// As Istio writes it: `LEVEL [CODE](KIND NAME.NAMESPACE) TEXT`. `object`: the one that it is about.
    pub fn line(&self, object: &Object<'_>) -> String {
        let DiagnosticDetails { severity, code, message, .. } = &*self.problem;
        format!("{} [{code}]({} {}) {message}", severity.name(), object.kind.kind, object.full_name())
    }
}

/// A row of the table.
struct Analyzer {
    /// As Istio calls it.
    name: &'static str,
    /// What it says, in one line.
    about: &'static str,
    /// Groups of kinds of each of which there is at least one resource, or it does not run.
    needs: &'static [&'static [&'static str]],
    run: fn(&World<'_>, &mut Found),
}

const HOSTS: &[&str] = &["ServiceEntry", "Service"];
const PODS: &[&str] = &["Pod"];

/// All analyzers, by name.
#[rustfmt::skip]
const ANALYZERS: &[Analyzer] = &[
    Analyzer { name: "annotations", about: "IST0107, IST0108: annotations of Istio that are misplaced or unknown", needs: &[], run: annotations::analyze },
    Analyzer { name: "auth.DestinationRulePolicy", about: "IST0113: destination rules and policies that disagree about mutual TLS", needs: &[&["Service"], &["Policy", "MeshPolicy"]], run: authentication::conflicts },
    Analyzer { name: "auth.JwtPorts", about: "IST0119: policies with JWT for ports that are not HTTP", needs: &[&["Policy"], &["Service"]], run: authentication::jwt_ports },
    Analyzer { name: "auth.MtlsWithoutSidecar", about: "IST0115: mutual TLS to workloads without a sidecar", needs: &[&["DestinationRule"], &["Service"], PODS], run: authentication::without_sidecar },
    Analyzer { name: "auth.PolicyPorts", about: "IST0114: policies for ports that do not exist", needs: &[&["Policy"], &["Service"]], run: authentication::policy_ports },
    Analyzer { name: "auth.ServiceRoleBinding", about: "IST0101: bindings of roles that do not exist", needs: &[], run: references::roles },
    Analyzer { name: "auth.ServiceRoleServices", about: "IST0101: roles for services that do not exist", needs: &[&["Service"]], run: references::services_of_roles },
    Analyzer { name: "deployment.Services", about: "IST0116, IST0117: deployments of the mesh without a service, or with several of different protocols", needs: &[&["Deployment"], &["Service"]], run: workloads::deployments },
    Analyzer { name: "deprecated.Fields", about: "IST0002: fields that are deprecated", needs: &[], run: deprecated::fields },
    Analyzer { name: "deprecated.Policies", about: "IST0120, IST0121: policies that PeerAuthentication replaces, where it exists", needs: &[&["CustomResourceDefinition"]], run: deprecated::policies },
    Analyzer { name: "gateway.Port", about: "IST0104: gateways with ports that their workload does not have", needs: &[&["Gateway"], PODS, &["Service"]], run: references::gateway_ports },
    Analyzer { name: "gateway.Secret", about: "IST0101: gateways with secrets that do not exist", needs: &[&["Gateway"], PODS, &["Secret"]], run: references::secrets },
    Analyzer { name: "gateway.Selector", about: "IST0101: gateways that select no pod", needs: &[&["Gateway"], PODS], run: references::gateway_selectors },
    Analyzer { name: "injection.Image", about: "IST0105: sidecars of another image than is injected", needs: &[PODS, &["ConfigMap"]], run: workloads::images },
    Analyzer { name: "injection.Injection", about: "IST0102, IST0103: namespaces and pods without sidecars", needs: &[&["Namespace"]], run: workloads::injection },
    Analyzer { name: "schema.Validation", about: "IST0106: what the admission webhook refuses", needs: &[], run: invalid },
    Analyzer { name: "service.PortNames", about: "IST0118: ports whose names say no protocol", needs: &[&["Service"]], run: workloads::port_names },
    Analyzer { name: "sidecar.Default", about: "IST0111: namespaces with several sidecars for all workloads", needs: &[], run: conflicts::default_sidecars },
    Analyzer { name: "sidecar.Selector", about: "IST0101, IST0110: sidecars that select no pod, or the same one", needs: &[&["Sidecar"], PODS], run: conflicts::sidecars },
    Analyzer { name: "virtualservice.Conflicts", about: "IST0109: virtual services of the mesh with the same host", needs: &[], run: conflicts::hosts },
    Analyzer { name: "virtualservice.Destinations", about: "IST0101, IST0112: hosts and ports that do not exist, hosts whose port is not clear", needs: &[HOSTS], run: references::destinations },
    Analyzer { name: "virtualservice.Gateways", about: "IST0101: gateways that do not exist", needs: &[], run: references::gateways },
    Analyzer { name: "virtualservice.Subsets", about: "IST0101: subsets that no destination rule defines", needs: &[], run: references::subsets },
];

/// What was found so far.
#[derive(Default)]
pub(super) struct Found {
    messages: Vec<Message>,
}

impl Found {
    fn add(&mut self, object: usize, at: &Node, code: &'static str, severity: Severity, text: String) {
        let mut problem = Diagnostic::new(severity, code, FieldPath::root(), text);
        problem.span = Some(at.span);
        self.messages.push(Message { object, problem });
    }

    fn error(&mut self, object: usize, at: &Node, code: &'static str, text: String) {
        self.add(object, at, code, Severity::Error, text);
    }

    fn warning(&mut self, object: usize, at: &Node, code: &'static str, text: String) {
        self.add(object, at, code, Severity::Warning, text);
    }

    fn info(&mut self, object: usize, at: &Node, code: &'static str, text: String) {
        self.add(object, at, code, Severity::Info, text);
    }
}

/// The kind of an object that analyzers read: those of sinks, and what says where sidecars are.
pub fn analyzed_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let of_others =
        || analyzed_kinds().iter().find(|known| known.kind == kind && known.is_of_group(api_version));
    by_api(api_version, kind).or_else(of_others)
}

/// Name of each analyzer, and what it says.
pub fn analyzers() -> impl Iterator<Item = (&'static str, &'static str)> {
    ANALYZERS.iter().map(|analyzer| (analyzer.name, analyzer.about))
}

/// What messages are not told of which resources: `CODE=KIND NAME.NAMESPACE`, each part with `*` for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    code: String,
    resource: String,
}

impl std::str::FromStr for Suppression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((code, resource)) if !code.is_empty() && !resource.is_empty() => {
                Ok(Self { code: code.to_owned(), resource: resource.to_owned() })
            }
            _ => Err(format!(
                "`{text}` is not CODE=KIND NAME.NAMESPACE, for example `IST0102=Namespace shop`; `*` stands for any characters"
            )),
        }
    }
}

impl Suppression {
    /// `resource`: `KIND NAME.NAMESPACE`.
    fn covers(&self, code: &str, resource: &str) -> bool {
        is_like(&self.code, code) && is_like(&self.resource, resource)
    }
}

/// Whether a text is like a pattern, in which `*` stands for any characters. Cost: linear in both for each `*`.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(begin) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    true
}

/// What is wrong with resources together, without what is suppressed: errors first, then by code, resource and text; nothing twice. Ends early,
/// with what was found so far, once `is_over`.
///
/// Cost: linear in resources and their references, but for hosts with wildcards, and for pods, which each selector of a namespace looks at.
pub fn analyze(
    objects: &[Object<'_>],
    suppressed: &[Suppression],
    is_over: &dyn Fn() -> bool,
) -> Vec<Message> {
    let world = World::of(objects);
    let mut found = Found::default();
    for analyzer in ANALYZERS {
        if is_over() {
            break;
        }
        if analyzer.needs.iter().all(|kinds| kinds.iter().any(|kind| world.has(kind))) {
            (analyzer.run)(&world, &mut found);
        }
    }
    let name = |message: &Message| {
        let object = objects.get(message.object)?;
        Some(format!("{} {}", object.kind.kind, object.full_name()))
    };
    let is_told = |message: &Message| {
        let Some(object) = objects.get(message.object) else { return false };
        let (code, name) = (message.problem.code, name(message).unwrap_or_default());
        !is_muted(object, code) && !suppressed.iter().any(|suppression| suppression.covers(code, &name))
    };
    let mut messages: Vec<Message> = found.messages.into_iter().filter(is_told).collect();
    messages.sort_by_cached_key(|message| {
        let DiagnosticDetails { severity, code, message: text, .. } = &*message.problem;
        (*severity, *code, name(message), text.clone())
    });
    messages.dedup_by(|later, first| {
        (later.object, later.problem.code, &later.problem.message)
            == (first.object, first.problem.code, &first.problem.message)
    });
    messages
}

/// Whether a resource says that a code is not told of it.
fn is_muted(object: &Object<'_>, code: &str) -> bool {
    let annotations = world::at(object.document, &["metadata", "annotations"]);
    let muted = annotations.and_then(|annotations| annotations.get(SUPPRESS)).and_then(Node::as_str);
    muted.is_some_and(|muted| muted.split(',').map(str::trim).any(|of| of == "*" || of == code))
}

/// IST0106
fn invalid(world: &World<'_>, found: &mut Found) {
    for (at, object) in
        world.objects.iter().enumerate().filter(|(_, object)| object.kind.origin == Origin::Istio)
    {
        let absent = Node::default();
        let body = match object.kind.body {
            Body::Spec => object.document.get("spec").unwrap_or(&absent),
            Body::Object => object.document,
        };
        let subject = Subject { kind: object.kind, name: object.name, namespace: object.namespace, body };
        let findings = check(&subject);
        for problem in findings.undecodable.into_iter().chain(findings.invalid) {
            let text = format!("Schema validation error: {}", problem.message);
            found.error(at, object.document.at(&problem.field), "IST0106", text);
        }
    }
}

/// The texts of a list, once each and sorted, as Go prints them: `[a b]`.
fn listed<T: Ord + ToString>(of: impl IntoIterator<Item = T>) -> String {
    let sorted: BTreeSet<T> = of.into_iter().collect();
    format!("[{}]", sorted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// Namespace and name of a reference, which may name its namespace: `NAMESPACE/NAME`.
fn namespaced<'n>(reference: &'n str, own: &'n str) -> (&'n str, &'n str) {
    reference.split_once('/').unwrap_or((own, reference))
}

/// The text of a field, if it is not empty.
fn field<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    text(node.member(name))
}

#[cfg(test)]
mod tests;
