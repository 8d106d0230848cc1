//! `check`: asks whether a request may pass and how much of each quota is granted.

mod explanation;
mod render;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use render::Renderer;

use super::attributes::{Quotas, encode, read_quotas};
use super::call::{Call, CallFlags, Caller, CommandSpan, Progress, RpcError, drive, wait};
use super::{Exit, Failure, Io, Outcome, Personality};
use mixer_engine::explain::Explanation;
use mixer_wire::istio::mixer::v1::check_request::QuotaParams;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse};

/// Flags of `check`.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    call: CallFlags,
    /// Quotas to ask for: name1=amount1,name2=amount2,….
    #[arg(short = 'q', long, default_value = "", hide_default_value = true, value_name = "LIST")]
    quotas: String,
    /// End with status 1 unless every quota is granted in full.
    #[arg(long)]
    require_quota: bool,
    /// Tell why: which rules were considered, how far each condition went, near misses, and what every handler said.
    ///
    /// A server explains itself to callers on its own machine only.
    #[arg(long)]
    explain: bool,
}

/// Asks, prints and judges. Spec: cli-operations.md 1.6 to 1.9, 9.3.
pub(crate) fn run(args: &CheckArgs, personality: Personality, io: &mut Io) -> Outcome {
    let flags = &args.call;
    let quotas = read_quotas(&args.quotas)
        .map_err(|text| Failure::usage(text).hint("quotas are written name=amount,name=amount"))?;
    let attributes = flags.attributes.read(&mut io.input)?;
    flags.check()?;
    let dictionary = flags.attributes.dictionary;
    let request = CheckRequest {
        attributes: Some(encode(&attributes, dictionary)),
        global_word_count: dictionary.word_count(),
        deduplication_id: String::new(),
        quotas: quotas.iter().map(|(name, amount)| (name.clone(), params(*amount))).collect(),
    };
    let calls = flags.calls(flags.load.repeat);
    let progress = Progress::new(calls, !personality.is_legacy() && !flags.result.quiet, io);
    let mut renderer = Renderer::new(flags, personality, quotas.clone(), calls, io);
    let summary = wait(async {
        let span = flags.begin_span("mixc Check")?;
        let caller = Caller::open(flags, span.as_ref().map(CommandSpan::calls), io).await?;
        let worker = Checker {
            caller: caller.clone(),
            request,
            ids: Rc::new(DeduplicationIds::new()),
            left: flags.load.repeat.max(0),
            required: args.require_quota.then(|| quotas.clone()),
            explain: args.explain,
        };
        let workers = vec![worker; usize::try_from(flags.load.concurrency).unwrap_or(0)];
        renderer.begin(io)?;
        let show = |io: &mut Io, finished| renderer.answer(io, &finished);
        let summary = drive(workers, flags.load.rate, progress, io, show).await?;
        caller.close().await;
        if let Some(span) = span {
            span.end().await;
        }
        Ok(summary)
    })?;
    renderer.end(io, &summary)?;
    Ok(flags.exit(personality, summary.worst()))
}

fn params(amount: i64) -> QuotaParams {
    QuotaParams { amount, best_effort: true }
}

/// Ids that no other call of this or an earlier process has, as far as the clock can tell.
#[derive(Debug)]
struct DeduplicationIds {
    next: Cell<u64>,
}

impl DeduplicationIds {
    fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { next: Cell::new(u64::try_from(since.as_nanos()).unwrap_or(0)) }
    }

    fn next(&self) -> String {
        self.next.replace(self.next.get().wrapping_add(1)).to_string()
    }
}

/// What one call gives.
#[derive(Debug)]
struct Answer {
    response: Result<CheckResponse, RpcError>,
    /// If it was asked for.
    explanation: Option<Result<Explanation, RpcError>>,
}

/// One worker.
#[derive(Debug, Clone)]
struct Checker {
    caller: Caller,
    request: CheckRequest,
    ids: Rc<DeduplicationIds>,
    left: i64,
    required: Option<Quotas>,
    explain: bool,
}

impl Call for Checker {
    type Answer = Answer;

    fn more(&self) -> bool {
        self.left > 0
    }

    async fn next(&mut self) -> (Self::Answer, Exit) {
        self.left -= 1;
        let request = CheckRequest { deduplication_id: self.ids.next(), ..self.request.clone() };
        let explanation = match self.explain {
            true => Some(self.caller.explain(request.clone()).await),
            false => None,
        };
        let response = self.caller.check(request).await;
        let exit = match &response {
            Err(error) if error.code == i32::from(tonic::Code::DeadlineExceeded) => Exit::Deadline,
            Err(_) => Exit::Rpc,
            Ok(response) => judge(response, self.required.as_ref()),
        };
        (Answer { response, explanation }, exit)
    }
}

/// Whether an answer is a yes: status OK, and every required quota granted in full.
fn judge(response: &CheckResponse, required: Option<&Quotas>) -> Exit {
    let code = response.precondition.as_ref().and_then(|p| p.status.as_ref()).map_or(0, |s| s.code);
    let granted = |name: &String| response.quotas.get(name).map_or(0, |result| result.granted_amount);
    let short = required.is_some_and(|quotas| quotas.iter().any(|(name, amount)| granted(name) < *amount));
    if code != 0 || short { Exit::Negative } else { Exit::Success }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_wire::istio::mixer::v1::check_response::QuotaResult;

    #[test]
    fn a_quota_short_of_what_was_asked_is_a_no_only_if_required() {
        let result = QuotaResult { granted_amount: 2, ..QuotaResult::default() };
        let response =
            CheckResponse { quotas: [("a".to_owned(), result)].into(), ..CheckResponse::default() };
        let asked = |amount| Quotas::from([("a".to_owned(), amount)]);
        assert_eq!(judge(&response, None), Exit::Success);
        assert_eq!(judge(&response, Some(&asked(2))), Exit::Success);
        assert_eq!(judge(&response, Some(&asked(3))), Exit::Negative);
        assert_eq!(judge(&CheckResponse::default(), Some(&asked(1))), Exit::Negative);
    }

    #[test]
    fn deduplication_ids_differ() {
        let ids = DeduplicationIds::new();
        assert_ne!(ids.next(), ids.next());
    }
}
