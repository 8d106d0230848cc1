//! `check`: checks a request and allocates quotas.

mod document;
mod explanation;
mod render;
mod response;
mod result;
mod text;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use render::CheckRenderer;
use response::{references, refused_quotas, status};
use result::CheckResult;

use super::attributes::{AttributeValue, Quotas, encode, parse_quotas};
use super::call::{CallFlags, CallWorker, Client, CommandSpan, FinishedCall, Progress, drive};
use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome};
use super::flags::{Lost, joined, tell_lost};
use super::io::Io;
use super::personality::Personality;
use super::value;
use mixer_policy::names_namespace;
use mixer_wire::istio::mixer::v1::check_request::QuotaParams;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse};

/// The id of the flag of quotas.
pub(super) const QUOTAS: &str = "quotas";

/// Flags of `check`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    call: CallFlags,
    /// Quotas to allocate: name1=amount1,name2=amount2,….
    ///
    /// If nothing of one is granted, the exit status is that of a denied check.
    #[arg(
        short = 'q', long, action = clap::ArgAction::Set, default_value = "", hide_default_value = true, value_name = "LIST"
    )]
    quotas: Vec<String>,
    /// Exit with status 1 unless every quota is granted in full.
    #[arg(long)]
    require_quota: bool,
    /// Explain the result: rules considered, value of each condition, near misses, results of handlers.
    ///
    /// Servers explain checks to clients on their own machine only.
    #[arg(long)]
    explain: bool,
    /// Page of the rules of --explain: each lists 50 more of those that did not match. Implies --explain.
    #[arg(long, value_parser = value::uint, value_name = "PAGE")]
    explain_page: Option<u64>,
}

/// Flags that have no effect beside others.
const IDLE: &[Lost<CheckArgs>] = &[
    Lost::idle(
        &["require-quota"],
        |args| joined(&args.quotas).is_empty(),
        "no quota is asked for: --quotas names them",
    ),
    Lost::idle(&["report-batch-size"], |_| true, "it is for `mixer report`"),
];

/// Runs the checks and prints the results.
pub(crate) fn run(args: &CheckArgs, personality: Personality, io: &mut Io) -> Outcome {
    let flags = &args.call;
    let asked = joined(&args.quotas);
    let quotas = parse_quotas(&asked).map_err(|text| {
        let hint = "the format is name=amount,name=amount; amounts are whole numbers";
        Failure::usage("invalid amounts of quota").cause(go_free(&text)).legacy(text).hint(hint)
    })?;
    let nothing = quotas.iter().find(|(_, amount)| **amount <= 0).filter(|_| !personality.is_legacy());
    if let Some((name, amount)) = nothing {
        io.warn(&format!("{amount} of the quota `{name}` is nothing: ask for 1 or more"))?;
    }
    flags.tell_lost(personality, io)?;
    if !personality.is_legacy() {
        tell_lost(IDLE, &flags.given, args, io)?;
        if asked.split(',').count() > quotas.len().max(1) {
            io.warn("a quota is given several times: the last amount counts")?;
        }
    }
    let attributes = flags.attributes.parse(&mut io.input)?;
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
    let mut renderer = CheckRenderer::new(flags, personality, quotas.clone(), calls, io);
    let (summary, unserved) = block_on(async {
        let span = flags.begin_span("mixc Check")?;
        let mut client = Client::open(flags, span.as_ref().map(CommandSpan::calls), personality, io).await?;
        // Istio's client does not warn.
        let may_warn = !personality.is_legacy() || !client.is_remote();
        if may_warn && !flags.result.quiet {
            for remark in client.remarks(&attributes, quotas.keys().map(String::as_str), personality) {
                io.warn(&remark)?;
            }
            let text = |name: &str| {
                let (_, value) = attributes.iter().find(|(known, _)| *known == name)?;
                if let AttributeValue::String(text) = value { Some(text.clone()) } else { None }
            };
            if let Some(envoy) = client.without_namespace()
                && !names_namespace(text)
            {
                let answer = "the answer is that of the Mixer API, by the rules of the mesh";
                io.warn(&format!(
                    "the request names no namespace: a call of Envoy without one {envoy}; {answer}"
                ))?;
            }
        }
        let worker = Checker {
            client: client.clone(),
            request: request.clone(),
            ids: Rc::new(DeduplicationIds::new()),
            left: flags.load.repeat.max(0),
            quotas: quotas.clone(),
            require_all: args.require_quota,
            explain: args.explain_page.or(args.explain.then_some(1)),
        };
        let workers = vec![worker; usize::try_from(flags.load.concurrency).unwrap_or(0)];
        let unserved = client.unserved();
        if unserved.as_ref().is_some_and(|unserved| flags.refuses(personality, unserved.why)) {
            renderer.mark_unserved();
        }
        renderer.begin(io)?;
        // An answer does not tell which attributes its quotas depend on.
        let tells_all = may_warn && !flags.result.quiet && quotas.is_empty();
        let mut unusual = if tells_all { client.unusual(&attributes) } else { Vec::new() };
        let show = |io: &mut Io, finished: FinishedCall<CheckResult>| {
            renderer.answer(io, &finished)?;
            // A server declares what its answer depends on.
            let response = finished.answer.response.as_ref().ok();
            let read = references(response.and_then(|response| response.precondition.as_ref()));
            for (name, remark) in std::mem::take(&mut unusual) {
                if !read.iter().any(|reference| reference.name == name) {
                    io.warn(&remark)?;
                }
            }
            Ok(())
        };
        let summary = drive(workers, flags.load.rate, progress, io, show).await?;
        // Only of a server that answers, and once: it may serve others.
        let has_answered = matches!(summary.worst(), Exit::Success | Exit::Negative);
        if !personality.is_legacy() && !flags.result.quiet && !quotas.is_empty() && has_answered {
            for unallocated in client.unallocated_quotas(request).await {
                io.warn(&unallocated)?;
            }
        }
        client.close().await;
        if let Some(span) = span {
            span.end().await;
        }
        Ok((summary, unserved))
    })?;
    renderer.end(io, &summary)?;
    flags.outcome(personality, summary.worst(), unserved.as_ref(), io)
}

/// The text of Istio mixc without what it says of Go.
fn go_free(text: &str) -> &str {
    text.split_once(": strconv.").map_or(text, |(text, _)| text)
}

fn params(amount: i64) -> QuotaParams {
    QuotaParams { amount, best_effort: true }
}

/// Unique deduplication ids, seeded with the current time so that they differ between processes.
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

/// A worker of `check`.
#[derive(Debug, Clone)]
struct Checker {
    client: Client,
    request: CheckRequest,
    ids: Rc<DeduplicationIds>,
    left: i64,
    /// What is asked for.
    quotas: Quotas,
    /// Whether it must be granted in full.
    require_all: bool,
    /// The page of the explanation, from 1; `None` without one.
    explain: Option<u64>,
}

impl CallWorker for Checker {
    type Answer = CheckResult;

    fn has_more(&self) -> bool {
        self.left > 0
    }

    async fn next(&mut self) -> (Self::Answer, Exit) {
        self.left -= 1;
        let request = CheckRequest { deduplication_id: self.ids.next(), ..self.request.clone() };
        let explanation = match self.explain {
            Some(page) => Some(self.client.explain(request.clone(), page).await),
            None => None,
        };
        let response = self.client.check(request).await;
        let exit = match &response {
            Err(error) if error.code == i32::from(tonic::Code::DeadlineExceeded) => Exit::Deadline,
            Err(_) => Exit::Rpc,
            Ok(response) => exit_status(response, &self.quotas, self.require_all),
        };
        (CheckResult { response, explanation }, exit)
    }
}

/// Success if the status is OK and something of every quota is granted, or everything if that is required.
fn exit_status(response: &CheckResponse, quotas: &Quotas, require_all: bool) -> Exit {
    let (code, _) = status(response.precondition.as_ref());
    let granted = |name: &String| response.quotas.get(name).map_or(0, |result| result.granted_amount);
    let is_short = require_all && quotas.iter().any(|(name, amount)| granted(name) < *amount);
    let is_refused = !refused_quotas(response, quotas).is_empty();
    if code != 0 || is_short || is_refused { Exit::Negative } else { Exit::Success }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_wire::istio::mixer::v1::check_response::QuotaResult;

    #[test]
    fn quotas_are_negative_without_a_grant_and_with_a_partial_one_if_all_is_required() {
        let result = QuotaResult { granted_amount: 2, ..QuotaResult::default() };
        let response =
            CheckResponse { quotas: [("a".to_owned(), result)].into(), ..CheckResponse::default() };
        let requested = |amount| Quotas::from([("a".to_owned(), amount)]);
        for (response, asked, require_all, expected) in [
            (&response, Quotas::new(), true, Exit::Success),
            (&response, requested(2), true, Exit::Success),
            (&response, requested(3), true, Exit::Negative),
            (&response, requested(3), false, Exit::Success),
            (&CheckResponse::default(), requested(1), true, Exit::Negative),
            (&CheckResponse::default(), requested(1), false, Exit::Negative),
            (&CheckResponse::default(), requested(0), false, Exit::Success),
        ] {
            assert_eq!(exit_status(response, &asked, require_all), expected, "{asked:?} {require_all}");
        }
    }

    #[test]
    fn deduplication_ids_differ() {
        let ids = DeduplicationIds::new();
        assert_ne!(ids.next(), ids.next());
    }
}
