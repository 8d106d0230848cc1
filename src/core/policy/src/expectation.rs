//! Expectations of an answer.

use regex::Regex;

use mixer_attribute::SignedDuration;
use mixer_engine::decision::HeaderText;

/// A rule by `name`, `name.namespace` or full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleName(pub(super) String);

impl RuleName {
    /// Whether this is the rule with the full name `name.rule.namespace`.
    pub(super) fn matches(&self, full: &str) -> bool {
        if self.0 == full {
            return true;
        }
        let Some((name, rest)) = full.split_once(".rule.") else { return false };
        self.0 == name || self.0 == format!("{name}.{rest}")
    }
}

/// A referenced attribute: `name` or `name[key]`, with ` EXACT`, ` ABSENCE` or any condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReferencePattern {
    pub(super) name: String,
    pub(super) condition: Option<String>,
}

impl ReferencePattern {
    /// Whether this is the reference `name CONDITION`.
    pub(super) fn matches(&self, found: &str) -> bool {
        let (name, condition) = found.rsplit_once(' ').unwrap_or((found, ""));
        self.name == name && self.condition.as_deref().is_none_or(|wanted| wanted == condition)
    }
}

impl std::fmt::Display for ReferencePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.condition.as_ref().map_or(Ok(()), |condition| write!(f, " {condition}"))
    }
}

/// A string or a regular expression.
#[derive(Debug, Clone)]
pub(super) enum TextPattern {
    Exact(String),
    Matches(Regex),
}

impl TextPattern {
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            TextPattern::Exact(wanted) => wanted == text,
            TextPattern::Matches(pattern) => pattern.is_match(text),
        }
    }
}

impl std::fmt::Display for TextPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TextPattern::Exact(text) => write!(f, "{text:?}"),
            TextPattern::Matches(pattern) => write!(f, "a match of /{pattern}/"),
        }
    }
}

/// An instance that is expected in a report.
#[derive(Debug, Clone)]
pub(super) struct InstancePattern {
    /// Full name, or its part before the first dot.
    pub(super) instance: String,
    /// Name of the handler; `None` means any.
    pub(super) handler: Option<String>,
    /// Expected values; others are ignored.
    pub(super) values: Vec<(String, String)>,
}

impl std::fmt::Display for InstancePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.instance)?;
        if let Some(handler) = &self.handler {
            write!(f, " at {handler}")?;
        }
        for (i, (name, value)) in self.values.iter().enumerate() {
            write!(f, "{}{name}={value:?}", if i == 0 { " with " } else { ", " })?;
        }
        Ok(())
    }
}

/// One expectation of an answer.
#[derive(Debug, Clone)]
pub(super) enum Expectation {
    Status(i32),
    Message(TextPattern),
    /// The call fails, with this text.
    Error(TextPattern),
    ValidDuration(SignedDuration),
    ValidUseCount(i64),
    /// Exactly these rules apply, in any order.
    Rules(Vec<RuleName>),
    RulesInclude(Vec<RuleName>),
    RulesExclude(Vec<RuleName>),
    /// The outcome of a rule in dry run.
    DryRun(RuleName, String),
    /// Exactly these attributes are referenced.
    Referenced(Vec<ReferencePattern>),
    ReferencedInclude(Vec<ReferencePattern>),
    ReferencedExclude(Vec<ReferencePattern>),
    QuotaGranted(String, i64),
    QuotaValid(String, SignedDuration),
    RequestHeaders(Vec<HeaderText>),
    ResponseHeaders(Vec<HeaderText>),
    DirectResponseCode(i64),
    DirectResponseBody(TextPattern),
    /// Exactly these instances are reported, in any order.
    Reported(Vec<InstancePattern>),
    ReportedInclude(Vec<InstancePattern>),
}

impl Expectation {
    /// The name of the field.
    pub(super) fn field(&self) -> String {
        match self {
            Expectation::Status(_) => "status".to_owned(),
            Expectation::Message(_) => "message".to_owned(),
            Expectation::Error(_) => "error".to_owned(),
            Expectation::ValidDuration(_) => "validDuration".to_owned(),
            Expectation::ValidUseCount(_) => "validUseCount".to_owned(),
            Expectation::Rules(_) => "rules".to_owned(),
            Expectation::RulesInclude(_) => "rulesInclude".to_owned(),
            Expectation::RulesExclude(_) => "rulesExclude".to_owned(),
            Expectation::DryRun(rule, _) => format!("dryRun {}", rule.0),
            Expectation::Referenced(_) => "referenced".to_owned(),
            Expectation::ReferencedInclude(_) => "referencedInclude".to_owned(),
            Expectation::ReferencedExclude(_) => "referencedExclude".to_owned(),
            Expectation::QuotaGranted(name, _) => format!("quota {name}"),
            Expectation::QuotaValid(name, _) => format!("quota {name} validDuration"),
            Expectation::RequestHeaders(_) => "requestHeaders".to_owned(),
            Expectation::ResponseHeaders(_) => "responseHeaders".to_owned(),
            Expectation::DirectResponseCode(_) => "directResponse code".to_owned(),
            Expectation::DirectResponseBody(_) => "directResponse body".to_owned(),
            Expectation::Reported(_) => "reported".to_owned(),
            Expectation::ReportedInclude(_) => "reportedInclude".to_owned(),
        }
    }
}
