//! Evaluates a check with attributes from a form and explains the result.

mod lines;
mod repeat;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::Method;
use maud::{Markup, html};

use self::lines::{Line, line};
use self::repeat::Repeat;
pub(super) use self::repeat::lacks;
use super::form::Parameters;
use super::page::Page;
use super::{Server, Shared, configuration, form, format, parameter};
use mixer_api::{CallInfo, ExplainResponse, MixerService};
use mixer_attribute::{OwnedAttributes, OwnedValue, SignedDuration, Timestamp, ValueType, Vocabulary};
use mixer_base::log::escaped;
use mixer_config::message::suggestion;
use mixer_engine::denials::Denial;
use mixer_engine::dispatch::LastKnownAnswers;
use mixer_engine::explain::{
    Decision, DispatchExplanation, Explanation, OnErrorExplanation, PAGE_HEADER, PartExplanation,
    RuleExplanation, Verdict,
};
use mixer_expr::Scope as _;

/// The header that names the page of rules.
const PAGE: http::HeaderName = http::HeaderName::from_static(PAGE_HEADER);
/// Length of the gRPC message prefix.
const FRAMING: usize = 5;
/// Explanations at once.
pub(super) const MAX_CONCURRENT: usize = 4;
/// Maximum number of rules per verdict.
const SHOWN: usize = 50;

/// The form, followed by the explanation after it was submitted.
pub(super) async fn page(
    State(server): State<Shared>,
    Parameters(parameters): Parameters,
    method: Method,
    body: String,
) -> Response {
    let published = server.runtime.load_full();
    let vocabulary = &published.routes.snapshot().vocabulary;
    let asked = match method == Method::POST {
        true => form::value(&body, "denial").parse().ok(),
        false => parameter(&parameters, "denial").parse().ok(),
    };
    let denial = asked.and_then(|id| server.runtime.denials().get(id, vocabulary));
    let recorded = denial.as_ref().map(RecordedLine::of).unwrap_or_default();
    let text = match (&denial, method == Method::POST) {
        (_, true) => form::value(&body, "attributes"),
        (Some(_), _) => recorded.iter().flat_map(|recorded| [recorded.line.as_str(), "\n"]).collect(),
        (None, _) => parameter(&parameters, "attributes").to_owned(),
    };
    let repeat = Repeat::of(asked, denial, &text);
    let result = match method == Method::POST {
        true => Some(explain(&server, (&text, &recorded), form::value(&body, "page")).await),
        false => None,
    };
    Page {
        path: "/explainz/",
        title: "Explain a Check",
        lead: html! { "Evaluates a check with these attributes, without cache and quotas, and explains the result. Handlers are called." },
        json: "",
        body: html! {
            @if let Some(repeat) = &repeat { (repeat.notice()) }
            (form(&text, &server, repeat.as_ref().map(Repeat::id)))
            @match result {
                None => {}
                Some(Err(problems)) => { (complaints(&problems)) }
                Some(Ok((explanation, left_out))) => { (left_out.notices()) (answer(&explanation, repeat.as_ref())) (pager(&explanation, &text, repeat.as_ref().map(Repeat::id))) }
            }
        },
    }
    .answer(&server)
}

/// The form, filled with attributes: those of the refusal with this number, if there is one.
pub(super) fn form(text: &str, server: &Server, refusal: Option<u64>) -> Markup {
    const EXAMPLE: &str = "source.user = ann\ndestination.namespace = default\nrequest.headers[x-user] = ann\nsource.ip = 10.0.0.7";
    let published = server.runtime.load_full();
    html! {
        form.stack method="post" action="/explainz/" {
            (number(refusal))
            label {
                span { "Attributes, one per line: " code { "name = value" } " or " code { "name[key] = value" } }
                textarea name="attributes" rows="6" spellcheck="false" placeholder=(EXAMPLE) { (text) }
            }
            div.bar {
                button.primary { "Explain" }
                details.inline {
                    summary { "Known attributes" }
                    dl.attributes { @for (name, value_type) in published.routes.snapshot().vocabulary.typed() {
                        dt { code { (name) } } dd.dim { (value_type.name()) }
                    } }
                }
            }
        }
    }
}

/// The field with the number of the refusal that a form repeats.
fn number(refusal: Option<u64>) -> Markup {
    html! { @if let Some(id) = refusal { input type="hidden" name="denial" value=(id); } }
}

fn complaints(problems: &[String]) -> Markup {
    html! { div.notice.bad role="alert" { ul { @for problem in problems { li { (format::message(problem)) } } } } }
}

/// A line of a refusal.
struct RecordedLine {
    line: String,
    /// Whether it has the value that rules had: it is neither cut nor masked.
    is_whole: bool,
}

impl RecordedLine {
    fn of(denial: &Denial) -> Vec<Self> {
        let is_whole = |name: &String| !denial.cut.contains(name) && !denial.masked.contains(name);
        let recorded = denial.attributes.iter().flatten();
        recorded.map(|(name, value)| Self { line: line(name, value), is_whole: is_whole(name) }).collect()
    }
}

/// Why recorded attributes are left out.
#[derive(Debug, Default)]
struct LeftOut {
    /// Those that are not declared, or have another type.
    unseen: Vec<String>,
    /// Those whose values the record does not have.
    unknown: Vec<String>,
}

impl LeftOut {
    fn notices(&self) -> Markup {
        let notices = [
            ("rules do not see it", &self.unseen),
            ("the record does not have the value that rules saw", &self.unknown),
        ];
        html! {
            @for (reason, left_out) in notices.into_iter().filter(|(_, left_out)| !left_out.is_empty()) {
                div.notice { "Left out, as " (reason) ":" ul { @for why in left_out { li { (format::message(&escaped(why))) } } } }
            }
        }
    }
}

/// What the form has.
#[derive(Debug, Default)]
struct Asked {
    attributes: OwnedAttributes,
    left_out: LeftOut,
}

/// What is wrong with a line.
struct Invalid {
    why: String,
    /// Whether only the value is.
    is_of_value: bool,
}

impl From<String> for Invalid {
    fn from(why: String) -> Self {
        Self { why, is_of_value: false }
    }
}

/// Parses the form with the declared types. `recorded` are the lines of a refusal. Errors: one per invalid line that is none of them.
fn read(text: &str, vocabulary: &Vocabulary, recorded: &[RecordedLine]) -> Result<Asked, Vec<String>> {
    let mut asked = Asked::default();
    let mut problems = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Err(invalid) = read_line(line, vocabulary, &mut asked.attributes) else { continue };
        let told = match recorded.iter().find(|known| known.line.trim() == line) {
            None => &mut problems,
            Some(known) if invalid.is_of_value && !known.is_whole => &mut asked.left_out.unknown,
            Some(_) => &mut asked.left_out.unseen,
        };
        told.push(invalid.why);
    }
    if problems.is_empty() { Ok(asked) } else { Err(problems) }
}

fn read_line(line: &str, vocabulary: &Vocabulary, attributes: &mut OwnedAttributes) -> Result<(), Invalid> {
    let Line { attribute: name, key, value } = Line::read(line)?;
    let Some((_, value_type)) = vocabulary.attribute(name) else {
        let hint = suggestion(name, vocabulary.names()).map(|hint| format!("; {hint}")).unwrap_or_default();
        return Err(format!("unknown attribute `{name}`{hint}").into());
    };
    if let Some(key) = key {
        if value_type != ValueType::StringMap {
            return Err(format!("`{name}` is a {value_type} and has no keys").into());
        }
        let mut entries = match attributes.remove(name) {
            Some(OwnedValue::StringMap(entries)) => entries,
            _ => Default::default(),
        };
        entries.insert(key.as_bytes().into(), value.as_bytes().into());
        attributes.insert(name, OwnedValue::StringMap(entries));
        return Ok(());
    }
    let Some(value) = typed(&value, value_type) else {
        let why = format!("`{value}` is not a valid {value_type}, the type of `{name}`");
        return Err(Invalid { why, is_of_value: true });
    };
    attributes.insert(name, value);
    Ok(())
}

fn typed(text: &str, value_type: ValueType) -> Option<OwnedValue> {
    Some(match value_type {
        ValueType::Int64 => OwnedValue::Int64(text.parse().ok()?),
        ValueType::Double => OwnedValue::Double(text.parse().ok()?),
        ValueType::Bool => OwnedValue::Bool(text.parse().ok()?),
        ValueType::Timestamp => OwnedValue::Timestamp(Timestamp::parse_rfc3339(text).ok()?),
        ValueType::Duration => OwnedValue::Duration(SignedDuration::parse(text).ok()?),
        // What is no address is recorded in this way, and compared with others all the same.
        ValueType::IpAddress if text == "<nil>" => OwnedValue::Bytes(Vec::new()),
        ValueType::IpAddress if text.starts_with('?') => OwnedValue::Bytes(hex(text.get(1..)?)?),
        ValueType::IpAddress => text.parse::<IpAddr>().ok()?.into(),
        ValueType::StringMap => {
            let pairs = text.split(';').filter(|pair| !pair.is_empty());
            let entries: Option<_> =
                pairs.map(|p| p.split_once(':').map(|(k, v)| (k.into(), v.into()))).collect();
            OwnedValue::StringMap(entries?)
        }
        _ => OwnedValue::String(text.into()),
    })
}

/// The bytes of hexadecimal digits.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// Buttons for the pages of rules before and behind this one.
fn pager(explanation: &Explanation, text: &str, refusal: Option<u64>) -> Markup {
    let Explanation { page, pages, .. } = *explanation;
    let to = |page: usize, label: &str| {
        html! {
            form method="post" action="/explainz/" {
                (number(refusal))
                input type="hidden" name="attributes" value=(text);
                input type="hidden" name="page" value=(page);
                button { (label) }
            }
        }
    };
    html! {
        @if pages > 1 {
            div.bar {
                @if page > 1 { (to(page - 1, "Previous rules")) }
                span.dim { "Page " (page) " of " (pages) }
                @if page < pages { (to(page + 1, "Next rules")) }
            }
        }
    }
}

/// Evaluates the check, at most [`MAX_CONCURRENT`] at once, also after callers have left. `page` is the page of rules, from 1; empty: the first.
/// Also why attributes of `recorded` lines are left out.
async fn explain(
    server: &Shared,
    (text, recorded): (&str, &[RecordedLine]),
    page: String,
) -> Result<(Explanation, LeftOut), Vec<String>> {
    let Ok(permit) = Arc::clone(&server.explanations).try_acquire_owned() else {
        return Err(vec![format!("{MAX_CONCURRENT} explanations wait for their handlers: try again later")]);
    };
    let published = server.runtime.load_full();
    let Asked { attributes, left_out } = read(text, &published.routes.snapshot().vocabulary, recorded)?;
    let mut request = Vec::new();
    // Field 1 of a CheckRequest: the attributes.
    let encoded = attributes.to_bytes(0);
    prost::encoding::bytes::encode(1, &encoded, &mut request);
    let (runtime, metrics) = (Arc::clone(&server.runtime), Arc::clone(&server.metrics));
    let handle = tokio::runtime::Handle::current();
    // Evaluation is not `Send`.
    let answered = tokio::task::spawn_blocking(move || {
        let service = MixerService::new(runtime, metrics, Arc::new(LastKnownAnswers::default()), None);
        let _permit = permit;
        let headers: http::HeaderMap =
            http::HeaderValue::from_str(&page).map(|page| (PAGE, page)).into_iter().collect();
        let call = CallInfo { headers: Some(&headers), ..CallInfo::default() };
        handle.block_on(service.explain(request.into(), call))
    })
    .await;
    let framed = match answered {
        Ok(Ok(framed)) => framed,
        Ok(Err(error)) => return Err(vec![error.message]),
        Err(error) => return Err(vec![format!("the evaluation failed: {error}")]),
    };
    let message = framed.get(FRAMING..).unwrap_or_default();
    let response: ExplainResponse = prost::Message::decode(message).map_err(|e| vec![e.to_string()])?;
    let explanation = serde_json::from_str(&response.json).map_err(|e| vec![e.to_string()])?;
    Ok((explanation, left_out))
}

/// The notice of a check that is allowed, or why it does not repeat a refusal.
fn allowed(explanation: &Explanation, repeat: Option<&Repeat>) -> Markup {
    let why = repeat.and_then(|repeat| repeat.not_repeated(explanation));
    let no_handler = html! { @if explanation.dispatches.is_empty() { ": no rule calls a handler" } };
    html! {
        @match why {
            Some(why) => p.notice.warn { strong { "The refusal cannot be repeated" } ": " (format::message(&escaped(&why))) ". With what is in the form, the check is allowed" (no_handler) "." },
            None => p.notice.good { strong { "Allowed" } (no_handler) },
        }
    }
}

fn answer(explanation: &Explanation, repeat: Option<&Repeat>) -> Markup {
    let decision = &explanation.decision;
    // Those that are enforced, with what makes the answer: the refusal of the rule that refused, or the error of a check that failed.
    let mut enforced = explanation.dispatches.iter().filter(|d| !d.dry_run);
    let is_refusal = |d: &DispatchExplanation| d.said.starts_with("refused");
    let is_answer = |d: &&DispatchExplanation| {
        let failed = d.on_error.as_ref().is_some_and(OnErrorExplanation::may_refuse);
        Some(&d.rule) == decision.refused_by.as_ref() && (is_refusal(d) || failed)
    };
    // A failure that comes first has the code of the answer, which is said without a handler.
    let refused = enforced.clone().find(is_answer).filter(|d| is_refusal(d));
    let failed = enforced.find(|d| d.said.starts_with("error") && d.on_error.is_none());
    let of = |verdict: Verdict| explanation.rules.iter().filter(move |r| r.verdict == verdict);
    let other = repeat.filter(|_| decision.code != 0).and_then(|repeat| repeat.other_refuser(explanation));
    html! {
        section.answer #answer {
            h2 { "Decision" }
            @if let Some(other) = &other { p.notice.warn { (format::message(&escaped(other))) } }
            @match (decision, refused, failed) {
                (Decision { code: 0, .. }, ..) => (allowed(explanation, repeat)),
                (Decision { failed: false, .. }, Some(first), _) => {
                    p.notice.bad { strong { "Refused" } " by " b { (first.handler) } " in rule " (configuration::link(&first.rule)) ": " (first.said) }
                }
                (Decision { failed: true, .. }, _, Some(first)) => {
                    p.notice.bad { strong { "Failed" } " in " b { (first.handler) } " of rule " (configuration::link(&first.rule)) ": " (first.said) }
                }
                (decision, ..) => {
                    // A failure of the rule refuses, or its default, or no rule at all.
                    p.notice.bad {
                        strong { @if decision.failed { "Failed" } @else { "Refused" } }
                        @if let Some(rule) = &decision.refused_by { " by rule " (configuration::link(rule)) }
                        " with code " (decision.code) ": " (decision.message)
                    }
                }
            }
            p.dim { "Snapshot " (explanation.snapshot) ", namespace "
                @match &explanation.namespace { Some(name) => code { (name) }, None => "none: only the rules of the default namespace apply" } }
            @for sentence in &explanation.for_envoy { p.notice.warn { (format::message(sentence)) } }
            @if !explanation.dispatches.is_empty() { (dispatches(explanation)) }
            h2 { "Rules" }
            (verdict("Applied", "good", of(Verdict::Matched), true))
            (verdict("Could not be evaluated, which refuses the request", "bad", of(Verdict::FailedRefuses), true))
            (verdict("Could not be evaluated, which counts as no", "bad", of(Verdict::Failed), true))
            (verdict("Do not compile", "bad", of(Verdict::Broken), true))
            (verdict("Nearly applied", "warn", of(Verdict::NotMatched).filter(|r| r.near_miss.is_some()), true))
            (verdict("Did not apply", "", of(Verdict::NotMatched).filter(|r| r.near_miss.is_none()), false))
            (verdict("Of other namespaces", "", of(Verdict::OtherNamespace), false))
            @if !explanation.omitted.is_none() { p.dim { (explanation.omitted) "." } }
            h2 { "Referenced attributes" }
            @if explanation.referenced.is_empty() { (format::nothing("None.")) }
            ul.plain.columns { @for reference in &explanation.referenced { li { code { (reference) } } } }
        }
    }
}

fn dispatches(explanation: &Explanation) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr { th { "Handler" } th { "Instance" } th { "Given" } th { "Said" } } }
            tbody { @for d in &explanation.dispatches {
                tr {
                    th scope="row" { (d.handler) " " small.dim { (d.adapter) } }
                    td data-label="Instance" { (configuration::link(&d.instance)) }
                    td data-label="Given" { @for (name, value) in &d.values { span.label { (name) "=" b { (value) } } " " } }
                    td data-label="Said" {
                        @if d.dry_run { span.pill.warn { "dry run" } " would return: " } (d.said)
                        @if let Some(on_error) = &d.on_error { br; small { (format::message(&on_error.to_string())) } }
                    }
                }
            } }
        } }
    }
}

fn verdict<'e>(
    title: &str,
    class: &str,
    rules: impl Iterator<Item = &'e RuleExplanation>,
    open: bool,
) -> Markup {
    let rules: Vec<&RuleExplanation> = rules.collect();
    html! {
        @if !rules.is_empty() {
            details.verdict.(class) open[open] {
                summary { (title) " " span.pill { (rules.len()) } }
                @for rule in rules.iter().take(SHOWN) {
                    article.rule {
                        header { (configuration::link(&rule.rule)) span.dim.place { (rule.place()) }
                            @if rule.dry_run { span.pill.warn { "dry run, not enforced" } }
                            @for handler in &rule.handlers { span.pill { (handler) } } }
                        @if let Some(kept) = &rule.kept { p.hint { "The previous version serves: " (format::message(&kept.why)) } }
                        @if rule.match_text.is_empty() { p.dim { "always" } }
                        @if let Some(part) = &rule.condition { ul.parts { (part_markup(part)) } }
                        @if let Some(miss) = &rule.near_miss { p.hint { (format::message(miss)) } }
                    }
                }
                (format::shown(rules.len().min(SHOWN), rules.len()))
            }
        }
    }
}

fn part_markup(part: &PartExplanation) -> Markup {
    let class = match part.outcome.as_str() {
        "true" => "yes",
        "false" => "no",
        _ => "other",
    };
    html! {
        li {
            code.expression { (part.text) }
            @if part.text != part.outcome { " " span.outcome.(class) { (part.outcome) } }
            @if !part.parts.is_empty() { ul { @for inner in &part.parts { (part_markup(inner)) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let mut builder = Vocabulary::builder();
        builder.declare("source.user", ValueType::String);
        builder.declare("source.ip", ValueType::IpAddress);
        builder.declare("request.size", ValueType::Int64);
        builder.declare("request.headers", ValueType::StringMap);
        builder.build()
    }

    #[test]
    fn lines_become_typed_attributes() {
        let text = "# a comment\nsource.user = a=b\nsource.ip=10.0.0.7\n\nrequest.size = 12\nrequest.headers[x-a] = 1\nrequest.headers[\"x-b\"] = 2";
        let read = read(text, &vocabulary(), &[]).unwrap().attributes;
        assert_eq!(read.get("source.user"), Some(&"a=b".into()));
        assert_eq!(read.get("source.ip"), Some(&OwnedValue::Bytes(vec![10, 0, 0, 7])));
        assert_eq!(read.get("request.size"), Some(&OwnedValue::Int64(12)));
        assert_eq!(read.get("request.headers"), Some(&OwnedValue::from([("x-a", "1"), ("x-b", "2")])));
    }

    /// What is masked or cut is no value of its type; bytes that are no address are.
    #[test]
    fn recorded_lines_are_left_out_for_what_is_so() {
        let of = |line: &str, is_whole| RecordedLine { line: line.to_owned(), is_whole };
        let recorded = [
            of("request.size = ***", false),
            of("session.token = ***", false),
            of("source.ip = ann", true),
            of("source.user = ***", false),
        ];
        let text = recorded.iter().map(|recorded| recorded.line.clone() + "\n").collect::<String>();
        let asked = read(&text, &vocabulary(), &recorded).unwrap();
        let LeftOut { unseen, unknown } = asked.left_out;
        assert_eq!(unknown, ["`***` is not a valid INT64, the type of `request.size`"]);
        let [undeclared, mistyped] = &unseen[..] else { panic!("{unseen:?}") };
        assert!(undeclared.contains("unknown attribute `session.token`"), "{undeclared}");
        assert!(mistyped.contains("not a valid IP_ADDRESS"), "{mistyped}");
        assert_eq!(asked.attributes.get("source.user"), Some(&"***".into()));
        let bytes = read("source.ip = ?6e6f74", &vocabulary(), &[]).unwrap().attributes;
        assert_eq!(bytes.get("source.ip"), Some(&OwnedValue::Bytes(b"not".to_vec())));
        assert!(read("source.ip = ?6e6", &vocabulary(), &[]).is_err());
    }

    #[test]
    fn every_invalid_line_is_reported() {
        let text = "sorce.user = a\nrequest.size = x\nnonsense\nsource.user[k] = 1\nrequest.headers[k = 1";
        let problems = read(text, &vocabulary(), &[]).unwrap_err();
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(
            problems
                .iter()
                .any(|p| p.contains("unknown attribute `sorce.user`") && p.contains("source.user"))
        );
    }
}
