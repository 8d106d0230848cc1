//! `report`: reports served requests.

use serde_json::json;

use super::attributes::encode;
use super::call::{
    CallFlags, CallWorker, Client, CommandSpan, DocumentWriter, FinishedCall, Progress, RpcError, drive,
};
use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::{ErrorFormat, Io};
use super::personality::Personality;
use super::usage::failure_text;
use mixer_wire::istio::mixer::v1::CompressedAttributes;
use mixer_wire::istio::mixer::v1::ReportRequest;

/// Flags of `report`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    call: CallFlags,
}

/// Sends the reports and prints the results.
pub(crate) fn run(args: &ReportArgs, personality: Personality, io: &mut Io) -> Outcome {
    let flags = &args.call;
    flags.tell_lost(personality, io)?;
    let attributes = flags.attributes.parse(&mut io.input)?;
    flags.check()?;
    if flags.load.report_batch_size < 1 {
        return Err(Failure::usage("report batch size has to be at least 1")
            .hint("for example --report-batch-size 10")
            .into());
    }
    let sets = flags.load.repeat.max(0);
    let calls =
        flags.calls(sets.saturating_add(flags.load.report_batch_size - 1) / flags.load.report_batch_size);
    let progress = Progress::new(calls, !personality.is_legacy() && !flags.result.quiet, io);
    let summarize = flags.calls(sets) > 1 && !personality.is_legacy() && !flags.result.quiet;
    let mut documents = DocumentWriter::new(flags.format(personality, io), "ReportResultList", calls != 1);
    let print = flags.result.print_response;
    let (summary, unserved) = block_on(async {
        let span = flags.begin_span("mixc Report")?;
        let client = Client::open(flags, span.as_ref().map(CommandSpan::calls), personality, io).await?;
        // Istio's client does not warn.
        let may_warn = !personality.is_legacy() || !client.is_remote();
        if may_warn && !flags.result.quiet {
            let unusual = client.unusual(&attributes).into_iter().map(|(_, remark)| remark);
            for remark in unusual.chain(client.remarks(&attributes, std::iter::empty(), personality)) {
                io.warn(&remark)?;
            }
        }
        let dictionary = flags.attributes.dictionary;
        let names = attributes.iter().map(|(name, _)| name.as_bytes().to_vec().into()).collect();
        let worker = Reporter {
            client: client.clone(),
            set: encode(&attributes, dictionary),
            request: ReportRequest {
                default_words: names,
                global_word_count: dictionary.word_count(),
                ..ReportRequest::default()
            },
            batch: flags.load.report_batch_size,
            left: sets,
        };
        let workers = vec![worker; usize::try_from(flags.load.concurrency).unwrap_or(0)];
        let unserved = client.unserved();
        if unserved.as_ref().is_some_and(|unserved| flags.refuses(personality, unserved.why)) {
            documents.mark_unserved();
        }
        documents.begin(io)?;
        let summary = drive(workers, flags.load.rate, progress, io, |io, finished| {
            let manner = (flags.result.hides_results(), personality.is_legacy());
            if print { show(io, &mut documents, &finished, manner) } else { Ok(()) }
        })
        .await?;
        client.close().await;
        if let Some(span) = span {
            span.end().await;
        }
        Ok((summary, unserved))
    })?;
    documents.end(io, summarize.then(|| summary.json()))?;
    if summarize && !documents.is_active() {
        summary.write(io)?;
    }
    flags.outcome(personality, summary.worst(), unserved.as_ref(), io)
}

fn show(
    io: &mut Io,
    documents: &mut DocumentWriter,
    finished: &FinishedCall<Reported>,
    (is_silent, as_mixc): (bool, bool),
) -> Result<(), Stop> {
    let ok = RpcError::new(0, "");
    let Reported { records, answer } = &finished.answer;
    let rpc = answer.as_ref().err().unwrap_or(&ok);
    if documents.is_active() {
        let taken = if answer.is_ok() { *records } else { 0 };
        return documents.add(
            io,
            &json!({
                "apiVersion": "mixer/v1",
                "kind": "ReportResult",
                "records": {"sent": records, "taken": taken},
                "rpc": rpc.document(finished.latency),
            }),
        );
    }
    if let (Err(error), ErrorFormat::Json) = (answer, io.error_format) {
        io.err.write_all(failure_text(&error.failure("Report"), ErrorFormat::Json).as_bytes())?;
        return Ok(());
    }
    let text = rpc.text(as_mixc);
    match (is_silent, rpc.code) {
        (false, _) => writeln!(io.out, "Report RPC returned {text}")?,
        (true, 0) => {}
        (true, _) => writeln!(io.err, "Report RPC returned {text}")?,
    }
    Ok(())
}

/// A report that was sent.
#[derive(Debug)]
struct Reported {
    /// The sets of attributes in it.
    records: u64,
    answer: Result<(), RpcError>,
}

/// A worker of `report`.
#[derive(Debug, Clone)]
struct Reporter {
    client: Client,
    set: CompressedAttributes,
    request: ReportRequest,
    batch: i64,
    left: i64,
}

impl CallWorker for Reporter {
    type Answer = Reported;

    fn has_more(&self) -> bool {
        self.left > 0
    }

    async fn next(&mut self) -> (Self::Answer, Exit) {
        let size = self.left.min(self.batch);
        self.left -= size;
        let attributes = vec![self.set.clone(); usize::try_from(size).unwrap_or(0)];
        let answer = self.client.report(ReportRequest { attributes, ..self.request.clone() }).await;
        let exit = match &answer {
            Ok(()) => Exit::Success,
            Err(error) if error.code == i32::from(tonic::Code::DeadlineExceeded) => Exit::Deadline,
            Err(_) => Exit::Rpc,
        };
        (Reported { records: u64::try_from(size).unwrap_or(0), answer }, exit)
    }

    fn records(answer: &Reported) -> Option<u64> {
        Some(answer.records)
    }
}
