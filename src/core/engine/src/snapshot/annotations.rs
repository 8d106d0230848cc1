//! Annotations `mixer.dev/…`: settings for which the messages of Istio Mixer have no field.
//!
//! Most of them are about safety, so that one that is not understood is an error of its resource, as an unknown field is. A build
//! ignores it, as Istio Mixer does; whether the resource then serves is decided above the builder.

mod misspelt;

use super::forgotten::{self, empty_parameter};
use super::model::OnError;
use super::problems::ResourceProblems;
use misspelt::{meant, names_language};
use mixer_config::annotation::PREFIX;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, FieldPath, RawResource};
use mixer_expr::Language;

/// Annotations of rules.
pub(super) use mixer_config::annotation::OF_RULES;
pub(super) use mixer_config::annotation::{ALLOWS, DEFAULT, DRY_RUN, ON_ERROR, RECEIVED_VALUES};

/// The language of the expressions of a rule or instance: an annotation of Istio Mixer.
pub(super) const LANGUAGE: &str = "policy.istio.io/lang";

/// Annotations of handlers.
pub(super) const OF_HANDLERS: &[&str] = &[ON_ERROR];

/// Annotations of instances of generators.
pub(super) const OF_GENERATORS: &[&str] = &[RECEIVED_VALUES];

/// Whether a rule is in dry run. An unknown value counts as `false`, and so does one that is no text: the rule is enforced.
pub(super) fn dry_run(resource: &RawResource, problems: &mut ResourceProblems<'_>) -> bool {
    let (message, hint) = match resource.annotations.get(DRY_RUN) {
        None => return false,
        Some(value) if is_untyped(resource, DRY_RUN) => (
            format!(
                "the value of annotation {DRY_RUN} is no text but `{}`; it counts as false",
                shown(value)
            ),
            "quote it: \"true\" evaluates the rule without enforcing it, \"false\" enforces it",
        ),
        Some("true") => return true,
        Some("false") => return false,
        Some(other) => (
            format!("invalid value `{other}` of annotation {DRY_RUN} counts as false"),
            "\"true\" evaluates the rule without enforcing it, \"false\" enforces it",
        ),
    };
    problems.push(Diagnostic::error("dry-run-unknown", field_path(DRY_RUN), message).with_hint(hint));
    false
}

/// Whether a rule is in dry run, problems aside.
pub(crate) fn is_dry_run(resource: &RawResource) -> bool {
    let value = resource.annotations.get(DRY_RUN);
    value.is_some_and(|value| value == "true") && !is_untyped(resource, DRY_RUN)
}

/// Whether the value of an annotation is a Boolean, a number or null: `on` and `y` without quotes are `true`, which somebody may not mean.
fn is_untyped(resource: &RawResource, annotation: &str) -> bool {
    resource.envelope.untyped_annotations.iter().any(|name| &**name == annotation)
}

/// A value that is no text; null is read as the empty text.
fn shown(value: &str) -> &str {
    if value.is_empty() { "null" } else { value }
}

/// Whether a rule refuses the requests that no rule allows. An unknown value counts as `deny`: a typing error opens nothing.
pub(super) fn denies_by_default(resource: &RawResource, problems: &mut ResourceProblems<'_>) -> bool {
    match resource.annotations.get(DEFAULT) {
        None | Some("allow") => false,
        Some("deny") => true,
        Some(other) => {
            let message = format!("invalid value `{other}` of annotation {DEFAULT} counts as deny");
            let problem = Diagnostic::error("default-unknown", field_path(DEFAULT), message);
            let hint = "`deny` refuses what no rule allows, `allow` is the same as no annotation";
            problems.push(problem.with_hint(hint));
            true
        }
    }
}

/// Whether OK of a rule for the mesh allows what the default of another namespace refuses. An unknown value counts as no annotation: a
/// typing error opens nothing.
pub(super) fn allows_everywhere(resource: &RawResource, problems: &mut ResourceProblems<'_>) -> bool {
    match resource.annotations.get(ALLOWS) {
        None => false,
        Some("everywhere") => true,
        Some(other) => {
            let message =
                format!("invalid value `{}` of annotation {ALLOWS} opens no namespace", shown(other));
            let problem = Diagnostic::error("allows-unknown", field_path(ALLOWS), message);
            let hint = "`everywhere` allows what the default of any namespace refuses; without the annotation a rule for \
                        the mesh restricts what the rules of a namespace allow";
            problems.push(problem.with_hint(hint));
            false
        }
    }
}

/// The failure policy of a rule or handler.
pub(super) fn on_error(resource: &RawResource, problems: &mut ResourceProblems<'_>) -> Option<OnError> {
    match resource.annotations.get(ON_ERROR)? {
        "deny" => Some(OnError::Deny),
        "allow" => Some(OnError::Allow),
        "lastKnown" => Some(OnError::LastKnown),
        other => {
            let message = format!("invalid value `{other}` of annotation {ON_ERROR}");
            let hint = suggestion(other, ["deny", "allow", "lastKnown"]);
            let hint = hint.unwrap_or_else(|| "one of deny, allow, lastKnown".to_owned());
            problems
                .push(Diagnostic::error("on-error-unknown", field_path(ON_ERROR), message).with_hint(hint));
            None
        }
    }
}

/// Whether the received values of the attributes that an instance binds are ignored. An unknown value counts as `ignore`: a typing error
/// lets no caller choose them.
pub(super) fn ignores_received_values(resource: &RawResource, problems: &mut ResourceProblems<'_>) -> bool {
    match resource.annotations.get(RECEIVED_VALUES) {
        None | Some("keep") => false,
        Some("ignore") => true,
        Some(other) => {
            let message =
                format!("invalid value `{}` of annotation {RECEIVED_VALUES} counts as ignore", shown(other));
            let problem = Diagnostic::error("received-values-unknown", field_path(RECEIVED_VALUES), message);
            let hint = "`ignore` generates attributes also where a caller sends its own, `keep` is the same as no annotation";
            problems.push(problem.with_hint(hint));
            true
        }
    }
}

/// Most problems with the annotations of a resource that are told.
const MAX_PROBLEMS: usize = 100;

/// Reports annotations with our prefix that are unknown here, and those that were probably meant to have it: the first
/// [`MAX_PROBLEMS`], and that there are more.
pub(super) fn check(resource: &RawResource, known: &[&str], problems: &mut ResourceProblems<'_>) {
    // What a lost line leaves, of `mixer.dev/on-error: deny` for example.
    let null = forgotten::annotations(problems.document());
    null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    let mut count = 0;
    for name in resource.annotations.keys() {
        let meant = meant(name);
        let is_ours = meant.is_some() || name.split_once('/').is_some_and(|(prefix, _)| prefix == PREFIX);
        if !is_ours || known.contains(&name) {
            continue;
        }
        if count == MAX_PROBLEMS {
            let message = "further annotations are not examined";
            let problem = Diagnostic::error("annotation-unknown", field_path(name), message);
            problems.push(problem.with_hint("mend or remove those that are listed").accepted_by_istio());
            return;
        }
        count += 1;
        let kind = &resource.key.kind;
        let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let message = format!("annotation {name} is not supported on {article} {kind}");
        let hint = match (name, meant) {
            (ON_ERROR, _) => "it belongs on a rule or a handler".to_owned(),
            (RECEIVED_VALUES, _) => "it belongs on an instance of an attribute generator".to_owned(),
            (rule, _) if OF_RULES.contains(&rule) => "it belongs on a rule".to_owned(),
            (_, Some(meant)) if known.contains(&meant) => format!("did you mean `{meant}`?"),
            _ => suggestion(name, known.iter().copied()).unwrap_or_else(|| match known {
                [] => "remove it".to_owned(),
                known => format!("known here: {}", known.join(", ")),
            }),
        };
        let problem = Diagnostic::error("annotation-unknown", field_path(name), message).with_hint(hint);
        problems.push(problem.accepted_by_istio());
    }
}

/// The annotations of a resource whose kind has none, as problems of it.
pub fn unsupported_annotations(resource: &RawResource) -> Vec<Diagnostic> {
    let mut problems = ResourceProblems::more(resource);
    check(resource, &[], &mut problems);
    problems.list
}

/// Reports a language that does not exist, and annotations that were probably meant to name one. The classic language is that of
/// resources without the annotation: what was written in another one may mean something else in it.
pub(super) fn language(resource: &RawResource, problems: &mut ResourceProblems<'_>) {
    let known = Language::ALL.map(Language::name);
    let mut count = 0;
    for (name, value) in resource.annotations.iter() {
        if count == MAX_PROBLEMS {
            return;
        }
        let is_language = known.iter().any(|known| known.eq_ignore_ascii_case(value));
        let (code, message, hint) = if name == LANGUAGE {
            if known.contains(&value) {
                continue;
            }
            let upper = value.to_uppercase();
            let hint = match is_language {
                true => Some(format!("write `{upper}`")),
                false => suggestion(&upper, known),
            };
            let message =
                format!("invalid value `{value}` of annotation {LANGUAGE} selects the classic language");
            (
                "language-unknown",
                message,
                hint.unwrap_or_else(|| "one of CEL, COMPAT, and CEXL for the classic language".to_owned()),
            )
        } else if names_language(name, is_language) {
            let message = format!("annotation {name} does not select the language of expressions");
            ("annotation-unknown", message, format!("did you mean `{LANGUAGE}`?"))
        } else {
            continue;
        };
        count += 1;
        problems.push(Diagnostic::error(code, field_path(name), message).with_hint(hint).accepted_by_istio());
    }
}

fn field_path(annotation: &str) -> FieldPath {
    FieldPath::root().field("metadata").field("annotations").key(annotation)
}
