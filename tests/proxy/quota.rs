//! Quotas of the HTTP filter, with a server that keeps them.

use std::sync::atomic::{AtomicI64, Ordering};

use mixer_wire::istio::mixer::v1 as wire;

use crate::fixture::Setup;
use crate::scripted::{Scripted, answer};
use crate::support::{DEADLINE, wait_for};

/// A service of which requests with `request.method` GET are charged.
const CHARGED: &str = "{default_destination_service: all, service_configs: {all: {quota_spec: [{rules: [\
    {match: [{clause: {request.method: {exact: GET}, request.path: {regex: '/[a-z]*'}}}, {clause: {none: {}}}], \
    quotas: [{quota: requests, charge: 1}]}, {match: [{clause: {request.host: {prefix: nobody}}}], \
    quotas: [{quota: others, charge: 1}]}]}]}}}";

/// Answers checks with OK, and quotas out of `limit`.
fn limited(limit: i64) -> Scripted {
    let left = AtomicI64::new(limit);
    Scripted::start(move |_, _, request| {
        let mut answered = answer(0, "", 60, -1);
        for (name, params) in &request.quotas {
            let available = left.load(Ordering::SeqCst);
            let granted = match params.best_effort {
                true => params.amount.min(available),
                false if params.amount <= available => params.amount,
                false => 0,
            };
            left.fetch_sub(granted, Ordering::SeqCst);
            let result = wire::check_response::QuotaResult {
                valid_duration: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                granted_amount: granted,
                referenced_attributes: Some(wire::ReferencedAttributes::default()),
                status: None,
            };
            answered.quotas.insert(name.clone(), result);
        }
        Ok(answered)
    })
}

#[test]
fn about_as_many_requests_pass_as_the_quota_allows() {
    let mixer = limited(10);
    let proxy = Setup { filter: CHARGED, ..Setup::to(mixer.address) }.http();
    let mut passed = 0;
    for _ in 0..20 {
        let answered = proxy.get("/path", &[]);
        match answered.status {
            200 => passed += 1,
            429 => assert_eq!(answered.body, "RESOURCE_EXHAUSTED:Quota is exhausted for: requests"),
            other => panic!("{other}"),
        }
    }
    assert!((7..=13).contains(&passed), "{passed}");
    let calls = mixer.received.lock().unwrap().checks.iter().filter(|(_, c)| !c.quotas.is_empty()).count();
    assert!(calls < 6, "{calls}");
    assert_eq!(proxy.stat("http_mixer_filter.total_check_calls"), 20);
    assert_eq!(proxy.stat("http_mixer_filter.total_quota_calls"), 20);
    let idle = || {
        let of = |name: &str| proxy.stat(&format!("http_mixer_filter.total_{name}"));
        (of("remote_calls") == of("remote_call_successes")).then_some(())
    };
    wait_for(DEADLINE, idle).expect("fetches end");
    proxy.assert_identities("http");
    let first = mixer.received.lock().unwrap().checks[0].1.clone();
    assert_eq!(first.quotas.keys().collect::<Vec<_>>(), ["requests"], "the other rule does not apply");
    assert_eq!((first.quotas["requests"].amount, first.quotas["requests"].best_effort), (1, false));
}

#[test]
fn without_a_cache_every_request_asks() {
    let mixer = limited(10);
    let transport = "{network_fail_policy: {policy: FAIL_CLOSE}, disable_quota_cache: true}";
    let proxy = Setup { filter: CHARGED, transport, ..Setup::to(mixer.address) }.http();
    let statuses: Vec<u16> = (0..13).map(|_| proxy.get("/path", &[]).status).collect();
    assert_eq!(statuses, [[200].repeat(10), [429].repeat(3)].concat());
    assert_eq!(proxy.get("/UPPER", &[]).status, 200, "no rule applies");
    proxy.assert_identities("http");
}
