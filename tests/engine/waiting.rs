//! The memory of checks that wait for a handler.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mixer_api::grpc::Code;
use mixer_api::worker::MessageLimits;
use mixer_api::{Engine, MixerService};
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{OwnedAttributes, OwnedValue};
use mixer_base::budget::Share;

use crate::fixture::{BASE, serve};

/// Hangs for one number.
const RULES: &str = "---
kind: handler
metadata: {name: silent, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
kind: rule
metadata: {name: hanging, namespace: istio-system}
spec: {match: num == 1, actions: [{handler: silent, instances: [nothing]}]}
";

/// A request of 3000 elements, of which 4096 are allowed.
fn request(number: i64) -> Bytes {
    let mut attributes = OwnedAttributes::new();
    attributes.insert("num", number);
    let entries = (0..1500).map(|i| (format!("key-{i}").into(), "value".into()));
    attributes.insert("m", OwnedValue::StringMap(entries.collect()));
    let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
    encode_check_request(&attributes, 0, &call).into()
}

#[test]
fn a_check_that_waits_counts_what_it_decoded_and_is_refused_beyond_the_bound() {
    let (background, runtime, metrics) = serve(&format!("{BASE}{RULES}"), None);
    let service = |share: &Arc<Share>| {
        MixerService::over(Engine {
            runtime: Arc::clone(&runtime),
            metrics: Arc::clone(&metrics),
            last_known: Arc::default(),
            shedder: None,
            observers: None,
            limits: MessageLimits::default(),
            waiting: Arc::clone(share),
            as_istio_mixer: false,
        })
    };
    background.block_on(async {
        let share = Arc::new(Share::new(8 << 20));
        let unlimited = service(&share);
        let mut waiting = Box::pin(unlimited.check(request(1), None));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let kept = share.used();
        assert!(kept > 16 << 10, "{kept} bytes for 1500 entries");
        drop(waiting);
        assert_eq!(share.used(), 0, "a check that is given up frees its memory");
        assert!(unlimited.check(request(2), None).await.is_ok());
        assert_eq!((share.used(), share.exhausted()), (0, 0), "a check that does not wait counts nothing");

        // Room for one such check.
        let share = Arc::new(Share::new(kept + kept / 2));
        let limited = service(&share);
        let mut first = Box::pin(limited.check(request(1), None));
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let refused = limited.check(request(1), None).await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable, "{refused}");
        assert!(limited.check(request(2), None).await.is_ok(), "what does not wait is answered");
        assert_eq!((share.used(), share.exhausted()), (kept, 1));
        drop(first);
        assert_eq!(share.used(), 0);
    });
}
