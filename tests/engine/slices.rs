//! The work of a long report between two points at which its worker serves other calls: counted, not timed.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use mixer_api::worker::WORK_PER_TURN;
use mixer_api::{CallInfo, MixerService};
use mixer_attribute::OwnedAttributes;
use mixer_attribute::request::{ReportWords, Semantics, encode_report_request};
use mixer_engine::dispatch::{DispatchTrace, TracedPhase};

use crate::fixture::serve;

const BASE: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}, s2: {valueType: STRING}, absent: {valueType: STRING}}}
---
kind: handler
metadata: {name: nowhere, namespace: istio-system}
spec: {compiledAdapter: noop}
"#;

/// Dimensions of a metric, with its value: the leaves of an instance.
const LEAVES: usize = 11;

/// Rules whose conditions hold, or fail, each with a metric of its own.
fn rules(count: usize, condition: &str) -> String {
    let mut text = BASE.to_owned();
    for number in 0..count {
        let dimensions: Vec<String> = (1..LEAVES).map(|at| format!("d{at}: 's1 | \"v{number}\"'")).collect();
        let condition = condition.replace('#', &number.to_string());
        write!(
            text,
            "---\nkind: instance\nmetadata: {{name: m{number}, namespace: istio-system}}\n\
             spec: {{compiledTemplate: metric, params: {{value: '1', dimensions: {{{}}}}}}}\n\
             ---\nkind: rule\nmetadata: {{name: r{number}, namespace: istio-system}}\n\
             spec: {{match: '{condition}', actions: [{{handler: nowhere, instances: [m{number}]}}]}}\n",
            dimensions.join(", ")
        )
        .unwrap();
    }
    text
}

fn report(records: usize, semantics: Semantics) -> Bytes {
    let record = |number: usize| {
        let (user, path) = (format!("user {number}"), format!("path {number}"));
        OwnedAttributes::from_iter([("s1", &*user), ("s2", &*path)])
    };
    let records: Vec<OwnedAttributes> = (0..records).map(record).collect();
    encode_report_request(&records, 0, ReportWords::Own, semantics).into()
}

/// What a call did so far: records, instances, deliveries.
fn done(trace: &RefCell<DispatchTrace>) -> [usize; 3] {
    let trace = trace.borrow();
    let delivered = trace.steps.iter().filter(|step| matches!(step.phase, TracedPhase::Deliver { .. }));
    [trace.record, trace.dispatches.len(), delivered.count()]
}

#[test]
fn the_work_between_two_yields_is_bounded() {
    // (rules, their condition, records): none or all of the rules apply to a record.
    for (count, condition, records) in [
        (1, "s1 != \"\"", 2000),
        (64, "s1 != \"\"", 300),
        (700, "s1.startsWith(\"user\") && s2 != \"v#\"", 12),
        (3000, "match(absent, \"*v#\")", 100),
    ] {
        for semantics in [Semantics::Delta, Semantics::Independent] {
            let (_background, runtime, metrics) = serve(&rules(count, condition), None);
            let service = MixerService::new(runtime, Arc::clone(&metrics), Arc::default(), None);
            let failures = || {
                let mut page = Vec::new();
                metrics.write(&mut page);
                let page = String::from_utf8(page).unwrap();
                let sample =
                    page.lines().find_map(|line| line.strip_prefix("mixer_runtime_condition_errors_total "));
                sample.map_or(0, |count| count.parse::<f64>().unwrap() as usize)
            };
            let applied = if condition.contains("absent") { 0 } else { count };
            // Several reports on one worker: together they have one turn.
            let traces: Vec<RefCell<DispatchTrace>> =
                (0..3).map(|_| RefCell::new(DispatchTrace::full())).collect();
            let mut calls: Vec<_> = traces
                .iter()
                .map(|trace| {
                    Some(Box::pin(service.report_traced(
                        report(records, semantics),
                        CallInfo::default(),
                        Some(trace),
                    )))
                })
                .collect();
            let (mut before, mut failed, mut rounds) = ([[0; 3]; 3], 0, 0);
            while calls.iter().any(Option::is_some) {
                rounds += 1;
                let mut work = 0;
                for call in &mut calls {
                    let polled =
                        call.as_mut().map(|c| c.as_mut().poll(&mut Context::from_waker(Waker::noop())));
                    if let Some(Poll::Ready(answer)) = polled {
                        answer.unwrap();
                        *call = None;
                    }
                }
                for (trace, before) in traces.iter().zip(&mut before) {
                    let after = done(trace);
                    let [records, instances, deliveries] = [0, 1, 2].map(|at| after[at] - before[at]);
                    work += records + instances * (1 + LEAVES);
                    // One of half a turn, and the last one of a slice.
                    assert!(deliveries <= 2, "{deliveries} deliveries in one turn");
                    *before = after;
                }
                let now = failures();
                work += now - failed;
                failed = now;
                // A record is not interrupted; the first report of a worker does not know yet what a record takes.
                let most = WORK_PER_TURN + count * (2 + LEAVES);
                let most = if rounds == 1 { 3 * most } else { most };
                assert!(work <= most, "{count} rules, round {rounds}: {work} of {most}");
            }
            for trace in &traces {
                let [all, instances, deliveries] = done(trace);
                assert_eq!((all, instances), (records, records * applied));
                let of_one = WORK_PER_TURN / 2 + applied * (1 + LEAVES);
                assert!(deliveries >= (instances * (1 + LEAVES)).div_ceil(of_one), "{deliveries} deliveries");
            }
            assert!(failed == 0 || failed == 3 * records * count, "{failed} failures");
            let least = 3 * records * count * (1 + applied.min(1) * LEAVES) / (2 * WORK_PER_TURN);
            assert!(rounds >= least, "{rounds} rounds, at least {least}");
        }
    }
}

#[test]
fn a_long_message_is_decoded_in_steps() {
    let (_background, runtime, metrics) = serve(BASE, None);
    let service = MixerService::new(runtime, metrics, Arc::default(), None);
    let body = report(15_000, Semantics::Independent);
    let polls = |body: Bytes| {
        let mut call = pin!(service.report(body, None));
        let mut polls = 1;
        while call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            polls += 1;
        }
        polls
    };
    assert!(body.len() > 600_000, "{} bytes", body.len());
    let slices = 15_000 / 128;
    let counted = polls(body.clone());
    assert!(counted >= slices + body.len() / (64 << 10), "{counted} polls");
    assert_eq!(polls(report(100, Semantics::Delta)), 1, "an ordinary report is not interrupted");
}
