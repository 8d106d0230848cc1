//! Parses test files into a [`Suite`].

mod expectation;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use self::expectation::parse_expectations;
use super::read::{NodeReader, SuiteProblem, json, node_type};
use super::suite::{StepAction, Stub, Stubs, Suite, TestCase, TestStep};
use mixer_attribute::{OwnedAttributes, Timestamp};
use mixer_config::message::{is_within, suggestion};
use mixer_config::{Location, Node, NodeKind, yaml};
use mixer_engine::decision::owned_value;
use mixer_engine::snapshot::Snapshot;
use mixer_expr::Scope as _;

/// The `kind` of a test file.
const KIND: &str = "PolicyTest";
/// So many wrong letters make another kind a misspelt one, in capitals or not.
const MOST_EDITS: usize = 3;
/// Default start of the clocks: 2026-01-01T00:00:00Z.
const START: Duration = Duration::from_secs(1_767_225_600);

const SUITE: &[&str] = &["apiVersion", "kind", "metadata", "config", "time", "defaults", "stubs", "tests"];
const CASE: &[&str] = &["name", "check", "report", "expect", "steps", "stubs"];
const STEP: &[&str] = &["check", "report", "expect", "advance"];
const CHECK: &[&str] = &["attributes", "quotas", "deduplicationId", "defaults"];
const REPORT: &[&str] = &["attributes", "records", "defaults"];
const STUB: &[&str] = &["handler", "status", "message", "validDuration", "validUseCount", "granted", "error"];

/// A test file before its configuration is loaded.
#[derive(Debug)]
pub struct SuiteDocument {
    file: Arc<str>,
    root: Node,
}

impl SuiteDocument {
    /// Parses the YAML of a file; `None` if it is not a test file.
    ///
    /// Errors: invalid YAML, duplicate keys, several documents.
    pub fn read(file: &Arc<str>, text: &str) -> Result<Option<Self>, SuiteProblem> {
        let problem = |location, message: String, hint: Option<&str>| SuiteProblem {
            file: Arc::clone(file),
            location,
            message,
            hint: hint.map(str::to_owned),
        };
        let parsed = match yaml::parse(text) {
            Ok(parsed) => parsed,
            // Possibly configuration beside the tests; `mixer validate` reports its errors.
            Err(_) if !text.contains(KIND) => return Ok(None),
            Err(error) => {
                let location = error.location.unwrap_or(Location { line: 1, column: 1 });
                return Err(problem(location, error.cause().to_owned(), error.hint));
            }
        };
        let kind = parsed.root.get("kind").and_then(Node::as_str);
        if kind != Some(KIND) {
            let near = kind.filter(|kind| is_within(kind, KIND, MOST_EDITS));
            // Without a kind, its tests tell what it was meant to be.
            let has_tests = kind.is_none() && parsed.root.get("tests").is_some();
            let at = parsed.root.get("kind").map_or(parsed.root.span.start, |node| node.span.start);
            return match near {
                Some(near) => {
                    Err(problem(at, format!("unknown kind `{near}`"), Some("did you mean `PolicyTest`?")))
                }
                None if has_tests => {
                    Err(problem(at, "tests without `kind`".to_owned(), Some("write `kind: PolicyTest`")))
                }
                None => Ok(None),
            };
        }
        for note in &parsed.notes {
            match note {
                yaml::Note::SeveralDocuments { at } => {
                    let hint = "move the second document to another file";
                    return Err(problem(*at, "a test file must have one document".to_owned(), Some(hint)));
                }
                yaml::Note::DuplicateKey { key, span, .. } => {
                    return Err(problem(span.start, format!("duplicate key `{key}`"), Some("remove one")));
                }
                _ => {}
            }
        }
        Ok(Some(Self { file: Arc::clone(file), root: parsed.root }))
    }

    /// The URLs and paths in `config`; paths are relative to the file. Empty without `config`.
    pub fn config(&self) -> Vec<String> {
        let mut reader = NodeReader::new(&self.file);
        let Some(node) = self.root.get("config") else { return Vec::new() };
        let directory = Path::new(&*self.file).parent().unwrap_or(Path::new(""));
        let texts = reader.texts(node, "config");
        texts
            .into_iter()
            .map(|(text, _)| match text.contains("://") {
                true => text,
                false => directory.join(text).display().to_string(),
            })
            .collect()
    }

    /// The position of `config`, or of the document without it.
    pub fn config_location(&self) -> Location {
        self.root.get("config").map_or(self.root.span.start, |node| node.span.start)
    }

    /// The path as given.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Parses the tests against their configuration. Errors: every problem, by position.
    pub fn parse(&self, snapshot: &Snapshot) -> Result<Suite, Vec<SuiteProblem>> {
        let mut parser =
            SuiteParser { reader: NodeReader::new(&self.file), snapshot, defaults: OwnedAttributes::new() };
        let suite = parser.suite(&self.root);
        let mut problems = parser.reader.problems;
        problems.sort_by_key(|problem| problem.location);
        if problems.is_empty() { Ok(suite) } else { Err(problems) }
    }
}

struct SuiteParser<'s> {
    reader: NodeReader,
    snapshot: &'s Snapshot,
    defaults: OwnedAttributes,
}

impl SuiteParser<'_> {
    fn suite(&mut self, root: &Node) -> Suite {
        let mut suite = Suite {
            file: Arc::clone(&self.reader.file),
            start: START,
            stubs: Stubs::default(),
            cases: Vec::new(),
        };
        self.reader.fields(root, "a test file", SUITE);
        if let Some(node) = root.get("defaults") {
            self.reader.fields(node, "`defaults`", &["attributes"]);
            if let Some(node) = node.get("attributes") {
                self.defaults = self.attributes(node);
            }
        }
        if let Some(node) = root.get("time") {
            suite.start = self.instant(node).unwrap_or(START);
        }
        if let Some(node) = root.get("stubs") {
            suite.stubs = self.stubs(node);
        }
        let Some(tests) = root.get("tests") else {
            let hint = "write `tests:` with a list below it, each with `name`, `check` and `expect`";
            self.reader.problem(root.span.start, "no tests", Some(hint.to_owned()));
            return suite;
        };
        let mut names: BTreeMap<String, Location> = BTreeMap::new();
        for node in self.reader.items(tests) {
            let Some(case) = self.case(node) else { continue };
            if let Some(first) = names.insert(case.name.clone(), case.location) {
                let message =
                    format!("duplicate test name `{}`; first used on line {}", case.name, first.line);
                self.reader.problem(case.location, message, Some("rename one".to_owned()));
            }
            suite.cases.push(case);
        }
        suite
    }

    fn instant(&mut self, node: &Node) -> Option<Duration> {
        let text = self.reader.text(node, "`time`")?;
        let read = Timestamp::parse_rfc3339(&text).ok().and_then(|t| u64::try_from(t.unix_nanos()).ok());
        if read.is_none() {
            let hint = Some("write 2026-01-01T00:00:00Z, in quotes".to_owned());
            self.reader.problem(node.span.start, format!("`{text}` is not a timestamp"), hint);
        }
        read.map(Duration::from_nanos)
    }

    fn case(&mut self, node: &Node) -> Option<TestCase> {
        self.reader.fields(node, "a test", CASE);
        let location = node.span.start;
        let Some(name) = node.get("name").map(|name| self.reader.text(name, "`name`")) else {
            self.reader.problem(location, "missing `name`", Some("give the test a unique name".to_owned()));
            return None;
        };
        let stubs = node.get("stubs").map_or_else(Stubs::default, |node| self.stubs(node));
        let steps = match node.get("steps") {
            Some(steps) => {
                for key in ["check", "report", "expect"] {
                    if let Some(node) = node.get(key) {
                        let message = format!("`{key}` beside `steps`");
                        self.reader.problem(node.span.start, message, Some("move it into a step".to_owned()));
                    }
                }
                let items = self.reader.items(steps);
                if items.is_empty() {
                    let hint = "write a list with `check`, `report` and `advance`, or remove it".to_owned();
                    let message = "`steps` lists nothing, so that the test would always pass";
                    self.reader.problem(steps.span.start, message, Some(hint));
                }
                let expects_any = items.iter().any(|step| step.get("expect").is_some());
                items
                    .into_iter()
                    .map(|step| (step, step.get("expect").is_some() || !expects_any))
                    .filter_map(|(step, needs_result)| {
                        self.reader.fields(step, "a step", STEP);
                        self.step(step, needs_result && step.get("advance").is_none())
                    })
                    .collect()
            }
            None => self.step(node, node.get("advance").is_none()).into_iter().collect(),
        };
        Some(TestCase { name: name?, location, stubs, steps })
    }

    /// `needs_result`: whether the step must expect something.
    fn step(&mut self, node: &Node, needs_result: bool) -> Option<TestStep> {
        let problems = self.reader.problems.len();
        let actions = ["check", "report", "advance"];
        let location = node.span.start;
        let found: Vec<&str> = actions.into_iter().filter(|key| node.get(key).is_some()).collect();
        let action = match found.as_slice() {
            ["check"] => self.check(node.get("check")?),
            ["report"] => self.report(node.get("report")?),
            ["advance"] => {
                let by = self.reader.duration(node.get("advance")?, "`advance`")?;
                StepAction::Advance(by.to_std_or_zero())
            }
            [] => {
                let hint = "write `check:` with the attributes of a request, `report:`, or `steps:` with a list of them";
                self.reader.problem(location, "missing `check`, `report` or `steps`", Some(hint.to_owned()));
                return None;
            }
            several => {
                let message = format!("{} in one step", several.join(" and "));
                let hint = "write `steps`, with one action each";
                self.reader.problem(location, message, Some(hint.to_owned()));
                return None;
            }
        };
        let expectations = node
            .get("expect")
            .map_or_else(Vec::new, |node| parse_expectations(node, &mut self.reader, self.snapshot));
        // A step without a list of its own sets the stage for the ones after it.
        if expectations.is_empty() && needs_result && self.reader.problems.len() == problems {
            let at = node.get("expect").map_or(location, |node| node.span.start);
            let hint = "write for example `expect: {status: PERMISSION_DENIED}`; `mixer check --explain` shows a result";
            self.reader.problem(
                at,
                "nothing is expected, so that every result would pass",
                Some(hint.to_owned()),
            );
        }
        if let (StepAction::Advance(_), [(at, _), ..]) = (&action, expectations.as_slice()) {
            self.reader.problem(*at, "`advance` has no result to expect", None);
        }
        Some(TestStep { location, action, expectations })
    }

    fn check(&mut self, node: &Node) -> StepAction {
        self.reader.fields(node, "`check`", CHECK);
        let attributes = self.with_defaults(node, node.get("attributes"));
        let mut quotas = BTreeMap::new();
        if let Some(node) = node.get("quotas") {
            for entry in node.entries() {
                if let Some(requested) = self.quota(&entry.value) {
                    quotas.insert(entry.key.to_string(), requested);
                }
            }
            if !matches!(node.kind, NodeKind::Mapping(_)) {
                let hint = "write `quotas: {request-count: 1}`";
                let message = format!("`quotas` must be a mapping, not {}", node_type(node));
                self.reader.problem(node.span.start, message, Some(hint.to_owned()));
            }
        }
        let deduplication_id =
            node.get("deduplicationId").and_then(|id| self.reader.text(id, "`deduplicationId`"));
        StepAction::Check { attributes, quotas, deduplication_id }
    }

    fn quota(&mut self, node: &Node) -> Option<(i64, bool)> {
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            return Some((self.reader.number(node, "an amount")?, true));
        }
        self.reader.fields(node, "a quota", &["amount", "bestEffort"]);
        let amount = self.reader.number(node.get("amount")?, "`amount`")?;
        let best_effort =
            node.get("bestEffort").map_or(Some(true), |b| self.reader.boolean(b, "`bestEffort`"));
        Some((amount, best_effort?))
    }

    fn report(&mut self, node: &Node) -> StepAction {
        self.reader.fields(node, "`report`", REPORT);
        let mut records = Vec::new();
        if let Some(list) = node.get("records") {
            for item in self.reader.items(list) {
                records.push(self.with_defaults(node, Some(item)));
            }
        }
        if let Some(attributes) = node.get("attributes") {
            records.push(self.with_defaults(node, Some(attributes)));
        }
        if records.is_empty() {
            let hint = "write `attributes`, or `records` with a list of them";
            self.reader.problem(node.span.start, "a report without records", Some(hint.to_owned()));
        }
        StepAction::Report { records }
    }

    /// The default attributes, unless `defaults: false`, overridden by those of the request.
    fn with_defaults(&mut self, node: &Node, attributes: Option<&Node>) -> OwnedAttributes {
        let uses_defaults =
            node.get("defaults").is_none_or(|n| self.reader.boolean(n, "`defaults`").unwrap_or(true));
        let mut all = if uses_defaults { self.defaults.clone() } else { OwnedAttributes::new() };
        if let Some(attributes) = attributes {
            for (name, value) in self.attributes(attributes).iter() {
                all.insert(name, value.clone());
            }
        }
        all
    }

    fn attributes(&mut self, node: &Node) -> OwnedAttributes {
        let vocabulary = &self.snapshot.vocabulary;
        let mut attributes = OwnedAttributes::new();
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            let hint = Some("write `attributes:` with `name: value` below it".to_owned());
            let message = format!("attributes must be a mapping, not {}", node_type(node));
            self.reader.problem(node.span.start, message, hint);
        }
        for entry in node.entries() {
            let Some((_, declared)) = vocabulary.attribute(&entry.key) else {
                let hint = suggestion(&entry.key, vocabulary.names())
                    .unwrap_or_else(|| "declare it in an attributemanifest of the configuration".to_owned());
                self.reader.problem(
                    entry.key_span.start,
                    format!("unknown attribute `{}`", entry.key),
                    Some(hint),
                );
                continue;
            };
            // Null removes a default.
            if matches!(entry.value.kind, NodeKind::Null) {
                attributes.remove(&*entry.key);
                continue;
            }
            match owned_value(&json(&entry.value), Some(declared)) {
                Ok(value) => {
                    attributes.insert(entry.key.as_bytes(), value);
                }
                Err(cause) => {
                    let message = format!("attribute `{}`: {cause}", entry.key);
                    self.reader.problem(entry.value.span.start, message, None);
                }
            }
        }
        attributes
    }

    fn stubs(&mut self, node: &Node) -> Stubs {
        let mut stubs = Stubs::default();
        for item in self.reader.items(node) {
            self.reader.fields(item, "a stub", STUB);
            let Some(name) = item.get("handler").and_then(|n| self.reader.text(n, "`handler`")) else {
                let hint = Some("write `handler: NAME.NAMESPACE`".to_owned());
                self.reader.problem(item.span.start, "a stub without a handler", hint);
                continue;
            };
            let known = || self.snapshot.handlers.iter().map(|handler| &*handler.name);
            if !known().any(|handler| handler == name) {
                let hint = suggestion(&name, known());
                let location = item.get("handler").map_or(item.span.start, |n| n.span.start);
                self.reader.problem(location, format!("unknown handler `{name}`"), hint);
                continue;
            }
            let stub = self.stub(item);
            stubs.insert(name, stub);
        }
        stubs
    }

    fn stub(&mut self, node: &Node) -> Stub {
        let code = node.get("status").and_then(|n| self.reader.status(n)).unwrap_or(0);
        let text = |parser: &mut Self, key: &str| {
            node.get(key).and_then(|n| parser.reader.text(n, &format!("`{key}`")))
        };
        let mut stub = Stub::with_status(code, text(self, "message").unwrap_or_default());
        stub.error = text(self, "error");
        if let Some(duration) =
            node.get("validDuration").and_then(|n| self.reader.duration(n, "`validDuration`"))
        {
            stub.check.valid_duration = duration;
            stub.quota_valid = Some(duration);
        }
        if let Some(uses) = node.get("validUseCount").and_then(|n| self.reader.number(n, "`validUseCount`")) {
            stub.check.valid_use_count = i32::try_from(uses).unwrap_or(i32::MAX);
        }
        stub.granted = node.get("granted").and_then(|n| self.reader.number(n, "`granted`"));
        stub
    }
}
