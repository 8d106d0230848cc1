//! `ServiceRole` and `ServiceRoleBinding`: decoding, and what they mean together.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use super::pattern::has_literal_star;
use super::policy::{Of, Policy};
use mixer_config::message::{Message, decode_over, suggestion};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node, NodeKind, Positions, RawResource};
use mixer_engine::snapshot::{ResourceProblems, forgotten_in};

/// The API group of the kinds.
pub(super) const GROUP: &str = "rbac.istio.io";
/// Kinds that are decoded.
pub(super) const ROLE: &str = "ServiceRole";
pub(super) const BINDING: &str = "ServiceRoleBinding";
/// Kinds that configure proxies, and are known only so that nobody takes them for effective here.
pub(super) const SETTINGS: [&str; 2] = ["RbacConfig", "ClusterRbacConfig"];

/// The code of what is valid and does nothing.
const INEFFECTIVE: &str = "rbac-ineffective";
/// The code of a restriction that restricts nothing.
const EMPTY: &str = "rbac-empty";
/// The code of a binding that is meant as a trial.
const PERMISSIVE: &str = "rbac-permissive";

mixer_config::message! {
    /// A condition on a property of the action.
    pub struct Constraint: "istio.rbac.v1alpha1.AccessRule.Constraint" {
        /// The property.
        1 key: String = String::new();
        /// Patterns of its value.
        2 values: Vec<String> = Vec::new();
    }
}

mixer_config::message! {
    /// What a role permits.
    pub struct AccessRule: "istio.rbac.v1alpha1.AccessRule" {
        /// Patterns of services.
        1 services: Vec<String> = Vec::new();
        /// Patterns of paths; none permit every path.
        2 paths: Vec<String> = Vec::new();
        /// Patterns of methods.
        3 methods: Vec<String> = Vec::new();
        /// Conditions that must all hold.
        4 constraints: Vec<Constraint> = Vec::new();
    }
}

mixer_config::message! {
    /// A role.
    pub struct ServiceRole: "istio.rbac.v1alpha1.ServiceRole" {
        /// Alternatives.
        1 rules: Vec<AccessRule> = Vec::new();
    }
}

mixer_config::message! {
    /// Somebody; all given parts must match.
    pub struct Subject: "istio.rbac.v1alpha1.Subject" {
        /// The user, or `*`.
        1 user: String = String::new();
        /// The groups, as one text, or `*`.
        2 group: String = String::new();
        /// Properties with their values.
        3 properties: BTreeMap<String, String> = BTreeMap::new();
    }
}

impl Subject {
    /// Whether it has no part, so that nobody is meant.
    pub(super) fn is_nobody(&self) -> bool {
        self.user.is_empty() && self.group.is_empty() && self.properties.is_empty()
    }
}

mixer_config::message! {
    /// A reference to a role.
    pub struct RoleRef: "istio.rbac.v1alpha1.RoleRef" {
        /// `ServiceRole`.
        1 kind: String = String::new();
        /// The name of a role in the same namespace.
        2 name: String = String::new();
    }
}

mixer_config::message_enum! {
    /// How a binding applies.
    pub enum EnforcementMode: "istio.rbac.v1alpha1.EnforcementMode" {
        /// It does.
        0 "ENFORCED" Enforced;
        /// A proxy would only record it. Here it is an error; in Istio Mixer it applies.
        1 "PERMISSIVE" Permissive;
    }
}

mixer_config::message! {
    /// Gives a role to subjects.
    pub struct ServiceRoleBinding: "istio.rbac.v1alpha1.ServiceRoleBinding" {
        /// Who has the role.
        1 subjects: Vec<Subject> = Vec::new();
        /// The role.
        2 role_ref: RoleRef = RoleRef::default();
        /// Must be enforced; has no effect in Istio Mixer.
        3 mode: EnforcementMode = EnforcementMode::Enforced;
    }
}

mixer_config::message_enum! {
    /// Which services proxies protect.
    pub enum RbacMode: "istio.rbac.v1alpha1.RbacConfig.Mode" {
        /// None.
        0 "OFF" Off;
        /// All.
        1 "ON" On;
        /// Those of `inclusion`.
        2 "ON_WITH_INCLUSION" OnWithInclusion;
        /// All but those of `exclusion`.
        3 "ON_WITH_EXCLUSION" OnWithExclusion;
    }
}

mixer_config::message! {
    /// Services and namespaces.
    pub struct RbacTarget: "istio.rbac.v1alpha1.RbacConfig.Target" {
        /// Services.
        1 services: Vec<String> = Vec::new();
        /// Namespaces.
        2 namespaces: Vec<String> = Vec::new();
    }
}

mixer_config::message! {
    /// Settings of proxies, which have no effect here. They are decoded so that nothing else passes for them.
    pub struct RbacConfig: "istio.rbac.v1alpha1.RbacConfig" {
        /// Which services are protected.
        1 mode: RbacMode = RbacMode::Off;
        /// For [`RbacMode::OnWithInclusion`].
        2 inclusion: RbacTarget = RbacTarget::default();
        /// For [`RbacMode::OnWithExclusion`].
        3 exclusion: RbacTarget = RbacTarget::default();
        /// Whether proxies enforce.
        4 enforcement_mode: EnforcementMode = EnforcementMode::Enforced;
    }
}

/// A decoded resource.
#[derive(Debug)]
pub(super) enum RbacResource {
    Role(ServiceRole, Vec<Empty>),
    Binding(ServiceRoleBinding, Vec<Empty>),
    /// Of a kind that has no effect.
    Settings,
}

/// A restriction that is written and empty, so that it restricts nothing.
#[derive(Debug)]
pub(super) struct Empty {
    field: FieldPath,
    /// Its name, and what follows.
    name: String,
    means: &'static str,
}

impl RbacResource {
    /// Its parts with which it permits more than it says, as errors with positions in files. Istio Mixer accepts them.
    pub(super) fn openings(&self, raw: &RawResource) -> Diagnostics {
        let (empty, mode) = match self {
            RbacResource::Role(_, empty) => (empty, EnforcementMode::Enforced),
            RbacResource::Binding(binding, empty) => (empty, binding.mode),
            RbacResource::Settings => return Diagnostics::new(),
        };
        let of_empty = |Empty { field, name, means }: &Empty| {
            Diagnostic::error(EMPTY, field.clone(), format!("`{name}` is empty: {means}"))
                .with_hint(format!("write a value, or leave out `{name}`"))
        };
        let mut openings: Diagnostics = empty.iter().map(of_empty).collect();
        if mode == EnforcementMode::Permissive {
            let field = FieldPath::root().field("spec").field("mode");
            let text = "a PERMISSIVE binding is a trial: here it would give its role";
            let hint = "delete the binding, or its `mode`; for a trial annotate the rule that asks with \
                        `mixer.dev/dry-run: \"true\"`";
            openings.push(Diagnostic::error(PERMISSIVE, field, text).with_hint(hint));
        }
        let positions = Positions::default();
        let placed =
            |opening: Diagnostic| positions.place(opening.accepted_by_istio(), &raw.key, &raw.origin);
        openings.into_iter().map(placed).collect()
    }
}

/// Whether two paths are one, whether a name in them is that of a field or a key of a map.
fn is_same_place(one: &FieldPath, other: &FieldPath) -> bool {
    let [one, other] = [one, other].map(|path| {
        let is_between = |c: char| !(c.is_alphanumeric() || "_-".contains(c));
        path.to_string()
            .split(is_between)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    one == other
}

impl Empty {
    /// Those in the members of a list of a `spec`, and whatever else is written without a value: it was forgotten, or the file was cut off.
    fn of_document(
        problems: &ResourceProblems<'_>,
        list: &str,
        restrictions: &[(&'static str, &'static str)],
    ) -> Vec<Self> {
        let mut found = Self::of(problems.spec(), list, restrictions);
        for (field, name) in forgotten_in(problems.document()) {
            if found.iter().all(|known| !is_same_place(&known.field, &field)) {
                found.push(Self { field, name: name.into(), means: "it counts as if it were not there" });
            }
        }
        found
    }

    /// Those in the members of a list of a `spec`.
    fn of(spec: Option<&Node>, list: &str, restrictions: &[(&'static str, &'static str)]) -> Vec<Self> {
        let items = spec.and_then(|spec| spec.get(list)).map_or(&[][..], Node::items);
        let mut found = Vec::new();
        for (index, item) in items.iter().enumerate() {
            for (name, means) in restrictions {
                let field = || FieldPath::root().field("spec").field(list).index(index).field(name);
                let Some(value) = item.get(name) else { continue };
                if is_empty(value) {
                    found.push(Self { field: field(), name: (*name).to_owned(), means });
                }
                found.extend(Self::of_values(&field(), value));
            }
        }
        found
    }

    /// Those among the values of properties and of constraints.
    fn of_values(field: &FieldPath, value: &Node) -> Vec<Self> {
        let mut found = Vec::new();
        if let NodeKind::Mapping(properties) = &value.kind {
            let empty = properties.iter().filter(|property| is_empty(&property.value));
            found.extend(empty.map(|property| Self {
                field: field.key(&property.key),
                name: property.key.to_string(),
                means: "whoever has an empty one matches",
            }));
        }
        for (at, constraint) in value.items().iter().enumerate() {
            let values = constraint.get("values").map_or(&[][..], Node::items).iter().enumerate();
            found.extend(values.filter(|(_, value)| is_empty(value)).map(|(index, _)| Self {
                field: field.index(at).field("values").index(index),
                name: format!("values[{index}]"),
                means: "an empty value is permitted",
            }));
        }
        found
    }
}

/// Whether a value is written and empty.
fn is_empty(value: &Node) -> bool {
    match &value.kind {
        NodeKind::Null => true,
        NodeKind::String(text) => text.is_empty(),
        NodeKind::Sequence(items) => items.is_empty(),
        NodeKind::Mapping(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Restrictions of the rules of a role.
const OF_RULES: [(&str, &str); 2] =
    [("paths", "every path is permitted"), ("constraints", "nothing is required")];
/// Restrictions of the subjects of a binding.
const OF_SUBJECTS: [(&str, &str); 3] =
    [("user", "it is not compared"), ("group", "it is not compared"), ("properties", "none is compared")];

/// Decodes a resource of one of the kinds. `failure`: see [`SnapshotExtension::decode`](mixer_engine::snapshot::SnapshotExtension::decode).
///
/// Errors: every problem.
pub(super) fn decode(
    resource: &RawResource,
    failure: &dyn Fn(&str) -> String,
) -> Result<RbacResource, Vec<Diagnostic>> {
    let mut problems = ResourceProblems::new(resource);
    let version = &*resource.envelope.api_version;
    let group = version.split_once('/').map_or(version, |(group, _)| group);
    if !group.is_empty() && group != GROUP {
        let field = FieldPath::root().field("apiVersion");
        let text = format!("`{}` is a kind of `{GROUP}`, not of `{group}`", resource.key.kind);
        let hint = format!("write `{GROUP}/v1alpha1`");
        problems.push(Diagnostic::error("rbac-group", field, text).with_hint(hint));
    }
    let decoded = match &*resource.key.kind {
        ROLE => {
            let role = spec(&mut problems, failure);
            RbacResource::Role(role, Empty::of_document(&problems, "rules", &OF_RULES))
        }
        BINDING => {
            let binding = spec(&mut problems, failure);
            RbacResource::Binding(binding, Empty::of_document(&problems, "subjects", &OF_SUBJECTS))
        }
        _ => {
            let _: RbacConfig = spec(&mut problems, failure);
            RbacResource::Settings
        }
    };
    match problems.list.is_empty() {
        true => Ok(decoded),
        false => Err(problems.list),
    }
}

fn spec<M: Message>(problems: &mut ResourceProblems<'_>, failure: &dyn Fn(&str) -> String) -> M {
    let mut message = M::default();
    let path = FieldPath::root().field("spec");
    let errors = problems.spec().map_or_else(Vec::new, |spec| decode_over(&mut message, spec, path));
    problems.decode_errors("spec-decode", errors, failure);
    message
}

/// A role with the subjects that bindings give it to.
struct Given<'r> {
    raw: &'r RawResource,
    role: &'r ServiceRole,
    subjects: Vec<&'r Subject>,
}

/// Compiles all resources. Problems: [openings](RbacResource::openings), and warnings about what does nothing.
pub(super) fn assemble(resources: &[(&RawResource, &RbacResource)]) -> (Arc<Policy>, Diagnostics) {
    let mut warnings = Warnings::default();
    let mut roles: HashMap<(&str, &str), Given<'_>> = HashMap::default();
    let mut names: HashMap<&str, Vec<&str>> = HashMap::default();
    let mut order = Vec::new();
    for (raw, resource) in resources {
        warnings.found.extend(resource.openings(raw));
        match resource {
            RbacResource::Role(role, _) => {
                let name = (&*raw.key.namespace, &*raw.key.name);
                order.push(name);
                names.entry(name.0).or_default().push(name.1);
                roles.insert(name, Given { raw, role, subjects: Vec::new() });
                warnings.role(raw, role);
            }
            RbacResource::Binding(..) => {}
            RbacResource::Settings => warnings.settings(raw),
        }
    }
    let mut policy = Policy::default();
    for (raw, resource) in resources {
        let RbacResource::Binding(binding, _) = resource else { continue };
        warnings.binding(raw, binding);
        let namespace = &*raw.key.namespace;
        let role = &binding.role_ref;
        match roles.get_mut(&(namespace, role.name.as_str())) {
            _ if role.kind != ROLE => warnings.role_kind(raw, &role.kind),
            None => {
                let names = names.get(namespace).map_or(&[][..], Vec::as_slice);
                warnings.unknown_role(raw, &role.name, suggestion(&role.name, names.iter().copied()));
            }
            Some(given) => {
                given.subjects.extend(&binding.subjects);
                policy.count_binding();
            }
        }
    }
    for name in order {
        let Some(given) = roles.get(&name) else { continue };
        policy.add(&given.raw.key.namespace, &given.role.rules, &given.subjects);
    }
    for (raw, resource) in resources {
        warnings.compared(raw, resource, &mut policy);
    }
    (Arc::new(policy), warnings.found)
}

/// The methods of HTTP requests.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// Whether a pattern of paths is probably meant as a regular expression.
fn is_expression(path: &str) -> bool {
    let ends = [".+", "/.*", ")*", "]*", "$"];
    path == ".*" || path.starts_with('^') || ends.iter().any(|end| path.ends_with(end))
}

/// Problems with positions in files.
#[derive(Default)]
struct Warnings {
    found: Diagnostics,
    positions: Positions,
}

impl Warnings {
    fn push(&mut self, raw: &RawResource, field: FieldPath, text: String, hint: impl Into<String>) {
        let warning = Diagnostic::warning(INEFFECTIVE, field, text).with_hint(hint);
        self.found.push(self.positions.place(warning, &raw.key, &raw.origin));
    }

    fn role(&mut self, raw: &RawResource, role: &ServiceRole) {
        for (index, rule) in role.rules.iter().enumerate() {
            let field = FieldPath::root().field("spec").field("rules").index(index);
            for (name, list) in [("services", &rule.services), ("methods", &rule.methods)] {
                if list.is_empty() {
                    let text = format!("a rule without `{name}` permits nothing");
                    self.push(raw, field.clone(), text, format!("`{name}: [\"*\"]` permits all"));
                }
            }
            let constraints = rule.constraints.iter().enumerate();
            let constraints = constraints.map(|(at, constraint)| {
                (field.field("constraints").index(at).field("values"), &constraint.values)
            });
            let lists = [("services", &rule.services), ("paths", &rule.paths), ("methods", &rule.methods)];
            let lists = lists.into_iter().map(|(name, list)| (field.field(name), list));
            for (field, list) in lists.chain(constraints) {
                for (at, entry) in list.iter().enumerate().filter(|(_, entry)| has_literal_star(entry)) {
                    let text = format!(
                        "`*` is special only as the last or the first character of a pattern, not in `{entry}`"
                    );
                    self.push(raw, field.index(at), text, "write several patterns, or a prefix or suffix");
                }
            }
            self.unlike_requests(raw, rule, &field);
        }
    }

    /// Methods in lower case, paths that are regular expressions, and constraints without values: no request has them.
    fn unlike_requests(&mut self, raw: &RawResource, rule: &AccessRule, field: &FieldPath) {
        for (at, method) in rule.methods.iter().enumerate() {
            let upper = method.to_ascii_uppercase();
            if *method != upper && METHODS.contains(&upper.as_str()) {
                let text = format!("`{method}` is no method of a request: methods are in upper case");
                self.push(raw, field.field("methods").index(at), text, format!("write `{upper}`"));
            }
        }
        for (at, path) in rule.paths.iter().enumerate().filter(|(_, path)| is_expression(path)) {
            let text = format!("`{path}` is no regular expression: only `*` at an end is special");
            let hint = "write a prefix, such as `/books/*`, or a suffix";
            self.push(raw, field.field("paths").index(at), text, hint);
        }
        for (at, constraint) in rule.constraints.iter().enumerate() {
            if constraint.values.is_empty() {
                let text = format!("a constraint on `{}` without `values` permits nothing", constraint.key);
                let hint = "list the values that are permitted, or leave the constraint out";
                self.push(raw, field.field("constraints").index(at), text, hint);
            }
        }
    }

    /// Notes the properties that a resource compares.
    fn compared(&self, raw: &RawResource, resource: &RbacResource, policy: &mut Policy) {
        let spec = FieldPath::root().field("spec");
        let warning = |field: FieldPath, text: String| {
            self.positions.place(Diagnostic::warning(INEFFECTIVE, field, text), &raw.key, &raw.origin)
        };
        match resource {
            RbacResource::Role(role, _) => {
                for (index, rule) in role.rules.iter().enumerate() {
                    for (at, constraint) in rule.constraints.iter().enumerate() {
                        let key = &constraint.key;
                        policy.compares(Of::Action, key, || {
                            let field = spec.field("rules").index(index).field("constraints").index(at);
                            let text = format!(
                                "no instance sets the property `{key}`, so that the rule permits nothing"
                            );
                            warning(field.field("key"), text)
                        });
                    }
                }
            }
            RbacResource::Binding(binding, _) => {
                for (index, subject) in binding.subjects.iter().enumerate() {
                    for key in subject.properties.keys() {
                        policy.compares(Of::Subject, key, || {
                            let field = spec.field("subjects").index(index).field("properties").key(key);
                            let text = format!(
                                "no instance sets the property `{key}`, so that the subject is nobody"
                            );
                            warning(field, text)
                        });
                    }
                }
            }
            RbacResource::Settings => {}
        }
    }

    fn binding(&mut self, raw: &RawResource, binding: &ServiceRoleBinding) {
        let spec = FieldPath::root().field("spec");
        for (index, subject) in binding.subjects.iter().enumerate() {
            if subject.is_nobody() {
                let field = spec.field("subjects").index(index);
                let text = "a subject without user, group and properties is nobody".to_owned();
                self.push(raw, field, text, "`user: \"*\"` is everybody");
            }
            for (name, text) in [("user", &subject.user), ("group", &subject.group)] {
                if text != "*" && text.contains('*') {
                    let field = spec.field("subjects").index(index).field(name);
                    let text = format!("`*` is special only alone, not in `{text}`");
                    self.push(raw, field, text, "write each name, or compare a property");
                }
            }
        }
    }

    fn role_kind(&mut self, raw: &RawResource, kind: &str) {
        let field = FieldPath::root().field("spec").field("roleRef").field("kind");
        let text = format!("the binding gives no role: its kind of role is `{kind}`");
        self.push(raw, field, text, format!("write `kind: {ROLE}`"));
    }

    fn unknown_role(&mut self, raw: &RawResource, name: &str, suggestion: Option<String>) {
        let namespace = &raw.key.namespace;
        let field = FieldPath::root().field("spec").field("roleRef").field("name");
        let text = format!("the binding gives no role: namespace `{namespace}` has no {ROLE} `{name}`");
        let hint = suggestion.unwrap_or_else(|| format!("a {ROLE} is in the namespace of its binding"));
        self.push(raw, field, text, hint);
    }

    fn settings(&mut self, raw: &RawResource) {
        let kind = &raw.key.kind;
        let text = format!("`{kind}` configures proxies and has no effect here");
        let hint = "the rules that use an rbac handler say which requests it decides about";
        self.push(raw, FieldPath::root().field("kind"), text, hint);
    }
}
