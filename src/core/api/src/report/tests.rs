use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::worker::{Engine, MessageLimits};
use crate::{CallPool, MixerService};
use mixer_base::budget::Share;
use mixer_base::metrics::Metrics;
use mixer_base::pool::{Pool, PoolOptions};
use mixer_engine::adapter::Inventory;
use mixer_engine::dispatch::DispatchTrace;
use mixer_engine::handler::HandlerTable;
use mixer_engine::routing::RoutingTable;
use mixer_engine::runtime::Runtime;
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};

/// A worker that serves an empty configuration.
fn worker() -> Rc<MixerService> {
    let registry = Registry { adapters: Inventory::default(), extensions: &[] };
    let empty = SnapshotBuilder::new(SnapshotOptions::new(registry)).empty();
    let metrics = Arc::new(Metrics::new());
    let routes = RoutingTable::build(empty, HandlerTable::default(), &metrics);
    Rc::new(MixerService::over(Engine {
        runtime: Arc::new(Runtime::on(routes)),
        metrics,
        last_known: Arc::default(),
        shedder: None,
        observers: None,
        limits: MessageLimits::default(),
        waiting: Arc::new(Share::new(1 << 20)),
        as_istio_mixer: false,
    }))
}

/// A pool of one call.
fn pool_of_one(queue: usize) -> Arc<Pool> {
    Pool::new(PoolOptions { floor: 1, ceiling: 1, queue })
}

/// A report of empty records.
fn report(records: usize) -> Bytes {
    [0x0a, 0].repeat(records).into()
}

#[tokio::test(start_paused = true)]
async fn long_reports_do_not_wait_for_one_another_in_a_full_pool() {
    let (worker, pool) = (worker(), pool_of_one(10));
    let tasks = tokio::task::LocalSet::new();
    let reports: Vec<_> = (0..3)
        .map(|_| {
            let (worker, pool) = (Rc::clone(&worker), CallPool::new(Arc::clone(&pool)));
            tasks.spawn_local(
                async move { pool.run(pin!(Some(worker.report(report(400), None))), None).await },
            )
        })
        .collect();
    tokio::time::timeout(Duration::from_secs(1), tasks).await.expect("every report ends");
    for report in reports {
        assert_eq!(report.await.unwrap().unwrap(), EMPTY_MESSAGE[..]);
    }
    assert_eq!(pool.status().in_flight, 0);
}

#[tokio::test]
async fn overload_refuses_a_long_report_before_anything_is_delivered() {
    let (worker, pool) = (worker(), pool_of_one(0));
    let held = pool.enter().await.unwrap();
    let delivered = async |records| {
        let trace = RefCell::new(DispatchTrace::default());
        let call = worker.report_traced(report(records), CallInfo::default(), Some(&trace));
        let answer = CallPool::new(Arc::clone(&pool)).run(pin!(Some(call)), None).await;
        (answer.map(drop).map_err(|error| error.code), trace.borrow().record)
    };
    assert_eq!(delivered(200).await, (Err(Code::Unavailable), 0));
    assert_eq!(delivered(SLICE.records).await, (Ok(()), SLICE.records), "one slice needs no permit");
    drop(held);
    assert_eq!(delivered(200).await, (Ok(()), 200));
}

#[tokio::test]
async fn a_long_report_runs_one_slice_at_a_time() {
    let worker = worker();
    for pool in [CallPool::unbounded(), CallPool::new(pool_of_one(0))] {
        let trace = RefCell::new(DispatchTrace::default());
        let call = worker.report_traced(report(400), CallInfo::default(), Some(&trace));
        let call = pin!(Some(call));
        let mut call = pin!(pool.run(call, None));
        let mut before = 0;
        while futures_util::poll!(call.as_mut()).is_pending() {
            let after = trace.borrow().record;
            assert!(after - before <= SLICE.records, "{before} to {after} in one poll");
            before = after;
            tokio::task::yield_now().await;
        }
        assert_eq!((before, trace.borrow().record), (384, 400));
    }
}

#[tokio::test]
async fn work_that_takes_longer_than_it_says_gives_way() {
    let worker = worker();
    let context = &worker.worker;
    let mut pace = context.pace();
    pace.before(WORK_PER_TURN / 2).await;
    std::thread::sleep(Duration::from_millis(600));
    pace.before(1).await;
    assert!(pace.is_long());
    let mut pace = context.pace();
    pace.before(1).await;
    std::thread::sleep(Duration::from_millis(600));
    pace.before(1).await;
    assert!(!pace.is_long(), "the clock is not read for little work");
}

#[tokio::test]
async fn deliveries_count_for_what_recent_ones_took() {
    let worker = worker();
    let context = &worker.worker;
    let mut pace = context.pace();
    assert_eq!(pace.delivery_work(1000), 1000);
    for _ in 0..64 {
        // A hundred units say 1 us, in a build without optimization 50 us.
        pace.run_delivery(100, async { std::thread::sleep(Duration::from_millis(2)) }).await;
    }
    assert!(pace.delivery_work(100) > 1000, "{}", pace.delivery_work(100));
    for _ in 0..64 {
        pace.run_delivery(1 << 20, std::future::ready(())).await;
    }
    assert!(pace.delivery_work(100) < 110, "{}", pace.delivery_work(100));
}

#[tokio::test]
async fn records_that_cannot_be_decoded_are_up_to_their_sender() {
    // The second record refers to a word that the message lacks.
    let report = Bytes::from_static(&[0x0a, 0, 0x0a, 6, 0x12, 4, 8, 9, 16, 9]);
    let error = worker().report(report, None).await.expect_err("it is not whole");
    assert_eq!((error.code, error.is_invalid, error.is_refusal), (Code::Unknown, true, false), "{error}");
    let mut errors = ReportErrors::default();
    errors.extend_undecodable("a record".to_owned());
    errors.extend(["a handler".to_owned()]);
    assert!(!errors.are_of_sender(), "a handler failed as well");
}

#[test]
fn a_message_of_many_failures_fits_the_headers_of_a_response() {
    let errors = |texts: Vec<String>| {
        let mut errors = ReportErrors::default();
        errors.extend(texts);
        errors
    };
    assert_eq!(errors(Vec::new()).message(), None);
    let few = errors(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(
        (few.message(), few.message()),
        (few.text(), Some("2 errors occurred:\n\t* a\n\t* b\n\n".to_owned()))
    );
    for (count, length) in
        [(1, 100_000), (2, 3000), (50, 100), (99, 50), (500, 10), (500, 100_000), (100_000, 1)]
    {
        for letter in ["x", "é", "%"] {
            let all = errors((0..count).map(|_| letter.repeat(length)).collect());
            let (message, text) = (all.message().unwrap(), all.text().unwrap());
            let what = format!("{count} failures of {length} {letter}: {message}");
            assert!(encoded_len(&message) <= MAX_MESSAGE, "{what}");
            assert!(message.len() <= text.len(), "the log has at least as much");
            let shown = message.matches("\n\t* ").count();
            if count == 1 {
                assert!(
                    message.starts_with("1 error occurred:\n\t* ") && message.ends_with("…\n\n"),
                    "{what}"
                );
            } else {
                assert!(message.ends_with(&format!("\n\t* and {} more\n\n", count - (shown - 1))), "{what}");
                assert!(shown > 1, "at least one is shown: {what}");
            }
        }
    }
}
