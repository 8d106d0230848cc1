//! One decision: a line of the decision log or of a recording.

use std::collections::BTreeMap;

use bumpalo::Bump;
use prost::Message as _;
use serde::{Deserialize, Serialize};

use super::call::{AnsweredCall, CALLER_PRINCIPAL, CallAnswer, CallerText, Method};
use super::cut::{Cutter, MAX_CHECK, MAX_REPORT, cut_text, cut_without};
use super::mask::{MASKED, MaskSet};
use super::{Answer, AnswerFailure, AttributeMap, StatusText, attribute_map};
use crate::dispatch::{DispatchTrace, TracedDispatch};
use crate::routing::RuleKind;
use crate::secret_values::{SecretReader, SecretValues};
use mixer_attribute::request::{CheckRequest, ReportRequest};
use mixer_attribute::{
    AttributeBag, NamedValue, OwnedAttributes, ReportRecords, Timestamp, Value, Vocabulary,
};
use mixer_base::secrets::SecretNames;
use mixer_wire::istio::mixer::v1::CheckResponse;

/// Most bytes of texts of a decision in which secrets are looked for.
const MAX_TEXTS: usize = 256 << 10;

/// Most quotas of a check that are noted.
const MAX_QUOTAS: usize = 1024;

/// A requested quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRequestText {
    /// The amount.
    pub amount: i64,
    /// Whether a partial grant is accepted.
    #[serde(default)]
    pub best_effort: bool,
}

/// The answer of one handler.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchText {
    /// Full name of the rule.
    pub rule: String,
    /// `check`, `quota` or `attribute-generator`.
    pub variety: String,
    /// Name of the handler.
    pub handler: String,
    /// Its adapter.
    pub adapter: String,
    /// Full name of the instance.
    pub instance: String,
    /// The decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusText>,
    /// The grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<i64>,
    /// Why the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The outcome of a rule in dry run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRunText {
    /// Full name of the rule.
    pub rule: String,
    /// `check`, `quota`, `headers`, …
    pub variety: String,
    /// `allowed`, `denied`, `granted`, `refused`, `matched` or `failed`; `waiting` when the handler had not answered yet.
    pub outcome: String,
    /// The message of the handler.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A reported instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceText {
    /// Full name of the rule.
    pub rule: String,
    /// Name of the handler.
    pub handler: String,
    /// Full name of the instance.
    pub instance: String,
    /// Index of its record in the report.
    #[serde(default)]
    pub record: usize,
    /// Values by field; empty if the trace has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Why it could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When the call arrived, RFC 3339.
    pub time: String,
    /// The method.
    pub method: Method,
    /// Number of the snapshot that decided.
    #[serde(default)]
    pub snapshot: u64,
    /// The client; `None` for calls made in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerText>,
    /// The attributes of a check.
    #[serde(default, skip_serializing_if = "AttributeMap::is_empty")]
    pub attributes: AttributeMap,
    /// The attributes of every record of a report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<AttributeMap>,
    /// Requested quotas, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<String, QuotaRequestText>,
    /// Equal ids are one allocation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deduplication_id: String,
    /// Attributes and keys that are masked here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Attributes and keys whose values are cut here, or left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
    /// Records of a report that are left out because those before them are long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub records_left_out: usize,
    /// The answer to a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AnswerFailure>,
    /// Full names of the rules that applied, in order; of a refusal from the check cache, of the one that refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// What handlers said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<DispatchText>,
    /// Instances of a report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<InstanceText>,
    /// Outcomes of rules in dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<DryRunText>,
    /// The answer came from the check cache: no rule was evaluated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Duration in microseconds.
    #[serde(default)]
    pub took_micros: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Whether an attribute, or an entry of it, is masked.
type Judging<'m> = Box<dyn FnMut(&str, Option<&str>) -> bool + 'm>;

/// Masks the attributes of a call.
struct Masking<'m> {
    masks: &'m MaskSet,
    /// What is secret under the configuration that decided.
    secret: &'m SecretNames,
    /// Names of masked attributes and keys.
    names: Vec<String>,
    /// Collects what texts are to be free of; `None` if there are none.
    secrets: Option<SecretReader<Judging<'m>>>,
}

impl<'m> Masking<'m> {
    fn new(masks: &'m MaskSet, secret: &'m SecretNames) -> Self {
        Self { masks, secret, names: Vec::new(), secrets: None }
    }

    /// Collects secret values as well.
    fn with_secrets(mut self, method: Method) -> Self {
        let judge: Judging<'m> = Box::new(self.masks.judge(self.secret));
        self.secrets = Some(match method {
            Method::Report => SecretReader::of_records(SecretValues::default(), judge),
            Method::Check | Method::Limit => SecretReader::new(SecretValues::default(), judge),
        });
        self
    }

    /// Notes what is secret in a bag: as it was received, because JSON has no bytes that are no UTF-8.
    fn read(&mut self, bag: &AttributeBag<'_>) {
        if let Some(secrets) = &mut self.secrets {
            secrets.read_bag(bag);
        }
    }

    /// Notes that a request cannot be read: its answer, if there is one, may repeat what is secret in it.
    fn miss(&mut self, is_answered: bool) {
        if is_answered && let Some(secrets) = &mut self.secrets {
            secrets.miss();
        }
    }

    fn apply(&mut self, attributes: &mut AttributeMap) -> bool {
        let names = self.masks.apply(self.secret, attributes);
        let any = !names.is_empty();
        self.names.extend(names);
        any
    }
}

impl Decision {
    /// Decodes, masks and cuts a call. Parts that cannot be decoded are left out.
    pub(crate) fn of(call: &AnsweredCall, masks: &MaskSet) -> Self {
        let mut decision = Decision {
            time: Timestamp::from_system_time(call.time).rfc3339_micros().to_string(),
            method: call.method,
            took_micros: u64::try_from(call.took.as_micros()).unwrap_or(u64::MAX),
            caller: call.caller.clone(),
            ..Decision::default()
        };
        let secret = call.trace.secrets.as_deref().unwrap_or(const { &SecretNames::new() });
        match &call.answer {
            Err(failure) => decision.error = Some(failure.clone()),
            Ok(CallAnswer(framed)) if call.method != Method::Report => {
                decision.answer = CheckResponse::decode(framed.clone()).ok().map(|answer| (&answer).into());
            }
            Ok(_) => {}
        }
        decision.read_trace(&call.trace);
        decision.cached = call.method == Method::Check && decision.answer.is_some() && !call.trace.decided;
        let mut masking = Masking::new(masks, secret);
        if !masks.is_empty() && decision.texts().any(|text| !text.is_empty()) {
            masking = masking.with_secrets(call.method);
        }
        decision.read_request(&call.body, &mut masking);
        decision.mask(masking, call.trace.made_secrets.as_deref());
        cut_text(&mut decision.deduplication_id);
        let referenced = decision.answer.iter_mut().flat_map(|answer| &mut answer.referenced);
        referenced.filter_map(|reference| reference.key.as_mut()).for_each(cut_text);
        decision
    }

    /// Whether it is a refusal, a partial grant or a failure, or a rule in dry run would have refused.
    pub(crate) fn is_denial(&self) -> bool {
        let refused = self.answer.as_ref().is_some_and(|answer| {
            let is_partial = |(name, asked): (&String, &QuotaRequestText)| {
                answer.quotas.get(name).is_some_and(|quota| quota.granted < asked.amount)
            };
            answer.status.code != 0 || self.quotas.iter().any(is_partial)
        });
        let would_refuse =
            self.dry_run.iter().any(|tried| matches!(tried.outcome.as_str(), "denied" | "refused"));
        refused || self.error.is_some() || would_refuse
    }

    fn read_request(&mut self, body: &[u8], masking: &mut Masking<'_>) {
        let is_answered = self.answer.is_some();
        let mut cutter = Cutter::new(if self.method == Method::Report { MAX_REPORT } else { MAX_CHECK });
        let map_of = |bag: &AttributeBag<'_>, cutter: &mut Cutter, masking: &mut Masking<'_>| {
            let mut map = attribute_map(&OwnedAttributes::from_bag(bag));
            masking.apply(&mut map);
            cutter.apply(&mut map);
            map
        };
        let arena = Bump::new();
        // Without a vocabulary, names are read from the words of the message.
        let vocabulary = Vocabulary::builder().build();
        match self.method {
            Method::Check | Method::Limit => {
                let Ok(request) = CheckRequest::decode(body, &arena) else {
                    return masking.miss(is_answered);
                };
                let bag = AttributeBag::new(&request.attributes, None, &vocabulary, &arena);
                masking.read(&bag);
                self.attributes = map_of(&bag, &mut cutter, masking);
                self.deduplication_id = request.deduplication_id.to_owned();
                // A check with longer names or more quotas was refused.
                let quotas = request.quotas.iter().take(MAX_QUOTAS);
                let asked = quotas.map(|quota| {
                    let mut name = quota.name.to_owned();
                    cut_text(&mut name);
                    (name, QuotaRequestText { amount: quota.amount, best_effort: quota.best_effort })
                });
                self.quotas = asked.collect();
            }
            Method::Report => {
                let Ok(request) = ReportRequest::decode(body, &arena) else {
                    return masking.miss(is_answered);
                };
                let mut records = ReportRecords::new(&request, &vocabulary, &arena);
                while let Some(record) = records.next() {
                    // Texts repeat those of records that are left out, too.
                    if let Ok(bag) = &record {
                        masking.read(bag);
                    }
                    if cutter.is_exhausted() {
                        self.records_left_out += 1;
                        continue;
                    }
                    let map = record.map(|bag| map_of(bag, &mut cutter, masking)).unwrap_or_default();
                    self.records.push(map);
                }
            }
        }
        self.cut = cutter.cut;
    }

    /// The texts that depend on the request, besides attributes.
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let answer = self.answer.iter_mut().flat_map(|answer| {
            let directive = answer.directive.iter_mut();
            let headers = directive.flat_map(|d| d.request_headers.iter_mut().chain(&mut d.response_headers));
            std::iter::once(&mut answer.status.message).chain(headers.map(|header| &mut header.value))
        });
        let failure = self.error.iter_mut().map(|error| &mut error.message);
        let dry_run = self.dry_run.iter_mut().map(|tried| &mut tried.message);
        let handlers = self.handlers.iter_mut().flat_map(|handler| {
            handler.error.iter_mut().chain(handler.status.iter_mut().map(|status| &mut status.message))
        });
        let reported = self.reported.iter_mut().filter_map(|instance| instance.error.as_mut());
        answer.chain(failure).chain(dry_run).chain(handlers).chain(reported)
    }

    /// Adds the rules and dispatches of a trace.
    pub fn read_trace(&mut self, trace: &DispatchTrace) {
        self.snapshot = trace.snapshot;
        for traced in trace.rules.iter().filter(|traced| !traced.rule.dry_run) {
            let name = traced.rule.key.to_string();
            if !self.rules.contains(&name) {
                self.rules.push(name);
            }
        }
        for traced in &trace.dispatches {
            match (traced.rule.dry_run, traced.kind) {
                (true, _) => self.dry_run.push(dry_run_text(traced)),
                (false, RuleKind::Report) => self.reported.push(instance_text(traced)),
                (false, _) => self.handlers.push(dispatch_text(traced)),
            }
        }
        for traced in trace.rules.iter().filter(|t| t.rule.dry_run) {
            let outcome = match traced.kind {
                RuleKind::Headers => "matched",
                RuleKind::Default if traced.rule.is_satisfied_by(trace.allowed) => "allowed",
                RuleKind::Default => "denied",
                _ => continue,
            };
            self.dry_run.push(DryRunText {
                rule: traced.rule.key.to_string(),
                variety: traced.kind.name().to_owned(),
                outcome: outcome.to_owned(),
                message: String::new(),
            });
        }
    }

    fn mask(&mut self, mut masking: Masking<'_>, made: Option<&SecretValues>) {
        if let Some(principal) = self.caller.as_mut().and_then(|caller| caller.principal.as_mut()) {
            // It is masked like the attribute of the same content.
            let value = Some(Value::String(principal.as_bytes()));
            if let Some(secrets) = &mut masking.secrets {
                secrets.read([NamedValue { name: CALLER_PRINCIPAL.as_bytes(), value }]);
            }
            let mut own = AttributeMap::new();
            own.insert(CALLER_PRINCIPAL.to_owned(), principal.as_str().into());
            if masking.apply(&mut own) {
                MASKED.clone_into(principal);
            }
        }
        masking.names.sort();
        masking.names.dedup();
        self.masked = masking.names;
        let mut secrets = masking.secrets.map(SecretReader::finish);
        if let Some(made) = made {
            secrets.get_or_insert_default().extend(made);
        }
        let mut left = MAX_TEXTS;
        match secrets {
            Some(secrets) => self.texts().for_each(|text| cut_without(text, &secrets, &mut left)),
            None => self.texts().for_each(cut_text),
        }
    }
}

fn dispatch_text(traced: &TracedDispatch) -> DispatchText {
    DispatchText {
        rule: traced.rule.key.to_string(),
        variety: traced.kind.name().to_owned(),
        handler: traced.handler.name.to_string(),
        adapter: traced.handler.adapter_name().to_owned(),
        instance: traced.instance.to_string(),
        status: traced.check.as_ref().map(|c| StatusText::new(c.status.code, c.status.message.clone())),
        granted: traced.quota.map(|(_, quota)| quota.granted),
        error: traced.error.clone(),
    }
}

fn instance_text(traced: &TracedDispatch) -> InstanceText {
    InstanceText {
        rule: traced.rule.key.to_string(),
        handler: traced.handler.name.to_string(),
        instance: traced.instance.to_string(),
        record: traced.record,
        values: traced.values.iter().cloned().collect(),
        error: traced.error.clone(),
    }
}

fn dry_run_text(traced: &TracedDispatch) -> DryRunText {
    let (outcome, message) = match (&traced.error, &traced.check, traced.quota) {
        (Some(error), ..) => ("failed", error.clone()),
        (_, Some(check), _) if check.status.code == 0 => ("allowed", String::new()),
        (_, Some(check), _) => ("denied", check.status.message.clone()),
        (_, _, Some((amount, quota))) if quota.granted >= amount => ("granted", String::new()),
        (_, _, Some((amount, quota))) => ("refused", format!("{} of {amount}", quota.granted)),
        _ if traced.kind == RuleKind::Check => ("waiting", String::new()),
        _ => ("matched", String::new()),
    };
    DryRunText {
        rule: traced.rule.key.to_string(),
        variety: traced.kind.name().to_owned(),
        outcome: outcome.to_owned(),
        message,
    }
}
