//! From parameters and data to an engine that is ready to evaluate.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use regorus::unstable::Module;
use regorus::{Engine, Value};

use super::super::{Params, Problem, Subject, Weight};
use super::analysis::Analysis;
use super::evaluate::{bound_memory, timer};
use super::names::{self, Needed};
use super::plan::Plan;
use super::reads::{Effect, Read};
use super::text::one_line;
use super::{bounded, dialect};
use mixer_base::allocation::{Bounds, metered};
use mixer_config::message::suggestion;
use mixer_engine::adapter::BoundInstance;

/// The package of the rule that collects the rows of a query.
const ROWS_PACKAGE: &str = "mixer_check_method";
/// The source name of that rule.
const ROWS_SOURCE: &str = "checkMethod";
/// Its path.
const ROWS: &str = "data.mixer_check_method.rows";
/// How long the evaluation that looks for late errors may take.
const TRIAL: Duration = Duration::from_millis(50);
/// Most memory of that evaluation, in bytes.
const TRIAL_MEMORY: usize = 16 << 20;

/// What decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// The value of a rule.
    Rule(String),
    /// The rows of a query, which the rule [`ROWS`] collects.
    Rows,
}

impl Entry {
    /// The rule to evaluate.
    pub(super) fn rule(&self) -> &str {
        match self {
            Entry::Rule(path) => path,
            Entry::Rows => ROWS,
        }
    }
}

/// A policy without data.
pub(super) struct Policy {
    engine: Engine,
    pub(super) entry: Entry,
    /// What decides most calls without the engine.
    pub(super) plan: Option<Arc<Plan>>,
    analysis: Analysis,
    reads: Vec<Read>,
    /// What only data files can define.
    pub(super) needed: Vec<Needed>,
    has_data: bool,
}

impl Policy {
    /// Compiles a policy.
    ///
    /// Errors: every problem.
    pub(super) fn compile(params: &Params) -> Result<Self, Vec<Problem>> {
        let compile = AssertUnwindSafe(|| Self::new(params));
        std::panic::catch_unwind(compile).unwrap_or_else(|_| {
            Err(vec![Problem::new(Subject::Policy, "the compiler of the engine panicked")])
        })
    }

    fn new(params: &Params) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let query = params.check_method.trim();
        if query.is_empty() {
            problems.push(Problem::new(Subject::CheckMethod, "check method is not configured"));
        }
        bound_memory();
        let mut engine = Engine::new();
        for (index, text) in params.policy.iter().enumerate() {
            if let Err(error) = dialect::add(&mut engine, &format!("opa_policy.{index}"), text) {
                problems.push(Problem::new(Subject::Module(index), error));
            }
        }
        if problems.iter().any(|problem| matches!(problem.subject, Subject::Module(_))) {
            return Err(problems);
        }
        if params.policy.is_empty() {
            problems.push(Problem::new(Subject::Policy, "policies are not configured"));
            return Err(problems);
        }
        let analysis = Analysis::of(modules(&mut engine));
        problems.extend(analyzed(&analysis, params));
        let entry = match query.is_empty() {
            true => Entry::Rows,
            false => match entry(&mut engine, &analysis, query, !params.data_files.is_empty()) {
                Ok(entry) => entry,
                Err(problem) => {
                    problems.push(problem);
                    return Err(problems);
                }
            },
        };
        let mut analysis = match entry {
            Entry::Rule(_) => analysis,
            // The query may call functions, too.
            Entry::Rows => Analysis::of(modules(&mut engine)),
        };
        if problems.is_empty() {
            problems.extend(analyzed(&analysis, params));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        bounded::replace(&mut engine)
            .map_err(|error| vec![Problem::new(Subject::Policy, one_line(&error))])?;
        engine.set_gather_prints(true);
        let effect = match entry {
            Entry::Rule(_) => Effect { allows: true, refuses: false },
            Entry::Rows => Effect::ANY,
        };
        let reads = analysis.reads(entry.rule(), effect);
        let needed = names::needed(&reads, &analysis);
        let has_data = !params.data_files.is_empty();
        let plan = match &entry {
            // Data may be at the names of rules.
            Entry::Rule(path) if !has_data => Plan::of(modules(&mut engine), path).map(Arc::new),
            _ => None,
        };
        let policy = Self { engine, entry, plan, analysis, reads, needed, has_data };
        policy.with_data(&[]).map_err(|problem| vec![problem])?;
        Ok(policy)
    }

    /// Whether the rule that decides has a default, so that it decides about every request.
    pub(super) fn has_default(&self) -> bool {
        matches!(&self.entry, Entry::Rule(path) if self.analysis.has_default(path))
    }

    /// The problems of the names that it reads, if calls bring what `instances` configure.
    pub(super) fn name_problems(&self, instances: &[BoundInstance]) -> Vec<Problem> {
        names::problems(&self.reads, &self.analysis, instances, self.has_data)
    }

    /// The warning about a query that names a package, whose value is all that its rules have, and never a Boolean.
    pub(super) fn package_problem(&self, query: &str) -> Option<Problem> {
        if self.analysis.is_rule(query) || !is_path(query) {
            return None;
        }
        let prefix = format!("{query}.");
        let mut inside = self.analysis.rules().filter(|rule| rule.starts_with(&prefix)).peekable();
        let first = inside.peek()?.to_string();
        let allow = format!("{prefix}allow");
        let meant = if inside.any(|rule| *rule == *allow) { allow } else { first };
        let text =
            format!("{query} is a package, which is neither true nor false: it decides about no request");
        let problem = Problem::new(Subject::CheckMethod, text).with_hint(format!("name a rule: `{meant}`"));
        Some(Problem { weight: Weight::Warning("opa-name"), ..problem })
    }

    /// An engine with the policy and data, prepared. Errors: the data does not fit, or a rule has an error.
    pub(super) fn with_data(&self, documents: &[Value]) -> Result<Engine, Problem> {
        let mut engine = self.engine.clone();
        for document in documents {
            if let Some(rule) = self.analysis.rules().find(|rule| defines(document, rule)) {
                let text = format!("the data has a value where the policy has the rule {rule}");
                return Err(Problem::new(Subject::Policy, text));
            }
            engine
                .add_data(document.clone())
                .map_err(|error| Problem::new(Subject::Policy, one_line(&error)))?;
        }
        let problem = |error: &dyn std::fmt::Display| {
            let text = one_line(error);
            let subject = if text.starts_with(ROWS_SOURCE) { Subject::CheckMethod } else { Subject::Policy };
            Problem::new(subject, text)
        };
        engine.compile_with_entrypoint(&self.entry.rule().into()).map_err(|error| problem(&error))?;
        // The engine finds some errors only when it evaluates. An evaluation that ends early leaves traces in its engine.
        let mut trial = engine.clone();
        trial.set_input(Value::new_object());
        trial.set_execution_timer_config(timer(TRIAL));
        let trial = || bounded::evaluating(TRIAL, || trial.eval_modules(false)).0;
        if let (Err(error), _) = metered(Bounds::of(TRIAL_MEMORY), trial) {
            let text = error.to_string();
            if ["recursion detected", "unsafe", "undefined variable", "could not find function"]
                .iter()
                .any(|late| text.contains(late))
            {
                return Err(problem(&error));
            }
        }
        Ok(engine)
    }
}

fn modules(engine: &mut Engine) -> impl Iterator<Item = &Module> + Clone {
    engine.get_modules().iter().map(|module| &**module)
}

/// The problems of an analysis; the module behind those of the parameters is the query.
fn analyzed(analysis: &Analysis, params: &Params) -> Vec<Problem> {
    let subject = |problem: &Problem| match problem.subject {
        Subject::Module(index) if index >= params.policy.len() => Subject::CheckMethod,
        subject => subject,
    };
    let problems = analysis.problems().iter();
    problems.map(|problem| Problem { subject: subject(problem), ..problem.clone() }).collect()
}

/// What decides, by the text of a query. Adds a rule to the engine where the query is not the name of one.
fn entry(engine: &mut Engine, analysis: &Analysis, query: &str, has_data: bool) -> Result<Entry, Problem> {
    if analysis.is_rule(query) {
        return Ok(Entry::Rule(query.to_owned()));
    }
    if is_path(query) && !has_data && !analysis.touches(query) {
        let problem = Problem::new(Subject::CheckMethod, format!("the policy has no rule {query}"));
        let hint = suggestion(query, analysis.rules());
        let hint = hint.unwrap_or_else(|| "write data.PACKAGE.RULE".to_owned());
        return Err(problem.with_hint(hint));
    }
    if is_relative(query) {
        let text = format!("{query} names nothing: the name of a rule begins with `data.` and its package");
        let whole = format!("data.{query}");
        let ending = |end: &str| {
            let end = format!(".{end}");
            analysis.rules().find(|rule| rule.ends_with(&end))
        };
        let last = query.rsplit('.').next().unwrap_or(query);
        let hint = match ending(query).or_else(|| ending(last)) {
            Some(rule) => format!("write `{rule}`"),
            None => {
                suggestion(&whole, analysis.rules()).unwrap_or_else(|| "write data.PACKAGE.RULE".to_owned())
            }
        };
        return Err(Problem::new(Subject::CheckMethod, text).with_hint(hint));
    }
    // The rows of a query are the values that its first expression has. A comment must not hide the bracket.
    let text = format!("package {ROWS_PACKAGE}\nrows := [value | value := {query}\n]\n");
    dialect::add(engine, ROWS_SOURCE, &text)
        .map_err(|error| Problem::new(Subject::CheckMethod, error))
        .map(|()| Entry::Rows)
}

/// Whether a query is a name, `data.a.b`.
fn is_path(query: &str) -> bool {
    query.starts_with("data.") && is_name(query)
}

/// Whether a query is a name of neither data nor the input, `a.b`.
fn is_relative(query: &str) -> bool {
    let first = query.split('.').next().unwrap_or_default();
    let is_value =
        first.starts_with(|c: char| c.is_ascii_digit()) || ["true", "false", "null"].contains(&first);
    is_name(query) && !is_value && !["data", "input"].contains(&first)
}

fn is_name(query: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    query.split('.').all(is_word)
}

/// Whether a document has a value at the path of a rule, or something else than an object above it.
fn defines(document: &Value, rule: &str) -> bool {
    let mut at = document;
    for part in rule.split('.').skip(1) {
        match at {
            Value::Object(object) => match object.get(&Value::from(part)) {
                Some(value) => at = value,
                None => return false,
            },
            _ => return true,
        }
    }
    true
}
