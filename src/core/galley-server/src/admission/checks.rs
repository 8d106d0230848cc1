//! The checks of the endpoints.

use serde_json::Value;

use mixer_config::yaml;
use mixer_config::{Diagnostic, Node, Severity};
use mixer_engine::snapshot::{SnapshotOptions, structure};
use mixer_schema::check::{Subject, check};
use mixer_schema::{Body, Kind, Origin};

use super::deep::{Deep, Effort};
use super::review::{Reason, Request, Verdict};
use super::{Depth, PublishedPolicy};

/// Which kinds a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Networking, authentication, authorization, and the configuration of Mixer's clients.
    Pilot,
    /// The kinds of the policy engine.
    Mixer,
    /// Both.
    Any,
}

/// The fields of an object. Spec: galley.md, 19.3 row 6.
const TOP_LEVEL: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Decides about objects.
pub(super) struct Checks {
    policy: SnapshotOptions,
    deep: Option<(Deep, PublishedPolicy)>,
}

/// An object as a document.
struct Document {
    root: Node,
    text: String,
    kind: String,
    api_version: String,
    name: String,
    namespace: String,
}

impl Document {
    /// The object of a request, which is not kept beside its text, nor both beside the tree longer than needed.
    fn read(request: &Request, object: Option<Value>) -> Result<Self, Verdict> {
        let fail = |why: String| {
            let text = format!("cannot decode configuration: error unmarshaling JSON: {why}");
            Verdict::refused(Reason::YamlDecode, text)
        };
        let text = object.map(|object| object.to_string()).unwrap_or_default();
        let root = yaml::parse(&text).map(|parsed| parsed.root).map_err(|error| fail(error.to_string()))?;
        let part = |name: &str| root.get(name).and_then(Node::as_str).unwrap_or_default().to_owned();
        let (kind, api_version) = (part("kind"), part("apiVersion"));
        if kind.is_empty() {
            return Err(fail(format!("Object 'Kind' is missing in '{text}'")));
        }
        let metadata = |part: &str| root.get("metadata")?.get(part)?.as_str();
        let name = metadata("name").unwrap_or(&request.name).to_owned();
        let namespace = metadata("namespace").unwrap_or_default().to_owned();
        Ok(Self { kind, api_version, name, namespace, text, root })
    }

    /// Errors: it has a field that no object has.
    fn check_fields(&self, request: &Request) -> Result<(), Verdict> {
        let unknown = self.root.entries().iter().find(|entry| !TOP_LEVEL.contains(&&*entry.key));
        unknown.map_or(Ok(()), |entry| {
            let (kind, namespace) = (&request.kind.kind, &request.namespace);
            let text = format!(
                "unknown field \"{}\" on {kind} resource {namespace}/{}",
                entry.key.escape_default(),
                self.name
            );
            Err(Verdict::refused(Reason::Invalid, text))
        })
    }
}

impl Checks {
    pub(super) fn new(policy: SnapshotOptions, depth: Depth, published: PublishedPolicy) -> Self {
        let deep = (depth == Depth::Deep).then(|| (Deep::new(policy.clone()), published));
        Self { policy, deep }
    }

    /// The verdict about a request with this object.
    pub(super) fn verdict(
        &self,
        endpoint: Endpoint,
        effort: Effort,
        request: &Request,
        object: Option<Value>,
    ) -> Verdict {
        let verdict = match endpoint {
            Endpoint::Pilot => self.pilot(request, object),
            Endpoint::Mixer => self.mixer(effort, request, object),
            Endpoint::Any if self.is_of_pilot(&request.kind.kind) => self.pilot(request, object),
            Endpoint::Any => self.mixer(effort, request, object),
        };
        verdict.unwrap_or_else(|refused| refused)
    }

    /// Whether a kind is one of Istio's, and none of the policy engine.
    fn is_of_pilot(&self, kind: &str) -> bool {
        self.pilot_kind("", kind).is_some()
    }

    fn pilot_kind(&self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let found = mixer_schema::by_api(api_version, kind).or_else(|| mixer_schema::by_kind(kind))?;
        let is_of_engine = structure(kind, None, &self.policy).is_some();
        (found.origin == Origin::Istio && !is_of_engine).then_some(found)
    }

    /// Spec: galley.md, 19.3.
    fn pilot(&self, request: &Request, object: Option<Value>) -> Result<Verdict, Verdict> {
        if !matches!(&*request.operation, "CREATE" | "UPDATE") {
            return Ok(Verdict::unsupported());
        }
        let document = Document::read(request, object)?;
        let Some(kind) = self.pilot_kind(&document.api_version, &document.kind) else {
            let text = format!("unrecognized type {}", document.kind);
            return Err(Verdict::refused(Reason::UnknownType, text));
        };
        let null = Node::default();
        let spec = match kind.body {
            Body::Spec => document.root.get("spec").unwrap_or(&null),
            Body::Object => &document.root,
        };
        let findings =
            check(&Subject { kind, name: &document.name, namespace: &document.namespace, body: spec });
        if let Some(text) = findings.message() {
            let is_decoded = findings.undecodable.is_empty();
            let reason = if is_decoded { Reason::Invalid } else { Reason::Conversion };
            return Err(Verdict::refused(reason, text));
        }
        document.check_fields(request)?;
        let warnings = findings.into_diagnostics().iter().map(line).collect();
        Ok(Verdict { warnings, ..Verdict::passed() })
    }

    /// Spec: galley.md, 19.4.
    fn mixer(&self, effort: Effort, request: &Request, object: Option<Value>) -> Result<Verdict, Verdict> {
        match &*request.operation {
            "CREATE" | "UPDATE" => {}
            "DELETE" if request.name.is_empty() => {
                let text = "illformed request: name not found on delete request";
                return Err(Verdict::refused(Reason::UnknownType, text));
            }
            "DELETE" => return Ok(Verdict::passed()),
            _ => return Ok(Verdict::unsupported()),
        }
        let document = Document::read(request, object)?;
        document.check_fields(request)?;
        let Some(errors) = structure(&request.kind.kind, document.root.get("spec"), &self.policy) else {
            return Ok(Verdict::passed());
        };
        if let Some(error) = errors.first() {
            return Err(Verdict::refused(Reason::Invalid, &error.message));
        }
        // It is read again with its namespace.
        let text = document.text;
        drop(document.root);
        match &self.deep {
            Some((deep, published)) => {
                let namespace = Some(&*request.namespace).filter(|namespace| !namespace.is_empty());
                of_diagnostics(&deep.check(effort, published(), text, namespace))
            }
            None => Ok(Verdict::passed()),
        }
    }
}

/// The verdict of diagnostics: refused if one is an error, and all of them as `mixer validate` has them.
fn of_diagnostics(problems: &[Diagnostic]) -> Result<Verdict, Verdict> {
    let of = |severity| problems.iter().filter(move |problem| problem.severity == severity).map(line);
    let warnings = of(Severity::Warning).collect();
    let errors: Vec<String> = of(Severity::Error).collect();
    match errors.is_empty() {
        true => Ok(Verdict { warnings, ..Verdict::passed() }),
        false => Err(Verdict { warnings, ..Verdict::refused(Reason::Invalid, errors.join("\n")) }),
    }
}

/// A problem in one line: severity, code, field, message, hint.
fn line(problem: &Diagnostic) -> String {
    let mut text = format!("{}[{}]: ", problem.severity.name(), problem.code);
    let field = problem.field.to_string();
    if !field.is_empty() {
        text.push_str(&format!("{field}: "));
    }
    text.push_str(&problem.one_line());
    if let Some(hint) = &problem.hint {
        text.push_str(&format!(" ({})", hint.replace('\n', " ")));
    }
    text
}
