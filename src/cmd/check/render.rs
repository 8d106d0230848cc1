//! Prints the results of `check`.

use super::document::document;
use super::explanation;
use super::response::refusal;
use super::result::CheckResult;
use super::text::{plain, table};
use crate::cmd::attributes::Quotas;
use crate::cmd::call::{
    CallFlags, CallFormat, DocumentWriter, FinishedCall, RpcError, Summary, rpc_code_name,
};
use crate::cmd::exit::Stop;
use crate::cmd::io::{ErrorFormat, Io};
use crate::cmd::output::escaped;
use crate::cmd::personality::Personality;
use crate::cmd::usage::failure_text;

/// Prints results in one format.
pub(super) struct CheckRenderer {
    format: CallFormat,
    print_response: bool,
    is_silent: bool,
    as_mixc: bool,
    summarize: bool,
    quotas: Quotas,
    documents: DocumentWriter,
}

impl CheckRenderer {
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
            is_silent: flags.result.hides_results(),
            as_mixc: personality.is_legacy(),
            summarize: calls > 1 && !personality.is_legacy() && !flags.result.quiet,
            quotas,
            documents: DocumentWriter::new(format, "CheckResultList", calls != 1),
        }
    }

    /// Documents say that no server answers so.
    pub(super) fn mark_unserved(&mut self) {
        self.documents.mark_unserved();
    }

    /// Begins the output.
    pub(super) fn begin(&mut self, io: &mut Io) -> Result<(), Stop> {
        self.documents.begin(io)
    }

    /// Prints a result; the results of concurrent workers do not interleave.
    pub(super) fn answer(&mut self, io: &mut Io, finished: &FinishedCall<CheckResult>) -> Result<(), Stop> {
        if self.documents.is_active() {
            if self.print_response || finished.answer.response.is_err() {
                self.documents.add(io, &document(finished, &self.quotas))?;
            }
            return Ok(());
        }
        let text = match &finished.answer.response {
            Err(error) if io.error_format == ErrorFormat::Json => {
                io.err.write_all(failure_text(&error.failure("Check"), ErrorFormat::Json).as_bytes())?;
                return Ok(());
            }
            Err(error) if self.is_silent => {
                io.err.write_all(failure(error, self.as_mixc).as_bytes())?;
                return Ok(());
            }
            Ok(_) if self.is_silent => return Ok(()),
            Err(error) => failure(error, self.as_mixc),
            Ok(_) if !self.print_response => return Ok(()),
            Ok(response) if self.format == CallFormat::Table => table(response, &self.quotas, io),
            Ok(response) => match refusal(response, &self.quotas).filter(|_| !self.as_mixc) {
                Some(refusal) => format!("{}  But {}\n\n", plain(response), escaped(&refusal)),
                None => plain(response),
            },
        };
        io.out.write_all(text.as_bytes())?;
        match &finished.answer.explanation {
            Some(Ok(found)) => io.out.write_all(explanation::text(found, io).as_bytes())?,
            Some(Err(error)) => {
                let why = format!("no explanation: {} ({})", rpc_code_name(error.code), error.why());
                match io.error_format {
                    ErrorFormat::Text => writeln!(io.err, "{why}")?,
                    ErrorFormat::Json => io.warn(&why)?,
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Ends the output with the summary.
    pub(super) fn end(&mut self, io: &mut Io, summary: &Summary) -> Result<(), Stop> {
        self.documents.end(io, self.summarize.then(|| summary.json()))?;
        if self.summarize && !self.documents.is_active() {
            summary.write(io)?;
        }
        Ok(())
    }
}

/// `Check RPC failed with: Unavailable (…)`.
fn failure(error: &RpcError, as_mixc: bool) -> String {
    format!("Check RPC failed with: {}\n", error.text(as_mixc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_wire::google::rpc::Status;
    use mixer_wire::istio::mixer::v1::check_response::PreconditionResult;
    use mixer_wire::istio::mixer::v1::check_response::QuotaResult;
    use mixer_wire::istio::mixer::v1::referenced_attributes::AttributeMatch;
    use mixer_wire::istio::mixer::v1::referenced_attributes::Condition;
    use mixer_wire::istio::mixer::v1::{CheckResponse, ReferencedAttributes};
    use prost_types::Duration;
    use serde_json::json;

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
        let failed = |code, message: &str| failure(&RpcError::new(code, message), true);
        assert_eq!(failed(14, "busy"), "Check RPC failed with: Unavailable (busy)\n");
        assert_eq!(failed(4, ""), "Check RPC failed with: DeadlineExceeded\n");
        assert_eq!(failed(99, ""), "Check RPC failed with: Code(99)\n");
    }

    #[test]
    fn documents_are_complete() {
        let finished = FinishedCall {
            answer: CheckResult { response: Ok(response()), explanation: None },
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
