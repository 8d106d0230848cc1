//! Results of `check` as text, table and documents.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::answer::CheckAnswer;
use super::explanation;
use crate::cmd::attributes::{Quotas, from_wire};
use crate::cmd::call::{
    CallFlags, CallFormat, DocumentWriter, FinishedCall, RpcError, Summary, rpc_code_name, seconds_text,
    status_code_name,
};
use crate::cmd::exit::Stop;
use crate::cmd::io::{Io, Style};
use crate::cmd::output;
use crate::cmd::personality::Personality;
use mixer_attribute::GLOBAL_WORDS;
use mixer_wire::istio::mixer::v1::check_response::PreconditionResult;
use mixer_wire::istio::mixer::v1::header_operation::Operation;
use mixer_wire::istio::mixer::v1::referenced_attributes::Condition;
use mixer_wire::istio::mixer::v1::{CheckResponse, HeaderOperation, ReferencedAttributes};

/// Prints results in one format.
pub(super) struct Renderer {
    format: CallFormat,
    print_response: bool,
    summarize: bool,
    quotas: Quotas,
    documents: DocumentWriter,
}

impl Renderer {
    pub(super) fn new(
        flags: &CallFlags,
        personality: Personality,
        quotas: Quotas,
        calls: u64,
        io: &Io,
    ) -> Self {
        let format = flags.format(personality, io);
        Self {
            format,
            print_response: flags.result.print_response,
            summarize: calls > 1 && !personality.is_legacy() && !flags.result.quiet,
            quotas,
            documents: DocumentWriter::new(format, "CheckResultList", calls != 1),
        }
    }

    /// Begins the output.
    pub(super) fn begin(&mut self, io: &mut Io) -> Result<(), Stop> {
        self.documents.begin(io)
    }

    /// Prints a result; the results of concurrent workers do not interleave.
    pub(super) fn answer(&mut self, io: &mut Io, finished: &FinishedCall<CheckAnswer>) -> Result<(), Stop> {
        if self.documents.is_active() {
            if self.print_response || finished.answer.response.is_err() {
                self.documents.add(io, &document(finished, &self.quotas))?;
            }
            return Ok(());
        }
        let text = match &finished.answer.response {
            Err(error) => failure(error),
            Ok(_) if !self.print_response => return Ok(()),
            Ok(response) if self.format == CallFormat::Table => table(response, &self.quotas, io),
            Ok(response) => plain(response),
        };
        io.out.write_all(text.as_bytes())?;
        match &finished.answer.explanation {
            Some(Ok(found)) => io.out.write_all(explanation::text(found, io).as_bytes())?,
            Some(Err(error)) => {
                writeln!(io.err, "no explanation: {} ({})", rpc_code_name(error.code), error.message)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Ends the output with the summary.
    pub(super) fn end(&mut self, io: &mut Io, summary: &Summary) -> Result<(), Stop> {
        self.documents.end(io, self.summarize.then(|| summary.json()))?;
        if self.summarize && !self.documents.is_active() {
            io.err.write_all(summary.text().as_bytes())?;
        }
        Ok(())
    }
}

/// `Check RPC failed with: Unavailable (…)`.
fn failure(error: &RpcError) -> String {
    let code = rpc_code_name(error.code);
    if error.message.is_empty() {
        return format!("Check RPC failed with: {code}\n");
    }
    format!("Check RPC failed with: {code} ({})\n", error.message)
}

fn status(precondition: Option<&PreconditionResult>) -> (i32, String) {
    let status = precondition.and_then(|p| p.status.as_ref());
    status.map_or((0, String::new()), |s| (s.code, s.message.clone()))
}

/// The text of Istio mixc. Spec: cli-operations.md 1.9.
fn plain(response: &CheckResponse) -> String {
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let message = if message.is_empty() { String::new() } else { format!(" ({message})") };
    let uses = precondition.map_or(0, |p| p.valid_use_count);
    let duration = from_wire(precondition.and_then(|p| p.valid_duration));
    let mut text = format!(
        "Check RPC completed successfully. Check status was {}{message}\n  Valid use count: {uses}, valid duration: {duration}\n  Referenced Attributes\n",
        status_code_name(code)
    );
    let mut lines: Vec<String> =
        references(precondition).iter().map(|r| format!("{} {}", r.title(), r.condition)).collect();
    lines.sort();
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
    text.push('\n');
    if !response.quotas.is_empty() {
        text.push_str(&quota_table(response));
    }
    text
}

fn quota_table(response: &CheckResponse) -> String {
    let mut rows = vec![["Quota".to_owned(), "Granted Amount".to_owned(), "Duration".to_owned()]];
    for (name, result) in &response.quotas {
        let duration = from_wire(result.valid_duration).to_string();
        rows.push([name.clone(), result.granted_amount.to_string(), duration]);
    }
    let width = |column: fn(&[String; 3]) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0) + 2
    };
    let (first, second) = (width(|[name, ..]| name), width(|[_, amount, _]| amount));
    let mut text = String::new();
    for [name, amount, duration] in &rows {
        let _ = writeln!(text, "  {name:<first$}{amount:<second$}{duration}");
    }
    text.push('\n');
    text
}

/// A referenced attribute or map key.
struct ReferencedAttribute {
    name: String,
    map_key: Option<String>,
    condition: &'static str,
    regex: String,
}

impl ReferencedAttribute {
    fn title(&self) -> String {
        match &self.map_key {
            Some(key) => format!("{}::{key}", self.name),
            None => self.name.clone(),
        }
    }
}

fn references(precondition: Option<&PreconditionResult>) -> Vec<ReferencedAttribute> {
    let Some(referenced) = precondition.and_then(|p| p.referenced_attributes.as_ref()) else {
        return Vec::new();
    };
    referenced
        .attribute_matches
        .iter()
        .map(|found| ReferencedAttribute {
            name: word(referenced, found.name),
            map_key: (found.map_key != 0).then(|| word(referenced, found.map_key)),
            condition: match Condition::try_from(found.condition) {
                Ok(Condition::Absence) => "ABSENCE",
                Ok(Condition::Exact) => "EXACT",
                Ok(Condition::Regex) => "REGEX",
                _ => "CONDITION_UNSPECIFIED",
            },
            regex: found.regex.clone(),
        })
        .collect()
}

/// The word of an index: negative indices are words of the message, others of the global dictionary.
fn word(referenced: &ReferencedAttributes, index: i32) -> String {
    let found = if index < 0 {
        let position = usize::try_from(i64::from(index).unsigned_abs() - 1).ok();
        position.and_then(|p| referenced.words.get(p)).map(|w| String::from_utf8_lossy(w).into_owned())
    } else {
        usize::try_from(index).ok().and_then(|i| GLOBAL_WORDS.get(i)).map(|w| (*w).to_owned())
    };
    found.unwrap_or_else(|| format!("<word {index}>"))
}

/// The result as tables.
fn table(response: &CheckResponse, asked: &Quotas, io: &Io) -> String {
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let style = if code == 0 { Style::Good } else { Style::Error };
    let mut text = io.paint(style, &status_code_name(code));
    if !message.is_empty() {
        let _ = write!(text, "  {message}");
    }
    let duration = output::long_duration(from_wire(precondition.and_then(|p| p.valid_duration)));
    let uses = precondition.map_or(0, |p| p.valid_use_count);
    let _ = writeln!(text, "\nvalid for {duration} or {uses} uses\n");
    let mut rows: Vec<Vec<String>> =
        references(precondition).iter().map(|r| vec![r.title(), r.condition.to_owned()]).collect();
    rows.sort();
    text.push_str(&output::table(&["ATTRIBUTE", "CONDITION"], &rows, io.width));
    if !response.quotas.is_empty() {
        let rows: Vec<Vec<String>> = response
            .quotas
            .iter()
            .map(|(name, result)| {
                let requested = asked.get(name).map(ToString::to_string).unwrap_or_default();
                let duration = output::long_duration(from_wire(result.valid_duration));
                vec![name.clone(), requested, result.granted_amount.to_string(), duration]
            })
            .collect();
        text.push('\n');
        text.push_str(&output::table(&["QUOTA", "REQUESTED", "GRANTED", "DURATION"], &rows, io.width));
    }
    text.push_str(&header_table(precondition, io));
    text.push('\n');
    text
}

fn header_table(precondition: Option<&PreconditionResult>, io: &Io) -> String {
    let Some(directive) = precondition.and_then(|p| p.route_directive.as_ref()) else { return String::new() };
    let mut text = String::from("\n");
    if directive.direct_response_code != 0 {
        let _ = writeln!(text, "direct response {}", directive.direct_response_code);
    }
    let row = |side: &str, o: &HeaderOperation| {
        vec![side.to_owned(), operation(o).to_owned(), o.name.clone(), o.value.clone()]
    };
    let mut rows: Vec<Vec<String>> =
        directive.request_header_operations.iter().map(|o| row("request", o)).collect();
    rows.extend(directive.response_header_operations.iter().map(|o| row("response", o)));
    if !rows.is_empty() {
        text.push_str(&output::table(&["SIDE", "OPERATION", "HEADER", "VALUE"], &rows, io.width));
    }
    text
}

fn operation(operation: &HeaderOperation) -> &'static str {
    match Operation::try_from(operation.operation) {
        Ok(Operation::Remove) => "REMOVE",
        Ok(Operation::Append) => "APPEND",
        _ => "REPLACE",
    }
}

/// Spec: cli-operations.md 9.3, "check JSON".
fn document(finished: &FinishedCall<CheckAnswer>, asked: &Quotas) -> Value {
    let latency = seconds_text(finished.latency);
    let response = match &finished.answer.response {
        Ok(response) => response,
        Err(error) => {
            return json!({
                "apiVersion": "mixer/v1",
                "kind": "CheckResult",
                "rpc": {"code": error.code, "name": rpc_code_name(error.code), "message": error.message, "latency": latency},
            });
        }
    };
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let mut references = references(precondition);
    references.sort_by_key(ReferencedAttribute::title);
    let mut document = json!({
        "apiVersion": "mixer/v1",
        "kind": "CheckResult",
        "status": {"code": code, "name": status_code_name(code), "message": message},
        "validUseCount": precondition.map_or(0, |p| p.valid_use_count),
        "validDuration": from_wire(precondition.and_then(|p| p.valid_duration)).to_string(),
        "referencedAttributes": references.iter().map(|r| json!({
            "name": r.name,
            "mapKey": r.map_key,
            "condition": r.condition,
            "regex": (!r.regex.is_empty()).then_some(&r.regex),
        })).collect::<Vec<_>>(),
        "quotas": response.quotas.iter().map(|(name, result)| json!({
            "name": name,
            "requested": asked.get(name),
            "granted": result.granted_amount,
            "duration": from_wire(result.valid_duration).to_string(),
        })).collect::<Vec<_>>(),
    });
    if let Some(members) = document.as_object_mut() {
        if let Some(directive) = precondition.and_then(|p| p.route_directive.as_ref()) {
            let operations = |list: &[HeaderOperation]| -> Vec<Value> {
                list.iter()
                    .map(|o| json!({"operation": operation(o), "name": o.name, "value": o.value}))
                    .collect()
            };
            let directive = json!({
                "requestHeaderOperations": operations(&directive.request_header_operations),
                "responseHeaderOperations": operations(&directive.response_header_operations),
                "directResponseCode": directive.direct_response_code,
                "directResponseBody": directive.direct_response_body,
            });
            members.insert("routeDirective".to_owned(), directive);
        }
        members.insert("rpc".to_owned(), json!({"code": 0, "latency": latency}));
        if let Some(Ok(found)) = &finished.answer.explanation {
            members.insert("explanation".to_owned(), json!(found));
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_wire::google::rpc::Status;
    use mixer_wire::istio::mixer::v1::check_response::QuotaResult;
    use mixer_wire::istio::mixer::v1::referenced_attributes::AttributeMatch;
    use prost_types::Duration;

    fn response() -> CheckResponse {
        let found = |name, map_key, condition: Condition| AttributeMatch {
            name,
            map_key,
            condition: condition.into(),
            regex: String::new(),
        };
        let seconds = |seconds| Some(Duration { seconds, nanos: 0 });
        let grant = |granted_amount, valid_duration| QuotaResult {
            granted_amount,
            valid_duration,
            ..QuotaResult::default()
        };
        CheckResponse {
            precondition: Some(PreconditionResult {
                status: Some(Status { code: 7, message: "closed".to_owned(), details: Vec::new() }),
                valid_duration: seconds(5),
                valid_use_count: 1000,
                referenced_attributes: Some(ReferencedAttributes {
                    words: [&b"source.user"[..], b"request.headers", b"clnt"]
                        .map(bytes::Bytes::from)
                        .to_vec(),
                    attribute_matches: vec![
                        found(-1, 0, Condition::Exact),
                        found(-2, -3, Condition::Absence),
                        found(6, 0, Condition::Regex),
                        found(-9, 0, Condition::Unspecified),
                    ],
                }),
                route_directive: None,
            }),
            quotas: [
                ("berths".to_owned(), grant(3, seconds(600))),
                ("a-long-quota-name".to_owned(), grant(12, seconds(60))),
            ]
            .into(),
        }
    }

    #[test]
    fn plain_text_is_that_of_istio_mixc() {
        assert_eq!(
            plain(&response()),
            "Check RPC completed successfully. Check status was PERMISSION_DENIED (closed)
  Valid use count: 1000, valid duration: 5s
  Referenced Attributes
    <word -9> CONDITION_UNSPECIFIED
    request.headers::clnt ABSENCE
    source.user EXACT
    source.user REGEX

  Quota              Granted Amount  Duration
  a-long-quota-name  12              1m0s
  berths             3               10m0s

"
        );
    }

    #[test]
    fn failures_have_code_and_message() {
        let failed = |code, message: &str| failure(&RpcError { code, message: message.to_owned() });
        assert_eq!(failed(14, "busy"), "Check RPC failed with: Unavailable (busy)\n");
        assert_eq!(failed(4, ""), "Check RPC failed with: DeadlineExceeded\n");
        assert_eq!(failed(99, ""), "Check RPC failed with: Code(99)\n");
    }

    #[test]
    fn documents_are_complete() {
        let finished = FinishedCall {
            answer: CheckAnswer { response: Ok(response()), explanation: None },
            exit: crate::cmd::exit::Exit::Negative,
            latency: std::time::Duration::from_micros(3100),
        };
        let document = document(&finished, &[("berths".to_owned(), 9)].into());
        assert_eq!(document["status"]["name"], "PERMISSION_DENIED");
        assert_eq!(
            document["quotas"][1],
            json!({"name": "berths", "requested": 9, "granted": 3, "duration": "10m0s"})
        );
        assert_eq!(document["referencedAttributes"][1]["mapKey"], "clnt");
        assert_eq!(document["rpc"]["latency"], "0.0031s");
    }
}
