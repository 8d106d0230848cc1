//! `HTTPAPISpec` and `QuotaSpec`.

use mixer_attribute::OwnedAttributes;
use mixer_expr::functions::Regex;

use super::super::reader::{Message, Value};
use super::super::route::whole;
use super::{UriTemplate, attributes};

static API: Message = Message { name: "HTTPAPISpec", unsupported: &[] };
static PATTERN: Message = Message { name: "HTTPAPISpecPattern", unsupported: &[] };
static KEY: Message = Message { name: "APIKey", unsupported: &[] };
static QUOTAS: Message = Message { name: "QuotaSpec", unsupported: &[] };
static RULE: Message = Message { name: "QuotaRule", unsupported: &[] };
static MATCH: Message = Message { name: "AttributeMatch", unsupported: &[] };
static TEXT: Message = Message { name: "StringMatch", unsupported: &[] };
static QUOTA: Message = Message { name: "Quota", unsupported: &[] };

/// Where an API key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKey {
    /// A parameter of the query.
    Query(String),
    /// A header, in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}

/// The path of a pattern.
#[derive(Debug, Clone)]
pub enum UriPattern {
    /// A template of segments.
    Template(UriTemplate),
    /// Matches the whole path with its query.
    Regex(Regex),
}

/// Attributes of the requests with a method to a path.
#[derive(Debug, Clone)]
pub struct ApiPattern {
    /// The attributes.
    pub attributes: OwnedAttributes,
    /// The method; `*` for any, in templates.
    pub method: String,
    /// The path.
    pub uri: UriPattern,
}

/// The API of a service.
#[derive(Debug, Clone, Default)]
pub struct ApiSpec {
    /// Attributes of every request.
    pub attributes: OwnedAttributes,
    /// Attributes by method and path, in order.
    pub patterns: Vec<ApiPattern>,
    /// Where API keys are; the first that a request has counts.
    pub keys: Vec<ApiKey>,
}

/// What the text of an attribute must be.
#[derive(Debug, Clone)]
pub enum Clause {
    /// Any text.
    Any,
    /// This text.
    Exact(String),
    /// A text that begins so.
    Prefix(String),
    /// A text that matches as a whole.
    Regex(Regex),
}

/// Which requests are charged to which quotas.
#[derive(Debug, Clone)]
pub struct QuotaRule {
    /// Alternatives, each of clauses that all hold; none for every request.
    pub matches: Vec<Vec<(String, Clause)>>,
    /// Quotas and charges.
    pub quotas: Vec<(String, i64)>,
}

/// Adds an API specification to those before it.
pub(super) fn api(value: &Value<'_>, into: &mut ApiSpec) {
    let Some(spec) = value.message(&API) else { return };
    for (name, value) in attributes::of(&spec, "attributes").iter() {
        into.attributes.insert(name, value.clone());
    }
    into.patterns.extend(spec.items("patterns").iter().filter_map(pattern));
    into.keys.extend(spec.items("api_keys").iter().filter_map(key));
    spec.finish();
}

fn pattern(value: &Value<'_>) -> Option<ApiPattern> {
    let pattern = value.message(&PATTERN)?;
    let attributes = attributes::of(&pattern, "attributes");
    let method = pattern.text("http_method").unwrap_or_default().to_owned();
    let uri = match pattern.one_of(&["uri_template", "regex"]) {
        Some(("uri_template", value)) => {
            let parsed = UriTemplate::parse(value.text()?);
            if parsed.is_none() {
                value.warn("not a valid URI template; it matches nothing, as in Istio");
            }
            parsed.map(UriPattern::Template)
        }
        Some((_, value)) => whole(&value, value.text()?).map(UriPattern::Regex),
        None => {
            pattern.required("a pattern needs `uri_template` or `regex`");
            None
        }
    };
    pattern.finish();
    Some(ApiPattern { attributes, method, uri: uri? })
}

fn key(value: &Value<'_>) -> Option<ApiKey> {
    let key = value.message(&KEY)?;
    let read = match key.one_of(&["query", "header", "cookie"]) {
        Some(("query", value)) => value.text().map(|name| ApiKey::Query(name.to_owned())),
        Some(("header", value)) => value.text().map(|name| ApiKey::Header(name.to_ascii_lowercase())),
        Some((_, value)) => value.text().map(|name| ApiKey::Cookie(name.to_owned())),
        None => {
            key.required("an API key needs `query`, `header` or `cookie`");
            None
        }
    };
    key.finish();
    read
}

/// Reads a quota specification.
pub(super) fn quotas(value: &Value<'_>) -> Vec<QuotaRule> {
    let Some(spec) = value.message(&QUOTAS) else { return Vec::new() };
    let rules = spec.items("rules").iter().filter_map(rule).collect();
    spec.finish();
    rules
}

fn rule(value: &Value<'_>) -> Option<QuotaRule> {
    let rule = value.message(&RULE)?;
    let mut matches = Vec::new();
    for value in rule.items("match") {
        let Some(test) = value.message(&MATCH) else { continue };
        let clauses = test.get("clause").map(|clauses| clauses.entries()).unwrap_or_default();
        matches.push(clauses.into_iter().filter_map(|(name, value)| Some((name, clause(&value)?))).collect());
        test.finish();
    }
    let mut quotas = Vec::new();
    for value in rule.items("quotas") {
        let Some(quota) = value.message(&QUOTA) else { continue };
        let name = quota.get("quota").and_then(|name| name.nonempty("Quota", "Quota"));
        let charge = match quota.get("charge") {
            None => Some(0),
            Some(charge) => charge.number(i64::MAX.cast_unsigned()).and_then(|c| i64::try_from(c).ok()),
        };
        match (name, charge) {
            (Some(name), Some(charge @ 1..)) => quotas.push((name.to_owned(), charge)),
            (None, _) if quota.value.node.get("quota").is_none() => {
                quota.required("a quota needs `quota`, its name")
            }
            (Some(_), Some(_)) => quota.required("a quota needs a `charge` of 1 or more"),
            _ => {}
        }
        quota.finish();
    }
    rule.finish();
    Some(QuotaRule { matches, quotas })
}

fn clause(value: &Value<'_>) -> Option<Clause> {
    let test = value.message(&TEXT)?;
    let read = match test.one_of(&["exact", "prefix", "regex"]) {
        None => Some(Clause::Any),
        Some(("exact", value)) => value.text().map(|text| Clause::Exact(text.to_owned())),
        Some(("prefix", value)) => value.text().map(|text| Clause::Prefix(text.to_owned())),
        Some((_, value)) => value.text().and_then(|text| whole(&value, text)).map(Clause::Regex),
    };
    test.finish();
    read
}
