//! Resources that the policy engine does not use, and the configuration plane distributes: they are checked as the admission webhook
//! checks them.

use std::collections::HashMap;
use std::sync::Arc;

use mixer_config::message::plain_words;
use mixer_config::store::{Broken, StoreContents};
use mixer_config::{
    Diagnostic, Diagnostics, Node, Origin, Positions, RawResource, ResourceKey, Severity, yaml,
};
use mixer_engine::snapshot::KnownKind;
use mixer_schema::analysis::{self, Object, Suppression, analyzed_kind};
use mixer_schema::{Body, Kind, Origin as KindOrigin, Subject, by_api, check, near_kind};

/// The code of a resource whose kind the policy engine does not know.
const KIND_UNKNOWN: &str = "kind-unknown";
/// The code of a policy for proxies, which the policy engine does not enforce.
const POLICY_UNENFORCED: &str = "policy-unenforced";
/// The code of a document without kind, name or namespace.
const DOCUMENT_IDENTITY: &str = "document-identity";
/// The code of what the checks of each resource say, in the words of analyzers.
const INVALID: &str = "IST0106";
/// The namespace of a resource that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Replaces what the policy engine says of kinds that it does not use by what is wrong with the resources.
/// `used`: the kinds that the engine uses, of which it has said everything. `decides`: whether there are rules or handlers, so that whoever has a
/// policy for proxies beside them may believe that the engine enforces it.
pub(super) fn examine(
    contents: &StoreContents,
    diagnostics: Diagnostics,
    used: &[KnownKind],
    decides: bool,
) -> Diagnostics {
    let is_unknown = |problem: &Diagnostic| [KIND_UNKNOWN, POLICY_UNENFORCED].contains(&problem.code);
    let by_name: HashMap<String, &Arc<RawResource>> = match diagnostics.iter().any(is_unknown) {
        true => contents.resources.iter().map(|resource| (resource.key.to_string(), resource)).collect(),
        false => HashMap::new(),
    };
    let positions = Positions::default();
    let mut examined = Diagnostics::new();
    for problem in diagnostics {
        let resource = by_name.get(&problem.resource).filter(|_| is_unknown(&problem));
        match resource.map(|resource| look_at(resource, problem.clone(), &positions)) {
            Some(found) => {
                let is_unenforced = problem.code == POLICY_UNENFORCED;
                let is_misspelt = || found.iter().any(|found| found.code == KIND_UNKNOWN);
                if is_unenforced && decides && !is_misspelt() {
                    examined.push(problem);
                }
                examined.extend(found);
            }
            None if problem.code == DOCUMENT_IDENTITY => {
                let broken = contents.broken.iter().find(|broken| broken.problem == problem);
                let found = broken.and_then(|broken| look_at_nameless(broken, used, &positions));
                examined.extend(found.unwrap_or_else(|| vec![problem]));
            }
            None => examined.push(problem),
        }
    }
    examined
}

/// Whether the configuration plane has a kind, and the policy engine never does.
fn known(api_version: &str, kind: &str) -> Option<&'static Kind> {
    by_api(api_version, kind).filter(|kind| matches!(kind.origin, KindOrigin::Istio | KindOrigin::Core))
}

/// What is wrong with a resource of which the policy engine says that its kind is unknown.
fn look_at(resource: &RawResource, mut problem: Diagnostic, positions: &Positions) -> Diagnostics {
    let RawResource { key, envelope, origin, .. } = resource;
    // An error says that the resource is one of the policy engine's with a misspelt kind.
    let is_of_others = problem.severity == Severity::Warning;
    if let Some(kind) = known(&envelope.api_version, &key.kind).filter(|_| is_of_others) {
        return found(kind, key, &key.namespace, &resource.document(), origin, positions);
    }
    let is_policy = problem.code == POLICY_UNENFORCED;
    if (problem.hint.is_none() || is_policy)
        && let Some(hint) = near_kind(&envelope.api_version, &key.kind)
    {
        if is_policy {
            problem.code = KIND_UNKNOWN;
            problem.message = format!("kind `{}` is unknown; the resource is ignored", key.kind);
        }
        problem.severity = Severity::Error;
        problem.hint = Some(hint);
    }
    // That nobody enforces a policy of proxies is told by the caller.
    if problem.code == POLICY_UNENFORCED { Diagnostics::new() } else { vec![problem] }
}

fn found(
    kind: &'static Kind,
    key: &ResourceKey,
    namespace: &str,
    document: &Node,
    origin: &Origin,
    positions: &Positions,
) -> Diagnostics {
    let absent = Node::default();
    let body = match kind.body {
        Body::Spec => document.get("spec").unwrap_or(&absent),
        Body::Object => document,
    };
    let findings = check(&Subject { kind, name: &key.name, namespace, body });
    let place = |problem: Diagnostic| positions.place(in_plain_words(problem), key, origin);
    findings.into_diagnostics().into_iter().map(place).collect()
}

/// A problem without words of Go; the text of Istio stays beside it.
fn in_plain_words(mut problem: Diagnostic) -> Diagnostic {
    let plain = plain_words(&problem.message);
    if plain != problem.message {
        let istio = std::mem::replace(&mut problem.message, plain);
        problem.legacy.get_or_insert(istio);
    }
    problem
}

/// A text that is not empty.
fn text(node: Option<&Node>) -> Option<&str> {
    node.and_then(Node::as_str).filter(|text| !text.is_empty())
}

/// What resources say together, but for what the checks of each say already. Resources without a namespace are of the default one.
pub(super) fn analyze(contents: &StoreContents, suppressed: &[Suppression]) -> Diagnostics {
    let read = contents.resources.iter().filter_map(|resource| {
        let RawResource { key, envelope, origin, .. } = &**resource;
        let kind = analyzed_kind(&envelope.api_version, &key.kind)?;
        Some((kind, key.clone(), resource.document(), origin.clone()))
    });
    let analyzed: Vec<_> = read.chain(contents.broken.iter().filter_map(nameless)).collect();
    let objects: Vec<Object<'_>> = analyzed
        .iter()
        .map(|(kind, key, document, _)| {
            let namespace = if kind.cluster_scoped { "" } else { &*key.namespace };
            Object { kind, name: &key.name, namespace, document }
        })
        .collect();
    let positions = Positions::default();
    let mut messages = analysis::analyze(&objects, suppressed, &|| false);
    messages.retain(|message| message.problem.code != INVALID);
    // Those of one document one after another.
    messages.sort_by_key(|message| message.object);
    let place = |message: analysis::Message| {
        let (_, key, _, origin) = analyzed.get(message.object)?;
        Some(positions.place(message.problem, key, origin))
    };
    messages.into_iter().filter_map(place).collect()
}

/// A document whose only fault is that it names no namespace.
fn nameless(broken: &Broken) -> Option<(&'static Kind, ResourceKey, Node, Origin)> {
    let document = yaml::parse(&broken.text).ok()?.root;
    let metadata = document.get("metadata");
    let part = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    if part("namespace").is_some() {
        return None;
    }
    let name = text(part("name"))?;
    let kind = analyzed_kind(text(document.get("apiVersion"))?, text(document.get("kind"))?)?;
    let namespace = if kind.cluster_scoped { "" } else { DEFAULT_NAMESPACE };
    let key = ResourceKey { kind: kind.kind.into(), namespace: namespace.into(), name: name.into() };
    let first_line = broken.document.map_or(1, |chunk| chunk.line);
    let origin = Origin { file: Arc::clone(&broken.file), text: Arc::clone(&broken.text), first_line };
    Some((kind, key, document, origin))
}

/// What is wrong with a document whose only fault is that it names no namespace. `None` for any other, and for a kind that the engine uses.
fn look_at_nameless(broken: &Broken, used: &[KnownKind], positions: &Positions) -> Option<Diagnostics> {
    let (kind, key, document, origin) = nameless(broken)?;
    let kind = known(&kind.api_version(), kind.kind)?;
    if used.iter().any(|used| used.name == kind.kind && used.group == kind.group) {
        return None;
    }
    let namespace = &*key.namespace;
    let mut diagnostics = found(kind, &key, namespace, &document, &origin, positions);
    // A server that reads the file itself is right to complain.
    let mut unread = broken.problem.clone();
    unread.severity = Severity::Warning;
    unread.hint = Some(match kind.cluster_scoped {
        true => {
            "`mixer galley` and kubectl read it; a server that reads the directory itself does not".to_owned()
        }
        false => {
            "name the namespace; without it only `mixer galley` and kubectl read the document".to_owned()
        }
    });
    diagnostics.push(unread);
    Some(diagnostics)
}
