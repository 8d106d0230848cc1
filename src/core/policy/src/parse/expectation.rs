//! Parses `expect`.

use crate::expectation::{Expectation, InstancePattern, ReferencePattern, RuleName, TextPattern};
use crate::read::{NodeReader, node_type};
use mixer_config::message::suggestion;
use mixer_config::{Location, Node, NodeKind};
use mixer_engine::decision::HeaderText;
use mixer_engine::snapshot::Snapshot;
use mixer_expr::Scope as _;

const EXPECT: &[&str] = &[
    "status",
    "message",
    "messageMatches",
    "error",
    "errorMatches",
    "validDuration",
    "validUseCount",
    "rules",
    "rulesInclude",
    "rulesExclude",
    "dryRun",
    "referenced",
    "referencedInclude",
    "referencedExclude",
    "quotas",
    "requestHeaders",
    "responseHeaders",
    "directResponse",
    "reported",
    "reportedInclude",
];

/// Lists and mappings that every result has if they are empty.
const AT_LEAST: &[&str] = &[
    "rulesInclude",
    "rulesExclude",
    "dryRun",
    "referencedInclude",
    "referencedExclude",
    "quotas",
    "directResponse",
    "reportedInclude",
];
/// Lists of all that a result has: nothing, if they are empty.
const EXACTLY: &[&str] = &["rules", "referenced", "requestHeaders", "responseHeaders", "reported"];

/// The expectations of a step with their positions.
pub(super) fn parse_expectations(
    node: &Node,
    reader: &mut NodeReader,
    snapshot: &Snapshot,
) -> Vec<(Location, Expectation)> {
    let mut parser = ExpectationParser { reader, snapshot };
    let mut all = Vec::new();
    for entry in parser.reader.fields(node, "`expect`", EXPECT) {
        let location = entry.value.span.start;
        let added = parser.expectation(&entry.key, &entry.value);
        all.extend(added.into_iter().map(|(own, e)| (own.unwrap_or(location), e)));
    }
    all
}

struct ExpectationParser<'p> {
    reader: &'p mut NodeReader,
    snapshot: &'p Snapshot,
}

impl ExpectationParser<'_> {
    fn expectation(&mut self, key: &str, node: &Node) -> Vec<(Option<Location>, Expectation)> {
        if !self.says_something(key, node) {
            return Vec::new();
        }
        let what = format!("`{key}`");
        let one = |expectation: Option<Expectation>| expectation.map(|e| (None, e)).into_iter().collect();
        match key {
            "status" => one(self.reader.status(node).map(Expectation::Status)),
            "message" => one(self.exact(node, &what).map(Expectation::Message)),
            "messageMatches" => one(self.pattern(node).map(Expectation::Message)),
            "error" => one(self.exact(node, &what).map(Expectation::Error)),
            "errorMatches" => one(self.pattern(node).map(Expectation::Error)),
            "validDuration" => one(self.reader.duration(node, &what).map(Expectation::ValidDuration)),
            "validUseCount" => one(self.reader.number(node, &what).map(Expectation::ValidUseCount)),
            "rules" => one(Some(Expectation::Rules(self.rules(node)))),
            "rulesInclude" => one(Some(Expectation::RulesInclude(self.rules(node)))),
            "rulesExclude" => one(Some(Expectation::RulesExclude(self.rules(node)))),
            "dryRun" => self.dry_run(node),
            "referenced" => one(Some(Expectation::Referenced(self.references(node)))),
            "referencedInclude" => one(Some(Expectation::ReferencedInclude(self.references(node)))),
            "referencedExclude" => one(Some(Expectation::ReferencedExclude(self.references(node)))),
            "quotas" => self.quotas(node),
            "requestHeaders" => one(Some(Expectation::RequestHeaders(self.headers(node)))),
            "responseHeaders" => one(Some(Expectation::ResponseHeaders(self.headers(node)))),
            "directResponse" => self.direct_response(node),
            "reported" => one(Some(Expectation::Reported(self.instances(node)))),
            "reportedInclude" => one(Some(Expectation::ReportedInclude(self.instances(node)))),
            // `NodeReader::fields` has reported it.
            _ => Vec::new(),
        }
    }

    /// Whether an expectation can fail. One whose value was forgotten, or commented out, is a problem.
    fn says_something(&mut self, key: &str, node: &Node) -> bool {
        let is_null = matches!(node.kind, NodeKind::Null);
        if is_null && EXACTLY.contains(&key) {
            let hint = format!("write `{key}: []` if none is expected, or remove it");
            self.reader.problem(node.span.start, format!("`{key}` has no value"), Some(hint));
            return false;
        }
        !AT_LEAST.contains(&key) || self.lists_something(key, node)
    }

    /// Whether a list or mapping has an entry; one without is a problem.
    fn lists_something(&mut self, key: &str, node: &Node) -> bool {
        let is_empty = match &node.kind {
            NodeKind::Null => true,
            NodeKind::Sequence(items) => items.is_empty(),
            NodeKind::Mapping(entries) => entries.is_empty(),
            _ => false,
        };
        if is_empty {
            let message = format!("`{key}` lists nothing, so that every result would pass");
            let hint = "list what is expected, or remove it".to_owned();
            self.reader.problem(node.span.start, message, Some(hint));
        }
        !is_empty
    }

    fn exact(&mut self, node: &Node, what: &str) -> Option<TextPattern> {
        self.reader.text(node, what).map(TextPattern::Exact)
    }

    fn pattern(&mut self, node: &Node) -> Option<TextPattern> {
        let text = self.reader.text(node, "a pattern")?;
        if text.is_empty() {
            let hint = "write a part of the text, `^$` for the empty one, or `.` for any other".to_owned();
            self.reader.problem(node.span.start, "an empty pattern matches every text", Some(hint));
            return None;
        }
        match regex::Regex::new(&text) {
            Ok(pattern) => Some(TextPattern::Matches(pattern)),
            Err(error) => {
                let cause = error.to_string();
                let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                let message = format!("invalid regular expression `{text}`: {cause}");
                self.reader.problem(
                    node.span.start,
                    message,
                    Some("escape `( ) [ ] . *` with a backslash".to_owned()),
                );
                None
            }
        }
    }

    fn rules(&mut self, node: &Node) -> Vec<RuleName> {
        let texts = self.reader.texts(node, "a rule");
        texts.into_iter().map(|(text, location)| self.rule(text, location)).collect()
    }

    /// The name of a rule of the configuration.
    fn rule(&mut self, text: String, location: Location) -> RuleName {
        let rule = RuleName(text);
        let rules = &self.snapshot.rules;
        if !rules.iter().any(|known| rule.matches(&known.key.to_string())) {
            let hint = suggestion(&rule.0, rules.iter().map(|known| &*known.key.name));
            let hint = hint.or_else(|| Some("`mixer routes show` lists the active rules".to_owned()));
            self.reader.problem(location, format!("the configuration has no rule `{}`", rule.0), hint);
        }
        rule
    }

    fn dry_run(&mut self, node: &Node) -> Vec<(Option<Location>, Expectation)> {
        const OUTCOMES: &[&str] = &["allowed", "denied", "granted", "refused", "matched", "failed", "none"];
        let mut all = Vec::new();
        for entry in node.entries() {
            let rule = self.rule(entry.key.to_string(), entry.key_span.start);
            let Some(outcome) = self.reader.text(&entry.value, "an outcome") else { continue };
            if OUTCOMES.contains(&outcome.as_str()) {
                all.push((Some(entry.value.span.start), Expectation::DryRun(rule, outcome)));
            } else {
                let hint = suggestion(&outcome, OUTCOMES.iter().copied())
                    .unwrap_or_else(|| format!("one of {}", OUTCOMES.join(", ")));
                self.reader.problem(
                    entry.value.span.start,
                    format!("`{outcome}` is not an outcome"),
                    Some(hint),
                );
            }
        }
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            let hint = Some("write `dryRun: {RULE: denied}`".to_owned());
            self.reader.problem(
                node.span.start,
                format!("`dryRun` must be a mapping, not {}", node_type(node)),
                hint,
            );
        }
        all
    }

    fn references(&mut self, node: &Node) -> Vec<ReferencePattern> {
        let texts = self.reader.texts(node, "an attribute");
        texts
            .into_iter()
            .map(|(text, location)| {
                let (name, condition) = match text.rsplit_once(' ') {
                    Some((name, condition @ ("EXACT" | "ABSENCE"))) => {
                        (name.to_owned(), Some(condition.to_owned()))
                    }
                    _ => (text.clone(), None),
                };
                let attribute = name.split('[').next().unwrap_or(&name);
                let vocabulary = &self.snapshot.vocabulary;
                if vocabulary.attribute(attribute).is_none() {
                    let hint = suggestion(attribute, vocabulary.names()).unwrap_or_else(|| {
                        "write name or name[key], with EXACT, ABSENCE or no suffix".to_owned()
                    });
                    self.reader.problem(location, format!("unknown attribute `{attribute}`"), Some(hint));
                }
                ReferencePattern { name, condition }
            })
            .collect()
    }

    fn quotas(&mut self, node: &Node) -> Vec<(Option<Location>, Expectation)> {
        let mut all = Vec::new();
        for entry in node.entries() {
            let name = entry.key.to_string();
            let value = &entry.value;
            if !matches!(value.kind, NodeKind::Mapping(_)) {
                let granted = self.reader.number(value, "a granted amount");
                all.extend(granted.map(|n| (Some(value.span.start), Expectation::QuotaGranted(name, n))));
                continue;
            }
            if !self.lists_something(&name, value) {
                continue;
            }
            self.reader.fields(value, "a quota", &["granted", "validDuration"]);
            if let Some(node) = value.get("granted") {
                let granted = self.reader.number(node, "`granted`");
                all.extend(
                    granted.map(|n| (Some(node.span.start), Expectation::QuotaGranted(name.clone(), n))),
                );
            }
            if let Some(node) = value.get("validDuration") {
                let valid = self.reader.duration(node, "`validDuration`");
                all.extend(valid.map(|d| (Some(node.span.start), Expectation::QuotaValid(name.clone(), d))));
            }
        }
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            let hint = Some("write `quotas: {request-count: 1}`".to_owned());
            self.reader.problem(
                node.span.start,
                format!("`quotas` must be a mapping, not {}", node_type(node)),
                hint,
            );
        }
        all
    }

    fn headers(&mut self, node: &Node) -> Vec<HeaderText> {
        let mut all = Vec::new();
        for item in self.reader.items(node) {
            self.reader.fields(item, "a header", &["name", "value", "operation"]);
            let text = |parser: &mut Self, key: &str| {
                item.get(key).and_then(|n| parser.reader.text(n, &format!("`{key}`")))
            };
            let Some(name) = text(self, "name") else {
                self.reader.problem(item.span.start, "a header without a name", None);
                continue;
            };
            let operation = text(self, "operation").unwrap_or_else(|| "REPLACE".to_owned());
            if !["REPLACE", "REMOVE", "APPEND"].contains(&operation.as_str()) {
                let hint = Some("one of REPLACE, REMOVE, APPEND".to_owned());
                self.reader.problem(
                    item.span.start,
                    format!("`{operation}` is not a header operation"),
                    hint,
                );
            }
            all.push(HeaderText { name, value: text(self, "value").unwrap_or_default(), operation });
        }
        all
    }

    fn direct_response(&mut self, node: &Node) -> Vec<(Option<Location>, Expectation)> {
        self.reader.fields(node, "`directResponse`", &["code", "body", "bodyMatches"]);
        let mut all = Vec::new();
        if let Some(code) = node.get("code").and_then(|n| self.reader.number(n, "`code`")) {
            all.push((None, Expectation::DirectResponseCode(code)));
        }
        if let Some(body) = node.get("body").and_then(|n| self.exact(n, "`body`")) {
            all.push((None, Expectation::DirectResponseBody(body)));
        }
        if let Some(body) = node.get("bodyMatches").and_then(|n| self.pattern(n)) {
            all.push((None, Expectation::DirectResponseBody(body)));
        }
        all
    }

    fn instances(&mut self, node: &Node) -> Vec<InstancePattern> {
        let mut all = Vec::new();
        for item in self.reader.items(node) {
            if let NodeKind::String(name) = &item.kind {
                let pattern =
                    InstancePattern { instance: name.to_string(), handler: None, values: Vec::new() };
                self.known_instance(&pattern.instance, item.span.start);
                all.push(pattern);
                continue;
            }
            self.reader.fields(item, "an instance", &["instance", "handler", "values"]);
            let Some(instance) = item.get("instance").and_then(|n| self.reader.text(n, "`instance`")) else {
                self.reader.problem(
                    item.span.start,
                    "an instance without a name",
                    Some("write `instance: NAME`".to_owned()),
                );
                continue;
            };
            self.known_instance(&instance, item.get("instance").map_or(item.span.start, |n| n.span.start));
            let handler = item.get("handler").and_then(|n| self.reader.text(n, "`handler`"));
            let mut values = Vec::new();
            if let Some(node) = item.get("values")
                && self.lists_something("values", node)
                && !matches!(node.kind, NodeKind::Mapping(_))
            {
                let hint = Some("write `values: {FIELD: VALUE}`".to_owned());
                let message = format!("`values` must be a mapping, not {}", node_type(node));
                self.reader.problem(node.span.start, message, hint);
            }
            for entry in item.get("values").map_or(&[][..], Node::entries) {
                let value = match &entry.value.kind {
                    NodeKind::Bool(value) => Some(value.to_string()),
                    _ => self.reader.text(&entry.value, "a value"),
                };
                values.extend(value.map(|value| (entry.key.to_string(), value)));
            }
            all.push(InstancePattern { instance, handler, values });
        }
        all
    }

    fn known_instance(&mut self, name: &str, location: Location) {
        let short = |full: &str| full.split('.').next().unwrap_or(full).to_owned();
        let known: Vec<&str> = self.snapshot.instances.iter().map(|i| &**i.name()).collect();
        if !known.iter().any(|full| *full == name || short(full) == name) {
            let shorts: Vec<String> = known.iter().map(|full| short(full)).collect();
            let hint = suggestion(name, shorts.iter().map(String::as_str).chain(known.iter().copied()));
            self.reader.problem(location, format!("the configuration has no instance `{name}`"), hint);
        }
    }
}
