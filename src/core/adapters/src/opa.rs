//! Evaluates a Rego policy, as Open Policy Agent does, with the engine regorus.
//!
//! The policy is compiled when the handler is built. A call is evaluated on its own thread within a short budget; an evaluation that
//! takes longer begins again on another thread, within [`Params::evaluation_timeout`]. Whatever goes wrong allows nothing, except
//! where Istio Mixer does and [`AdapterOptions`](crate::AdapterOptions) asks for it. See docs/adapters.md.

#[cfg(any(test, not(feature = "adapter-opa")))]
mod absent;
#[cfg(feature = "adapter-opa")]
mod rego;

#[cfg(not(feature = "adapter-opa"))]
use absent as rego;

use std::path::Path;

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT,
};

use crate::authorization::warn_incomplete;

mixer_config::message! {
    /// Parameters of the opa adapter.
    pub struct Params: "adapter.opa.config.Params" {
        /// Rego modules.
        1 policy: Vec<String> = Vec::new();
        /// The query that decides, normally `data.PACKAGE.RULE`.
        2 check_method: String = String::new();
        /// Deny what the policy does not decide.
        3 fail_close: bool = false;
        /// JSON or YAML files with data for the policy, as absolute paths or `file:///path`; reloaded when they change. Not in Istio Mixer.
        1000 data_files: Vec<String> = Vec::new();
        /// How long the evaluation of one call may take. Not in Istio Mixer.
        1001 evaluation_timeout: SignedDuration = SignedDuration::from_secs(1);
        /// Data files may lack what the policy reads, and it may be null or become another kind of value. Otherwise such data counts as
        /// unreadable: the last data stays. Not in Istio Mixer.
        1002 allow_missing_data: bool = false;
        /// Longest input, all its texts together; beyond it a call is refused. Not in Istio Mixer.
        1003 max_input_kilobytes: i64 = 64;
        /// Most memory that the evaluation of one call may hold; beyond it the call is not decided. Not in Istio Mixer.
        1004 max_evaluation_kilobytes: i64 = 16 << 10;
    }
}

/// Longest evaluation timeout.
const MAX_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

/// Largest bound of the input, in KiB.
const MAX_INPUT_KILOBYTES: i64 = 1024;

/// Smallest and largest bound of the memory of an evaluation, in KiB.
const EVALUATION_KILOBYTES: std::ops::RangeInclusive<i64> = 256..=256 << 10;

/// A part of the parameters that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    subject: Subject,
    /// One line.
    text: String,
    hint: Option<String>,
    weight: Weight,
}

/// What follows from a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The handler is not built.
    Error,
    /// The handler is not built, except as Istio Mixer does.
    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only the engine knows names"))]
    AcceptedByIstio,
    /// A warning with this code.
    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only the engine knows names"))]
    Warning(&'static str),
}

/// A policy that compiles.
#[derive(Debug)]
struct Checked {
    /// Whether it decides about every request.
    decides: bool,
    /// Problems of the names that it reads.
    names: Vec<Problem>,
}

/// What a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The query.
    CheckMethod,
    /// A module.
    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only the engine reads modules"))]
    Module(usize),
    /// All modules together.
    Policy,
}

impl Problem {
    fn new(subject: Subject, text: impl Into<String>) -> Self {
        Self { subject, text: text.into(), hint: None, weight: Weight::Error }
    }

    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only the engine knows what to do"))]
    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// `<field>: <text>`, as Istio Mixer spells fields.
    fn message(&self) -> String {
        let field = if self.subject == Subject::CheckMethod { "CheckMethod" } else { "Policy" };
        format!("{field}: {}", self.text)
    }

    fn field(&self) -> FieldPath {
        match self.subject {
            Subject::CheckMethod => FieldPath::root().field("checkMethod"),
            Subject::Module(index) => FieldPath::root().field("policy").index(index),
            Subject::Policy => FieldPath::root().field("policy"),
        }
    }

    fn diagnostic(&self, params: &Params) -> Diagnostic {
        let mut diagnostic = match self.weight {
            // A build reports itself what Istio Mixer builds all the same.
            Weight::Error if self.is_lenient(params) => {
                Diagnostic::error(NOT_BUILT, self.field(), self.message())
            }
            Weight::Error => Diagnostic::error("adapter-config", self.field(), self.message()),
            Weight::AcceptedByIstio => {
                let text = format!("the handler will not be built: {}", self.message());
                Diagnostic::error(NOT_BUILT, self.field(), text).accepted_by_istio()
            }
            Weight::Warning(code) => Diagnostic::warning(code, self.field(), self.message()),
        };
        diagnostic.hint.clone_from(&self.hint);
        diagnostic
    }

    /// The diagnostic of a problem with which Istio Mixer builds a handler.
    fn not_built(&self) -> Diagnostic {
        let text = format!("the handler will not be built: {}", self.message());
        Diagnostic::error(NOT_BUILT, self.field(), text).accepted_by_istio()
    }

    /// Whether Istio Mixer builds a handler with this problem.
    fn is_lenient(&self, params: &Params) -> bool {
        params.fail_close || (self.subject == Subject::CheckMethod && !params.check_method.is_empty())
    }
}

/// The adapter; its handlers are those of the engine.
pub(crate) struct Opa;

impl Adapter for Opa {
    const INFO: AdapterInfo = AdapterInfo {
        name: "opa",
        about: "Istio Authorization with Open Policy Agent engine",
        templates: &["authorization"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        let mut refuse = |field: FieldPath, text: String| {
            problems.push(Diagnostic::error("adapter-config", field, text));
        };
        for (index, file) in params.data_files.iter().enumerate() {
            if !file_path(file).is_absolute() {
                let field = FieldPath::root().field("dataFiles").index(index);
                refuse(field, format!("dataFiles: an absolute path or file:///path is needed, it is {file}"));
            }
        }
        if params.evaluation_timeout <= SignedDuration::ZERO || params.evaluation_timeout > MAX_TIMEOUT {
            let text = format!(
                "evaluationTimeout: must be above 0 and at most {MAX_TIMEOUT}, it is {}",
                params.evaluation_timeout
            );
            refuse(FieldPath::root().field("evaluationTimeout"), text);
        }
        if !(1..=MAX_INPUT_KILOBYTES).contains(&params.max_input_kilobytes) {
            let text = format!(
                "maxInputKilobytes: must be from 1 to {MAX_INPUT_KILOBYTES}, it is {}",
                params.max_input_kilobytes
            );
            refuse(FieldPath::root().field("maxInputKilobytes"), text);
        }
        if !EVALUATION_KILOBYTES.contains(&params.max_evaluation_kilobytes) {
            let text = format!(
                "maxEvaluationKilobytes: must be from {} to {}, it is {}",
                EVALUATION_KILOBYTES.start(),
                EVALUATION_KILOBYTES.end(),
                params.max_evaluation_kilobytes
            );
            refuse(FieldPath::root().field("maxEvaluationKilobytes"), text);
        }
        match rego::check(params, instances) {
            Ok(checked) => {
                if !checked.decides && !params.fail_close {
                    problems.push(undecided(params));
                }
                problems.extend(checked.names.iter().map(|problem| problem.diagnostic(params)));
            }
            Err(found) => problems.extend(found.iter().map(|problem| problem.diagnostic(params))),
        }
        problems.extend(refusing_query(params));
        problems.extend(rego::wrong_calls(params).iter().map(|problem| match problem.weight {
            Weight::Warning(_) => problem.diagnostic(params),
            Weight::Error | Weight::AcceptedByIstio => problem.not_built(),
        }));
        warn_incomplete(instances, problems);
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        rego::build(params, &instances, &env).await
    }
}

/// The warning about a policy that may leave requests undecided.
fn undecided(params: &Params) -> Diagnostic {
    let query = params.check_method.trim();
    let text = format!("the policy may leave requests undecided: {query} is no rule with a default");
    let hint = "give the rule a default, or set failClose: true; as it is, the check of such a request fails, \
                and Istio Mixer allows it";
    Diagnostic::warning("opa-undecided", FieldPath::root().field("checkMethod"), text).with_hint(hint)
}

/// Names of rules that say whom a policy refuses.
const REFUSALS: [&str; 12] = [
    "block",
    "blocked",
    "denied",
    "deny",
    "disallow",
    "forbid",
    "forbidden",
    "refuse",
    "refused",
    "reject",
    "violation",
    "violations",
];

/// The warning about a query that is true for those that are to be refused: the result of the query allows.
fn refusing_query(params: &Params) -> Option<Diagnostic> {
    let query = params.check_method.trim();
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut parts = query.split('.');
    let is_path = parts.next() == Some("data") && parts.clone().all(is_name);
    let name = parts.next_back()?.to_ascii_lowercase();
    if !is_path || !REFUSALS.contains(&&*name) {
        return None;
    }
    let text =
        format!("CheckMethod: a request is allowed if {query} is true, and its name says the opposite");
    let hint = "name a rule that is true for what is allowed, such as `allow { not deny }`";
    Some(Diagnostic::warning("opa-query", FieldPath::root().field("checkMethod"), text).with_hint(hint))
}

/// The path in a parameter: either a path or `file://` and a path.
fn file_path(written: &str) -> &Path {
    Path::new(written.strip_prefix("file://").unwrap_or(written))
}

#[cfg(test)]
mod tests;
