//! Replays recorded calls on two configurations.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::unnamed::names_namespace;
use super::{ManualClock, Offline};
use mixer_api::principal::CallerPrincipal;
use mixer_attribute::request::CheckCall;
use mixer_attribute::{OwnedAttributes, Timestamp, ValueType};
use mixer_engine::decision::{AttributeMap, CallerText, Decision, InstanceText, Method, owned_attributes};
use mixer_engine::explain::WithoutNamespace;
use mixer_engine::snapshot::Snapshot;
use mixer_expr::Scope as _;
use mixer_net::peer::Peer;
use mixer_net::tls::PeerIdentity;

/// Maximum length of a line of a recording, in bytes.
const MAX_LINE: usize = 8 << 20;
/// Most calls of a replay that are kept for each of the results of [`Replay`], and most groups of them; the others are counted. A recording may be
/// larger than the memory.
pub const MAX_KEPT: usize = 10_000;
/// Why a call of a rate limit is skipped: its counters are those of the service.
const LIMITS_ARE_NOT_REPLAYED: &str = "rate-limit calls are not replayed";
/// Lines of a group that are kept in any case.
const MIN_LINES: usize = 4;

/// A recording cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct RequestsError {
    /// From 1.
    pub line: usize,
    /// From 1; 1 for errors of the whole line.
    pub column: usize,
    /// The error.
    pub message: String,
}

/// Reads a recording or a decision log line by line, one JSON object per line: decisions with their line numbers. Blank lines are skipped.
///
/// Errors: a line that is not a decision; whoever meets one reads no further.
pub struct Requests<'r> {
    input: &'r mut dyn BufRead,
    line: usize,
    bytes: u64,
    text: Vec<u8>,
}

impl std::fmt::Debug for Requests<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("line", &self.line)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<'r> Requests<'r> {
    /// Reads from the beginning of `input`.
    pub fn new(input: &'r mut dyn BufRead) -> Self {
        Self { input, line: 0, bytes: 0, text: Vec::new() }
    }

    /// How many bytes were read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self) -> Result<Option<Decision>, RequestsError> {
        self.text.clear();
        self.line += 1;
        let line = self.line;
        let refuse = |column, message: String| RequestsError { line, column, message };
        let length =
            std::io::Read::take(&mut *self.input, MAX_LINE as u64 + 1).read_until(b'\n', &mut self.text);
        let length = length.map_err(|error| refuse(1, error.to_string()))?;
        self.bytes = self.bytes.saturating_add(length as u64);
        if length > MAX_LINE {
            return Err(refuse(1, format!("longer than {MAX_LINE} bytes")));
        }
        if self.text.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let decision = serde_json::from_slice(&self.text).map_err(|error| {
            let cause = error.to_string();
            let cause = cause.split(" at line ").next().unwrap_or_default().to_owned();
            refuse(error.column().max(1), format!("not a recorded call: {cause}"))
        })?;
        Ok(Some(decision))
    }
}

impl Iterator for Requests<'_> {
    type Item = Result<(usize, Decision), RequestsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read() {
                Ok(Some(decision)) => return Some(Ok((self.line, decision))),
                // The end has no line feed and no bytes.
                Ok(None) if self.text.is_empty() => return None,
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The first of what may be too many to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct First<T> {
    /// At most [`MAX_KEPT`], in the order of the recording.
    pub kept: Vec<T>,
    /// How many there are.
    pub count: usize,
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), count: 0 }
    }
}

impl<T> First<T> {
    fn push(&mut self, item: T) {
        self.count += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(item);
        }
    }

    /// How many are not kept.
    pub fn more(&self) -> usize {
        self.count - self.kept.len()
    }
}

/// A difference between two answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// `status`, `message`, `error`, `request headers`, `response headers`, `direct response`, `quota NAME` or `reported`.
    pub what: String,
    /// Before.
    pub from: String,
    /// After.
    pub to: String,
}

/// A call with different answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedCall {
    /// Its line in the recording.
    pub line: usize,
    /// When it was recorded, as in the recording.
    pub time: String,
    /// The differences.
    pub differences: Vec<Difference>,
    /// The rules that cause it: `+ rule` applies only after the change, `- rule` only before, `~ rule` with another result.
    pub causes: Vec<String>,
    /// Masked attributes that an answer references; with the real values the answers may differ from these.
    pub masked: Vec<String>,
    /// Attributes that an answer references and of which the recording has a part only, because they are long. With the whole values the
    /// answers may differ from these.
    pub cut: Vec<String>,
}

/// Calls with the same differences and causes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeGroup {
    /// How many.
    pub calls: usize,
    /// Lines of the first of them.
    pub lines: Vec<usize>,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replay {
    /// Number of calls replayed on both configurations.
    pub calls: usize,
    /// Calls with different answers.
    pub changes: First<ChangedCall>,
    /// All calls with different answers, by differences and causes; at most [`MAX_KEPT`] groups.
    pub groups: BTreeMap<(Vec<Difference>, Vec<String>), ChangeGroup>,
    /// Lines of calls that cannot be replayed, with the reason.
    pub skipped: First<(usize, String)>,
    /// The first of them that is none of a rate limit.
    pub refused: Option<(usize, String)>,
    /// Number of calls whose answer references a masked attribute.
    pub masked: usize,
    /// Number of calls whose answer references an attribute that is cut.
    pub cut: usize,
    /// Number of calls whose answer references a masked attribute, or one that is cut.
    pub unsure: usize,
    /// Number of checks that name no namespace, if Envoy gets another answer to those than the one that is compared.
    pub unnamed: usize,
    /// What Envoy gets for them before and after; `None`: what is compared.
    pub without_namespace: [Option<WithoutNamespace>; 2],
    /// Lines of calls that the first configuration answers differently from the recording.
    pub drifted: First<usize>,
}

impl Replay {
    fn add(&mut self, change: ChangedCall) {
        let key = (change.differences.clone(), change.causes.clone());
        let has_room = self.groups.len() < MAX_KEPT;
        let group = match self.groups.entry(key) {
            Entry::Vacant(_) if !has_room => None,
            entry => Some(entry.or_default()),
        };
        if let Some(group) = group {
            group.calls += 1;
            if group.lines.len() < MIN_LINES || self.changes.count < MAX_KEPT {
                group.lines.push(change.line);
            }
        }
        self.changes.push(change);
    }
}

/// One of the two configurations.
struct ReplaySide {
    offline: Offline,
    snapshot: Arc<Snapshot>,
}

impl ReplaySide {
    async fn replay(&self, decision: &Decision, line: usize) -> Result<Decision, String> {
        if let Some(time) = time_of(decision) {
            self.offline.clock.advance_to(time);
        }
        let peer = decision.caller.as_ref().map(peer_of);
        let principal = peer.as_ref().map_or(CallerPrincipal::AsSent, CallerPrincipal::of_peer);
        match decision.method {
            Method::Check => {
                let attributes = self.attributes(&decision.attributes)?;
                // A unique id, so that no call counts as a retry of another.
                let id = match decision.deduplication_id.as_str() {
                    "" => format!("line {line}"),
                    id => id.to_owned(),
                };
                let requested = decision.quotas.iter();
                let quotas = requested.map(|(name, q)| (name.clone(), (q.amount, q.best_effort))).collect();
                let call = CheckCall { deduplication_id: &id, quotas };
                Ok(self.offline.check(&attributes, &call, principal, false).await)
            }
            Method::Limit => Err(LIMITS_ARE_NOT_REPLAYED.to_owned()),
            Method::Report => {
                let records = decision.records.iter().map(|record| self.attributes(record));
                let records = records.collect::<Result<Vec<_>, _>>()?;
                Ok(self.offline.report(&records, principal).await)
            }
        }
    }

    fn attributes(&self, map: &AttributeMap) -> Result<OwnedAttributes, String> {
        // Strings keep the type with which they were received; masked values have lost theirs.
        let vocabulary = &self.snapshot.vocabulary;
        let declared = |name: &str| {
            let (_, kind) = vocabulary.attribute(name)?;
            matches!(kind, ValueType::String | ValueType::Double).then_some(kind)
        };
        owned_attributes(map, &declared)
    }
}

/// A peer with the name of a recorded caller; the address makes no difference.
fn peer_of(caller: &CallerText) -> Peer {
    match &caller.principal {
        None => Peer::Unix,
        Some(name) => {
            let identity = PeerIdentity { names: vec![name.clone()], addresses: Vec::new() };
            Peer::Tls(SocketAddr::from(([0, 0, 0, 0], 0)), Some(Arc::new(identity)))
        }
    }
}

/// Replays recorded calls in order on two configurations, with clocks that follow the recording, and compares the answers.
/// Requires a tokio runtime.
pub struct Replayer {
    from: ReplaySide,
    to: ReplaySide,
    result: Replay,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer").field("calls", &self.result.calls).finish_non_exhaustive()
    }
}

impl Replayer {
    /// On these configurations, whose clocks are that of the first call ([`clock_of`]).
    pub fn new(from: (Arc<Snapshot>, Offline), to: (Arc<Snapshot>, Offline)) -> Self {
        let from = ReplaySide { snapshot: from.0, offline: from.1 };
        let to = ReplaySide { snapshot: to.0, offline: to.1 };
        let without_namespace = [from.offline.without_namespace(), to.offline.without_namespace()];
        Self { from, to, result: Replay { without_namespace, ..Replay::default() } }
    }

    /// Replays a call.
    pub async fn replay(&mut self, line: usize, decision: &Decision) {
        let Self { from, to, result } = self;
        let (before, after) = match (from.replay(decision, line).await, to.replay(decision, line).await) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(cause), _) | (_, Err(cause)) => {
                if cause != LIMITS_ARE_NOT_REPLAYED {
                    result.refused.get_or_insert_with(|| (line, cause.clone()));
                }
                result.skipped.push((line, cause));
                return;
            }
        };
        result.calls += 1;
        result.unnamed += usize::from(result.without_namespace != [None, None] && is_unnamed(decision));
        let read = referenced(&[&before, &after]);
        let of = |names: &[String]| names.iter().filter(|name| read.contains(*name)).cloned().collect();
        let (masked, cut): (Vec<String>, Vec<String>) = (of(&decision.masked), of(&decision.cut));
        result.masked += usize::from(!masked.is_empty());
        result.cut += usize::from(!cut.is_empty());
        result.unsure += usize::from(!masked.is_empty() || !cut.is_empty());
        if drifted(decision, &before) {
            result.drifted.push(line);
        }
        let differences = differences(&before, &after);
        if !differences.is_empty() {
            let causes = causes(&before, &after);
            let time = decision.time.clone();
            result.add(ChangedCall { line, time, differences, causes, masked, cut });
        }
    }

    /// Closes the handlers; what was found.
    pub async fn end(self) -> Replay {
        self.from.offline.close().await;
        self.to.offline.close().await;
        self.result
    }
}

/// A clock at the time of a recorded call.
pub fn clock_of(first: &Decision) -> ManualClock {
    ManualClock::at(time_of(first).unwrap_or(Duration::ZERO))
}

fn time_of(decision: &Decision) -> Option<Duration> {
    let instant = Timestamp::parse_rfc3339(&decision.time).ok()?;
    u64::try_from(instant.unix_nanos()).ok().map(Duration::from_nanos)
}

/// Whether a check names no namespace.
fn is_unnamed(decision: &Decision) -> bool {
    let text = |name: &str| Some(decision.attributes.get(name)?.as_str()?.to_owned());
    decision.method == Method::Check && !names_namespace(text)
}

/// The attributes that an answer references.
fn referenced(answers: &[&Decision]) -> BTreeSet<String> {
    let references = answers.iter().filter_map(|decision| decision.answer.as_ref());
    references
        .flat_map(|answer| &answer.referenced)
        .map(|reference| match &reference.key {
            Some(key) => format!("{}[{key}]", reference.name),
            None => reference.name.clone(),
        })
        .collect()
}

/// Whether the answer differs from the recorded one, because of earlier state or another answer of a backend.
fn drifted(recorded: &Decision, now: &Decision) -> bool {
    let (Some(then), Some(now)) = (&recorded.answer, &now.answer) else { return false };
    let grants = |answer: &mixer_engine::decision::Answer| -> Vec<(String, i64)> {
        answer.quotas.iter().map(|(name, quota)| (name.clone(), quota.granted)).collect()
    };
    then.status.code != now.status.code || grants(then) != grants(now)
}

fn differences(before: &Decision, after: &Decision) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut note = |what: &str, from: String, to: String| {
        if from != to {
            all.push(Difference { what: what.to_owned(), from, to });
        }
    };
    let error = |decision: &Decision| {
        decision.error.as_ref().map_or_else(|| "none".to_owned(), |e| format!("{}: {}", e.name, e.message))
    };
    note("error", error(before), error(after));
    for difference in reported_differences(&before.reported, &after.reported) {
        note(&difference.what, difference.from, difference.to);
    }
    let (Some(a), Some(b)) = (&before.answer, &after.answer) else { return all };
    note("status", a.status.name.clone(), b.status.name.clone());
    if a.status.code == b.status.code {
        note("message", format!("{:?}", a.status.message), format!("{:?}", b.status.message));
    }
    let (x, y) = (a.directive.clone().unwrap_or_default(), b.directive.clone().unwrap_or_default());
    note("request headers", headers(&x.request_headers), headers(&y.request_headers));
    note("response headers", headers(&x.response_headers), headers(&y.response_headers));
    let direct = |d: &mixer_engine::decision::DirectiveText| match d.direct_response_code {
        0 => "none".to_owned(),
        code => format!("{code} {:?}", d.direct_response_body),
    };
    note("direct response", direct(&x), direct(&y));
    // A denied check has no grants: the status has the difference.
    if a.status.code == 0 && b.status.code == 0 {
        let names: BTreeSet<&String> = a.quotas.keys().chain(b.quotas.keys()).collect();
        for name in names {
            let granted = |answer: &mixer_engine::decision::Answer| {
                answer.quotas.get(name).map_or_else(|| "none".to_owned(), |q| q.granted.to_string())
            };
            note(&format!("quota {name}"), granted(a), granted(b));
        }
    }
    all
}

fn headers(list: &[mixer_engine::decision::HeaderText]) -> String {
    match list {
        [] => "none".to_owned(),
        list => list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// Instances reported on one side only, and fields with different values.
fn reported_differences(before: &[InstanceText], after: &[InstanceText]) -> Vec<Difference> {
    let (old, new) = (numbered(before), numbered(after));
    let keys: BTreeSet<&InstanceKey<'_>> = old.keys().chain(new.keys()).collect();
    let mut all = Vec::new();
    for key in keys {
        let what = format!("reported {} at {}", key.0, key.1);
        let mut note = |what: String, from: String, to: String| all.push(Difference { what, from, to });
        match (old.get(key), new.get(key)) {
            (Some(a), Some(b)) => {
                let failure = |i: &InstanceText| i.error.clone().unwrap_or_else(|| "sent".to_owned());
                note(what.clone(), failure(a), failure(b));
                let fields: BTreeSet<&String> = a.values.keys().chain(b.values.keys()).collect();
                for field in fields {
                    let value = |i: &InstanceText| {
                        i.values.get(field).map_or_else(|| "none".to_owned(), |v| format!("{v:?}"))
                    };
                    note(format!("{what}: {field}"), value(a), value(b));
                }
            }
            (was, is) => {
                let text = |is_sent: bool| if is_sent { "sent" } else { "not sent" }.to_owned();
                note(what, text(was.is_some()), text(is.is_some()));
            }
        }
    }
    all
}

/// Instance, handler, record, and the index among equal ones.
type InstanceKey<'d> = (&'d str, &'d str, usize, usize);

fn numbered(list: &[InstanceText]) -> BTreeMap<InstanceKey<'_>, &InstanceText> {
    let mut all = BTreeMap::new();
    for instance in list {
        let mut number = 0;
        while all.contains_key(&(
            instance.instance.as_str(),
            instance.handler.as_str(),
            instance.record,
            number,
        )) {
            number += 1;
        }
        all.insert(
            (instance.instance.as_str(), instance.handler.as_str(), instance.record, number),
            instance,
        );
    }
    all
}

/// The rules that cause a difference.
fn causes(before: &Decision, after: &Decision) -> Vec<String> {
    let (old, new) = (effects(before), effects(after));
    let mut causes = Vec::new();
    for (rule, results) in &new {
        match old.get(rule) {
            None => causes.push(format!("+ {rule}")),
            Some(before) if before != results => causes.push(format!("~ {rule}")),
            Some(_) => {}
        }
    }
    causes.extend(old.keys().filter(|rule| !new.contains_key(*rule)).map(|rule| format!("- {rule}")));
    if causes.is_empty() {
        // The rules have equal results, so their header operations differ.
        causes.extend(new.keys().map(|rule| format!("~ {rule}")));
    }
    causes
}

/// The results of every rule.
fn effects(decision: &Decision) -> BTreeMap<&str, Vec<String>> {
    let mut effects: BTreeMap<&str, Vec<String>> =
        decision.rules.iter().map(|rule| (rule.as_str(), Vec::new())).collect();
    for handler in &decision.handlers {
        let status = handler.status.as_ref().map(|status| (status.code, &status.message));
        let result = format!(
            "{} {} {status:?} {:?} {:?}",
            handler.handler, handler.instance, handler.granted, handler.error
        );
        effects.entry(&handler.rule).or_default().push(result);
    }
    for instance in &decision.reported {
        let result =
            format!("{} {} {:?} {:?}", instance.handler, instance.instance, instance.values, instance.error);
        effects.entry(&instance.rule).or_default().push(result);
    }
    effects
}
