//! Warnings about expressions that compile and probably do not do what they say.

use std::sync::Arc;

use super::comparisons::{self, lists, openings};
use super::model::{ActionConfig, Condition, Evasion, RuleConfig};
use super::problems::ResourceProblems;
use crate::template::Variety;
use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Diagnostic, ExpressionPlace, FieldPath, RawResource};
use mixer_expr::{Decided, Language, Program, Read, SuspiciousCall};

/// Attributes that every HTTP request of Envoy and of the proxies of Istio has; a connection has those that apply to it. Their
/// absence is no way around a rule.
///
/// Maps are not among them: callers of the API leave them out, and a missing key fails in CEL. Neither are the addresses, which a check of
/// ext_authz over HTTP does not have, nor `context.time`, which only connections have.
const ALWAYS_THERE: [&str; 9] = [
    "connection.mtls",
    "context.protocol",
    "context.reporter.kind",
    "request.host",
    "request.method",
    "request.path",
    "request.scheme",
    "request.time",
    "request.url_path",
];

/// Whether every request has the attribute.
pub(super) fn is_always_there(name: &str) -> bool {
    ALWAYS_THERE.contains(&name)
}

/// How to say that a rule applies to every request.
pub(super) const MATCH_ALL: &str = "leave `match` out, or write `match: \"true\"`, if every request is meant";

/// Warns about a resource that configures an adapter of which no rule uses a handler.
pub(super) fn unread_resource(resource: &RawResource, adapter: &str) -> Diagnostic {
    let field = FieldPath::root().field("kind");
    let text = format!("no rule uses a handler of the adapter `{adapter}`, which alone reads this kind");
    let mut problem = Diagnostic::warning("resource-unread", field, text)
        .with_hint("it has no effect until a rule has an action with such a handler");
    problem.resource = resource.key.to_string();
    problem.file = Some(Arc::clone(&resource.origin.file));
    problem.span = Some(resource.origin.in_file(resource.document().at(&problem.field).span));
    problem
}

/// What a request does to which a rule does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutRule {
    /// It is not refused.
    Passes,
    /// No quota is charged.
    IsNotCharged,
    /// It keeps headers that its caller sent.
    KeepsHeaders,
}

impl WithoutRule {
    /// What the request does.
    pub(super) fn text(self) -> &'static str {
        match self {
            WithoutRule::Passes => "is not refused",
            WithoutRule::IsNotCharged => "is charged to no quota",
            WithoutRule::KeepsHeaders => "keeps the headers that its caller sent",
        }
    }

    /// What the request does if the condition of the rule fails. The services for Envoy refuse it unless another rule charges the quota.
    fn text_of_failure(self) -> &'static str {
        match self {
            WithoutRule::IsNotCharged => "is charged to no quota, and refused if Envoy asks",
            WithoutRule::Passes | WithoutRule::KeepsHeaders => self.text(),
        }
    }
}

/// The condition of a rule that is switched off.
pub(super) const NEVER: &str = "false";

/// Which requests can make the condition of a rule that charges a quota fail although the rule may be meant for them.
pub(super) fn evasion(condition: &Condition, actions: &[ActionConfig], vocabulary: &Vocabulary) -> Evasion {
    let mut instances = actions.iter().flat_map(|action| &action.instances);
    let charges = instances.any(|instance| instance.template().variety == Variety::Quota);
    let Condition::When(program) = condition else { return Evasion::Nobody };
    if !charges {
        return Evasion::Nobody;
    }
    if program.may_be_skipped(&|read| is_always_there(vocabulary.name(read.slot))) {
        Evasion::AnyRequest
    } else if program.may_be_skipped(&|_| false) {
        Evasion::PartialRequests
    } else {
        Evasion::Nobody
    }
}

/// Warns about the condition of a rule, and what its actions look up in lists. `without`: what the rule prevents unless its condition fails.
pub(super) fn rule(
    rule: &RuleConfig,
    without: Option<WithoutRule>,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    for action in &rule.actions {
        lists::check(action, vocabulary, problems);
        openings::whitelist(action, vocabulary, problems);
    }
    let Condition::When(program) = &rule.condition else { return };
    let field = || FieldPath::root().field("spec").field("match");
    expression(program, field, WithoutRule::prevented(rule), vocabulary, problems);
    if rule.decides() {
        constant(program, field(), vocabulary, problems);
    }
    decided(program, field(), vocabulary, problems);
    let Some(without) = without else { return };
    let does = without.text_of_failure();
    let is_always_there = |read: Read<'_>| is_always_there(vocabulary.name(read.slot));
    if let Some(read) = program.skipped_without(&is_always_there) {
        let name = shown(read, vocabulary);
        let subject = match (program.language(), read.key) {
            // A missing key of a map that is there is empty.
            (Language::Cexl, Some(_)) => vocabulary.name(read.slot).to_owned(),
            _ => name.clone(),
        };
        let message = format!(
            "a request without `{subject}` {does}: the condition fails, so that the rule does not apply"
        );
        let default = match vocabulary.value_type(read.slot) {
            Some(ValueType::String | ValueType::StringMap) => Some("\"\""),
            Some(ValueType::Int64) => Some("0"),
            Some(ValueType::Bool) => Some("false"),
            _ => None,
        };
        let default = default.map_or_else(String::new, |default| match program.language() {
            Language::Cel => format!("write `pick({name}, {default})`, or "),
            _ => format!("write `({name} | {default})`, or "),
        });
        let hint = format!("{default}annotate the rule with `mixer.dev/on-error: deny`");
        problems.push(Diagnostic::warning("match-absent", field(), message).with_hint(hint));
    }
    if let Some((conversion, position)) = program.skipped_by_malformed() {
        let message = format!(
            "a request whose `{}` is no valid {} {does}: the condition fails, so that the rule does not apply",
            shown(conversion.read, vocabulary),
            conversion.expected
        );
        let mut problem = Diagnostic::warning("match-malformed", field(), message)
            .with_hint("annotate the rule with `mixer.dev/on-error: deny`");
        problem.expression = placed(program, position);
        problems.push(problem);
    }
}

/// Warns about a condition that is the same whatever an attribute holds.
pub(super) fn decided(
    program: &Program,
    field: FieldPath,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    let Some((subject, decided)) = program.decided() else { return };
    let name = shown(subject, vocabulary);
    let (code, message, hint) = match decided {
        Decided::Never => (
            "match-never",
            format!("the condition is never true: no value of `{name}` passes all of its tests"),
            "the rule never applies; `||` joins alternatives",
        ),
        Decided::Always => (
            "match-always",
            format!("the condition is true for every value of `{name}`"),
            "`&&` joins tests that must all hold; a condition that is always true can be left out",
        ),
    };
    problems.push(Diagnostic::warning(code, field, message).with_hint(hint));
}

/// A position in an expression.
pub(super) fn placed(program: &Program, position: Option<(u32, u32)>) -> Option<ExpressionPlace> {
    position.map(|(line, column)| ExpressionPlace { text: program.text().to_owned(), line, column })
}

/// Warns about a condition that reads no attribute.
fn constant(
    program: &Program,
    field: FieldPath,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    let text = program.text().trim();
    if text == NEVER || !program.failures().is_empty() || !program.attributes().is_empty() {
        return;
    }
    let message = format!("the condition `{text}` reads no attribute: it is the same for every request");
    let quoted = vocabulary.typed().map(|(name, _)| name).find(|name| text.contains(&format!("\"{name}\"")));
    let hint = match quoted {
        Some(name) => format!("attributes are written without quotes: `{name}`"),
        None => "leave `match` out, or write `\"false\"` to switch the rule off".to_owned(),
    };
    problems.push(Diagnostic::warning("match-constant", field, message).with_hint(hint));
}

/// Refuses what fails for every request, and warns about what fails for some, calls and comparisons, of any expression. `prevents`: what
/// the rule with this condition prevents, if it is one.
pub(super) fn expression(
    program: &Program,
    field: impl Fn() -> FieldPath,
    prevents: Option<WithoutRule>,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    for failure in program.failures() {
        let mut problem = if failure.is_certain {
            let message = format!("it fails for every request: {}", failure.message);
            Diagnostic::error("expression-fails", field(), message).accepted_by_istio()
        } else {
            let message = format!("it fails when it has this constant as its operand: {}", failure.message);
            Diagnostic::warning("expression-may-fail", field(), message)
        };
        problem.expression = placed(program, failure.position);
        problems.push(problem.with_hint(&failure.hint));
    }
    for (position, call) in program.suspicious_calls() {
        let mut problem = match call {
            SuspiciousCall::ReversedMatches { meant } => {
                let (pattern, text) = match program.language() {
                    Language::Cexl => ("left", "right"),
                    _ => ("right", "left"),
                };
                let message =
                    format!("`matches` has the pattern on its {pattern} and the text on its {text} side");
                Diagnostic::warning("matches-reversed", field(), message)
                    .with_hint(format!("write `{meant}`; as it is, the constant is searched"))
            }
            SuspiciousCall::ReversedArguments { function, meant } => {
                let message = format!("`{function}` has the text that is tested and the constant exchanged");
                Diagnostic::warning("arguments-reversed", field(), message)
                    .with_hint(format!("write `{meant}`"))
            }
            SuspiciousCall::UnusedDefault => {
                let message = "what is behind this `|` is never used: what is before it is never absent";
                Diagnostic::warning("default-unused", field(), message).with_hint(
                    "`||` joins alternatives; `|` gives a default for an attribute or an entry that is absent, \
                     directly behind it",
                )
            }
            SuspiciousCall::OutOfRange { function, least, most, constant, note, decided } => {
                let (code, is) = match decided {
                    Decided::Never => ("match-never", "is never true"),
                    Decided::Always => ("match-always", "is always true"),
                };
                let message = format!(
                    "the comparison of `{function}` with {constant} {is}: it is from {least} to {most}"
                );
                Diagnostic::warning(code, field(), message).with_hint(note)
            }
        };
        problem.expression = placed(program, position);
        problems.push(problem);
    }
    if let Some(name) = quoted_attribute(program, vocabulary) {
        let message = format!("the value is the constant text `{name}`, which is the name of an attribute");
        let problem = Diagnostic::warning("value-constant", field(), message);
        problems.push(problem.with_hint(format!("attributes are written without quotes: `{name}`")));
    }
    comparisons::expression(program, field, prevents, vocabulary, problems);
}

/// The text that an expression is, if it is that of an attribute, or of an entry of one: `"source.user"`. Names without a dot are words.
fn quoted_attribute(program: &Program, vocabulary: &Vocabulary) -> Option<String> {
    if program.value_type() != ValueType::String || !program.attributes().is_empty() {
        return None;
    }
    let text = program.text().trim();
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?.replace("\\\"", "\"");
    let name = inner.split('[').next().filter(|name| name.contains('.'))?;
    vocabulary.value_type(vocabulary.slot(name.as_bytes())?)?;
    Some(inner)
}

/// An attribute or an entry of a map, as in an expression.
pub(super) fn shown(read: Read<'_>, vocabulary: &Vocabulary) -> String {
    let name = vocabulary.name(read.slot);
    match read.key {
        Some(key) => format!("{name}[{:?}]", String::from_utf8_lossy(key)),
        None => name.to_owned(),
    }
}
