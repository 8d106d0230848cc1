//! The allocation budget: allocations of a warm call, from request bytes to response bytes.
//!
//! Those of the network side are not counted; docs/benchmarks.md has their cost.

#![expect(unsafe_code, reason = "an allocator that counts can only be written so")]
#![expect(clippy::expect_used, reason = "a test that cannot set up must stop")]

#[path = "../benches/support/attributes.rs"]
mod attributes;
#[path = "../benches/support/checks.rs"]
mod checks;
#[path = "../benches/support/engine.rs"]
mod engine;
#[path = "../benches/support/reports.rs"]
mod reports;
#[path = "../benches/support/rules.rs"]
mod rules;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use checks::Check;
use engine::{Engine, answered, testdata};
use mixer_adapters::kubernetesenv::pods::{PodObject, PodStore};
use mixer_kube::Store as _;

/// Allocations of a cached check: the answer and its reference count.
const CACHED_CHECK: usize = 2;
/// Allocations of a check decided among many rules.
const DECIDED_CHECK: usize = 8;
/// Allocations of a report of 25 bags without new series.
const REPORT: usize = 16;

/// Memory of a long report besides four times its size: what a slice of records takes.
const SLICE_BYTES: isize = 1 << 20;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes in use, and the most of them.
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts an allocation and the change of the bytes in use. Fails while the thread ends.
fn count(allocations: usize, bytes: isize) {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        PEAK.try_with(|peak| peak.set(peak.get().max(in_use.get())))
    });
}

/// The system allocator with counts per thread.
struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes a check and verifies its answer.
fn check(engine: &Engine, checks: &[Check], body: Bytes) {
    let expected = checks.iter().find(|check| check.body == body).map(|check| check.code);
    let answer = answered(engine.service.check(body, None));
    // `precondition { status { code: 7` or no code at all.
    let refused = answer.windows(2).take(16).any(|bytes| bytes == [0x08, 0x07]);
    assert_eq!(Some(refused), expected.map(|code| code == 7));
}

/// The maximum of allocations over `bodies`, each sent three times before.
fn most(bodies: &[Bytes], mut call: impl FnMut(Bytes)) -> usize {
    for body in bodies.iter().cycle().take(bodies.len() * 3) {
        call(body.clone());
    }
    let count = |body: &Bytes| {
        let body = body.clone();
        let before = ALLOCATIONS.get();
        call(body);
        ALLOCATIONS.get() - before
    };
    bodies.iter().map(count).max().unwrap_or(0)
}

#[test]
fn a_cached_check_allocates_its_answer() {
    let engine = Engine::start(&testdata(&["config/attributes.yaml", "config/deny.yaml"]), true);
    let checks = checks::of_sample(16);
    let bodies: Vec<Bytes> = checks.iter().map(|check| Bytes::copy_from_slice(&check.body)).collect();
    let most = most(&bodies, |body| check(&engine, &checks, body));
    assert!(most <= CACHED_CHECK, "{most} allocations");
}

#[test]
fn a_decided_check_allocates_little() {
    let mut files = testdata(&["config/attributes.yaml"]);
    files.extend(rules::files(1000, None));
    let engine = Engine::start(&files, false);
    let checks = checks::of_rules(16, 1000);
    let bodies: Vec<Bytes> = checks.iter().map(|check| Bytes::copy_from_slice(&check.body)).collect();
    let most = most(&bodies, |body| check(&engine, &checks, body));
    assert!(most <= DECIDED_CHECK, "{most} allocations");
}

#[test]
fn a_warm_report_allocates_little() {
    let engine = Engine::start(&testdata(&["config/attributes.yaml", "config/metrics-http.yaml"]), false);
    let bodies: Vec<Bytes> = (0..8).map(|number| reports::report(number, 25).into()).collect();
    let most = most(&bodies, |body| drop(answered(engine.service.report(body, None))));
    assert!(most <= REPORT, "{most} allocations for 25 bags");
}

#[test]
fn a_long_report_takes_little_memory_and_gives_way() {
    let engine = Engine::start(&testdata(&["config/attributes.yaml", "config/metrics-http.yaml"]), false);
    drop(answered(engine.service.report(reports::report(0, 25).into(), None)));
    for (name, body) in
        [("records without attributes", [0x0a, 0].repeat(20_000)), ("records", reports::report(1, 3000))]
    {
        let length = isize::try_from(body.len()).expect("a small message");
        let mut call = std::pin::pin!(engine.service.report(Bytes::from(body), None));
        let before = IN_USE.get();
        PEAK.set(before);
        let mut polls = 1;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while call.as_mut().poll(&mut context).is_pending() {
            polls += 1;
        }
        let peak = PEAK.get() - before;
        assert!(peak <= 4 * length + SLICE_BYTES, "{name}: {peak} bytes for a message of {length}");
        assert!(polls > 20, "{name}: handled in {polls} polls");
    }
}

/// Bytes of a pod of a Deployment, of twenty.
const POD_BYTES: isize = 220;

#[test]
fn a_pod_takes_little_memory_and_is_counted() {
    const PODS: usize = 10_000;
    let pod = |number: usize| {
        let (set, ip) = (number / 20, format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
        let port = |port: u16| serde_json::json!({"containerPort": port, "protocol": "TCP"});
        let pod = serde_json::json!({
            "metadata": {
                "namespace": format!("team-{}", set % 40), "name": format!("service-{set}-7d4b9c5f6d-x{number:05}"),
                "labels": {
                    "app": format!("service-{set}"), "version": "v1", "pod-template-hash": "7d4b9c5f6d",
                    "security.istio.io/tlsMode": "istio",
                },
                "annotations": {"kubernetes.io/psp": "privileged", "sidecar.istio.io/status": "x".repeat(500)},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("service-{set}-7d4b9c5f6d"), "controller": true,
                }],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"serviceAccountName": format!("service-{set}"), "nodeName": "n", "containers": [
                {"name": "main", "image": "i", "ports": [port(8080), port(9090)]}, {"name": "istio-proxy", "ports": [port(15090)]},
            ]},
            "status": {"phase": "Running", "podIP": ip, "hostIP": format!("192.168.0.{}", number % 100)},
        });
        serde_json::from_value::<PodObject>(pod).expect("a pod")
    };
    let before = IN_USE.get();
    let (pods, mut store) = PodStore::of(64 << 20);
    store.begin();
    (0..PODS).for_each(|number| store.list(pod(number)));
    store.complete();
    store.publish();
    let taken = IN_USE.get() - before;
    assert_eq!(pods.index().len(), PODS);
    let of_each = taken / isize::try_from(PODS).expect("few");
    assert!(of_each <= POD_BYTES, "{of_each} bytes a pod");
    // What is counted is not less than what the allocator gives, without its own needs.
    let counted = isize::try_from(store.bytes()).expect("few");
    assert!(taken <= counted && counted <= 2 * taken, "{counted} bytes are counted, {taken} are taken");
    // As a change makes it: the versions share what did not change.
    store.apply(pod(7));
    store.apply(
        serde_json::from_value(serde_json::json!({"metadata": {"namespace": "a", "name": "b"}}))
            .expect("a pod"),
    );
    let unpublished = IN_USE.get();
    store.publish();
    assert!(IN_USE.get() - unpublished < 64 << 10, "a change of one pod");
}
