use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_engine::adapter::{
    BoundInstance, CheckResult, Handler, HandlerError, Instance, Leaf, QuotaCall, QuotaResult, Reply,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::AdapterOptions;
use crate::testing::{bound, problems, test_env};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server of HTTP that answers each path with the body of the first rule that it contains, and tells the bodies that it was sent.
struct Google {
    address: String,
    received: tokio::sync::mpsc::UnboundedReceiver<(String, serde_json::Value)>,
}

impl Google {
    async fn start(rules: &[(&'static str, u16, serde_json::Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = tokio::sync::mpsc::unbounded_channel();
        let rules: Arc<Vec<(&'static str, u16, serde_json::Value)>> = Arc::new(rules.to_vec());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (rules, sender) = (Arc::clone(&rules), sender.clone());
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                            continue;
                        }
                        let path = head.split(' ').nth(1).unwrap().to_owned();
                        let rule = rules.iter().find(|(part, ..)| path.contains(part)).unwrap();
                        let answer = rule.2.to_string();
                        let reply = format!(
                            "HTTP/1.1 {} X\r\ncontent-length: {}\r\n\r\n{answer}",
                            rule.1,
                            answer.len()
                        );
                        if !path.starts_with("/computeMetadata") {
                            let _ = sender.send((path, serde_json::from_str(body).unwrap_or_default()));
                        }
                        stream.write_all(reply.as_bytes()).await.unwrap();
                        bytes.clear();
                    }
                });
            }
        });
        Self { address, received }
    }

    fn params(&self) -> Params {
        Params { endpoint: self.address.clone(), metadata_endpoint: self.address.clone(), ..params() }
    }
}

fn token() -> (&'static str, u16, serde_json::Value) {
    ("/computeMetadata/", 200, json!({ "access_token": "t", "expires_in": 3600 }))
}

fn params() -> Params {
    let seconds = |seconds| Some(SignedDuration::from_secs(seconds));
    let service = |mesh: &str, quotas: Vec<Quota>| ServiceConfig {
        mesh_service_name: mesh.into(),
        google_service_name: format!("{mesh}.example"),
        quotas,
    };
    let quota = Quota {
        name: "rq.quota.ns".into(),
        google_quota_metric_name: "reads".into(),
        expiration: seconds(4),
    };
    Params {
        runtime_config: Some(RuntimeConfig { check_cache_size: 10, check_result_expiration: seconds(3) }),
        service_configs: vec![service("a", vec![quota]), service("b", Vec::new())],
        ..Params::default()
    }
}

/// Instances of the three templates.
fn instances() -> Vec<BoundInstance> {
    let with = |name: &str, template: &str, fields: &[&str]| {
        let mut instance = bound(name, template, "", &[]);
        let leaf = |field: &&str| Leaf::new(field, None, ValueType::String);
        instance.leaves = fields.iter().map(leaf).collect();
        instance
    };
    let dimensions = [("api_key", ValueType::String), ("api_operation", ValueType::String)];
    vec![
        with("k.apikey.ns", "apikey", &["api", "api_operation", "api_key", "timestamp"]),
        with(
            "r.servicecontrolreport.ns",
            "servicecontrolreport",
            &["api_service", "api_operation", "api_key"],
        ),
        bound("rq.quota.ns", "quota", "dimensions", &dimensions),
    ]
}

async fn build(params: Params, as_istio_mixer: bool) -> Box<dyn Handler> {
    let env = test_env("h.ns");
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
    ServiceControl::build(params, instances(), env).await.unwrap()
}

async fn done<T>(reply: Reply<T>) -> Result<T, HandlerError> {
    match reply {
        Reply::Ready(result) => result,
        Reply::Later(later) => later.await,
    }
}

async fn check(handler: &dyn Handler, texts: [&str; 3]) -> Result<CheckResult, HandlerError> {
    let reply = {
        let [api, operation, key] = texts.map(|text| Some(Value::String(text.as_bytes())));
        let at = Some(Value::Timestamp(Timestamp { seconds: 1_551_434_400, nanos: 5 }));
        let values = [api, operation, key, at];
        handler.as_check().unwrap().check(&Instance { bound: 0, name: "k.apikey.ns", values: &values })
    };
    done(reply).await
}

async fn quota(handler: &dyn Handler, amount: i64) -> Result<QuotaResult, HandlerError> {
    let reply = {
        let values = ["key", "op"].map(|text| Some(Value::String(text.as_bytes())));
        let instance = Instance { bound: 2, name: "rq.quota.ns", values: &values };
        let call = QuotaCall { amount, best_effort: false, deduplication_id: "id" };
        handler.as_quota().unwrap().quota(&instance, call)
    };
    done(reply).await
}

#[tokio::test]
async fn a_key_is_checked_once_while_its_answer_is_valid() {
    let answer = json!({ "checkErrors": [{ "code": "API_KEY_INVALID", "detail": "no such\nkey" }] });
    let mut google = Google::start(&[token(), (":check", 200, answer)]).await;
    let handler = build(google.params(), false).await;
    for _ in 0..3 {
        let result = check(&*handler, ["a", "op", "key"]).await.unwrap();
        assert_eq!((result.status.code, &*result.status.message), (3, "API_KEY_INVALID: no such key"));
        assert!(result.valid_duration <= SignedDuration::from_secs(3) && result.valid_use_count == i32::MAX);
    }
    let (path, body) = google.received.recv().await.unwrap();
    assert_eq!(path, "/v1/services/a.example:check?alt=json");
    assert_eq!(body["operation"]["startTime"], "2019-03-01T10:00:00Z");
    assert!(google.received.try_recv().is_err(), "the others are answered from the cache");
    // Other services, operations and keys are others.
    for texts in [["b", "op", "key"], ["a", "opk", "ey"], ["a", "op", "key2"]] {
        check(&*handler, texts).await.unwrap();
        assert!(google.received.recv().await.is_some(), "{texts:?}");
    }
}

/// Without a cache, too: only those who wait for an answer share it.
#[tokio::test]
async fn calls_that_wait_for_one_answer_ask_once() {
    for (size, status) in [(10, 200), (0, 200), (10, 503)] {
        let mut google = Google::start(&[token(), (":check", status, json!({}))]).await;
        let runtime = params().runtime_config.map(|of| RuntimeConfig { check_cache_size: size, ..of });
        let handler = build(Params { runtime_config: runtime, ..google.params() }, false).await;
        let keys = (0..40).map(|call| if call % 2 == 0 { "even" } else { "odd" });
        let calls = keys.map(|key| check(&*handler, ["a", "op", key]));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(result.is_ok(), status == 200, "{result:?}");
        }
        let mut asked = Vec::new();
        while let Ok((_, body)) = google.received.try_recv() {
            asked.push(body["operation"]["consumerId"].as_str().unwrap().to_owned());
        }
        asked.sort();
        assert_eq!(asked, ["api_key:even", "api_key:odd"], "{size} {status}");
        // The next ones ask for themselves.
        let again = check(&*handler, ["a", "op", "odd"]).await;
        assert_eq!(
            (again.is_ok(), google.received.try_recv().is_ok()),
            (status == 200, size == 0 || status != 200)
        );
    }
}

#[tokio::test]
async fn who_waits_for_the_answer_of_a_call_that_ends_asks_instead() {
    let mut google = Google::start(&[token(), (":check", 200, json!({}))]).await;
    let handler = build(google.params(), false).await;
    let mut first = Box::pin(check(&*handler, ["a", "op", "key"]));
    let mut second = Box::pin(check(&*handler, ["a", "op", "key"]));
    assert!(futures_util::poll!(&mut first).is_pending() && futures_util::poll!(&mut second).is_pending());
    drop(first);
    let answered = tokio::time::timeout(PATIENCE, second).await.expect("it is answered");
    assert_eq!(answered.unwrap().status.code, 0);
    assert!(google.received.recv().await.is_some());
}

#[tokio::test]
async fn what_google_need_not_be_asked_is_refused() {
    let google = Google::start(&[token()]).await;
    let handler = build(google.params(), false).await;
    let unknown = check(&*handler, ["zzz", "op", "key"]).await.unwrap();
    assert_eq!((unknown.status.code, &*unknown.status.message), (7, "unknown service zzz"));
    assert_eq!((unknown.valid_duration, unknown.valid_use_count), (SignedDuration::ZERO, 0));
    for texts in [["a", "", "key"], ["a", "op", ""]] {
        let empty = check(&*handler, texts).await.unwrap();
        let text = "instance:k.apikey.ns, api key and api operation must not be empty";
        assert_eq!((empty.status.code, &*empty.status.message), (3, text));
    }
}

#[tokio::test]
async fn a_check_that_cannot_be_made_allows_nothing() {
    let answer = json!({ "error": { "message": "rights" } });
    let google = Google::start(&[token(), (":check", 403, answer)]).await;
    let handler = build(google.params(), false).await;
    let error = check(&*handler, ["a", "op", "key"]).await.unwrap_err();
    assert!(error.message.starts_with("check failed: HTTP status 403") && !error.is_of_request, "{error}");
    let trouble = handler.status().trouble;
    assert!(trouble.as_deref().is_some_and(|why| why.starts_with("HTTP status 403")), "{trouble:?}");
    let as_istio = build(google.params(), true).await;
    let denied = check(&*as_istio, ["a", "op", "key"]).await.unwrap();
    assert_eq!(denied.status.code, 7, "{denied:?}");
    // Nobody is there, and there are no credentials either.
    let away = Params { endpoint: "http://127.0.0.1:1".into(), ..google.params() };
    assert!(check(&*build(away, false).await, ["a", "op", "key"]).await.is_err());
}

/// With status 200, as pages of proxies have it.
#[tokio::test]
async fn an_answer_of_another_shape_allows_nothing() {
    for (answer, why) in [
        (json!([]), "the answer is none of Service Control"),
        (json!("ok"), "the answer is none of Service Control"),
        (json!(null), "the answer is none of Service Control"),
        (json!({ "error": { "message": "no\nrights" } }), "the answer is an error: no rights"),
        (json!({ "checkErrors": { "code": "API_KEY_INVALID" } }), "`checkErrors` of the answer is no list"),
        (json!({ "checkErrors": "API_KEY_INVALID" }), "`checkErrors` of the answer is no list"),
    ] {
        let google = Google::start(&[
            token(),
            (":check", 200, answer.clone()),
            (":allocateQuota", 200, answer.clone()),
        ])
        .await;
        let handler = build(google.params(), false).await;
        let error = check(&*handler, ["a", "op", "key"]).await.unwrap_err();
        assert!(error.message.starts_with(&format!("check failed: {why}")), "{answer}: {error}");
        let denied = check(&*build(google.params(), true).await, ["a", "op", "key"]).await.unwrap();
        assert_eq!(denied.status.code, 7, "{answer}");
        if !answer.is_object() {
            assert!(quota(&*handler, 5).await.is_err(), "{answer}");
        }
    }
    // Errors that Google did not name as we know them deny, too.
    for errors in [json!([{}]), json!([null]), json!(["API_KEY_INVALID"])] {
        let google = Google::start(&[token(), (":check", 200, json!({ "checkErrors": errors }))]).await;
        let result = check(&*build(google.params(), false).await, ["a", "op", "key"]).await.unwrap();
        assert_eq!(result.status.code, 2, "{errors}");
    }
}

#[tokio::test]
async fn quotas_are_granted_by_google() {
    let mut google = Google::start(&[token(), (":allocateQuota", 200, json!({}))]).await;
    let handler = build(google.params(), false).await;
    let granted = quota(&*handler, 5).await.unwrap();
    assert_eq!((granted.granted, granted.valid_duration), (5, SignedDuration::from_secs(4)));
    let (path, body) = google.received.recv().await.unwrap();
    assert_eq!(path, "/v1/services/a.example:allocateQuota?alt=json");
    let operation = &body["allocateOperation"];
    assert_eq!((&operation["quotaMode"], &operation["methodName"]), (&json!("NORMAL"), &json!("op")));
    assert_eq!(quota(&*handler, -5).await.unwrap().granted, 0, "nothing is given back");
    let error = json!({ "error": { "message": "later" } });
    let busy = Google::start(&[token(), (":allocateQuota", 503, error)]).await;
    let error = quota(&*build(busy.params(), false).await, 5).await.unwrap_err();
    assert!(error.message.starts_with("allocate quota failed: HTTP status 503"), "{error}");
    assert!(error.message.ends_with(": later"), "{error}");
}

#[tokio::test]
async fn reports_of_several_services_are_sent_when_the_handler_closes() {
    let answer = json!({ "checkInfo": { "consumerInfo": { "projectNumber": 7 } } });
    let mut google = Google::start(&[token(), (":check", 200, answer), (":report", 200, json!({}))]).await;
    let handler = build(google.params(), false).await;
    let reports = ["a", "b", "b", "zzz"]
        .map(|service| [service, "op", "key"].map(|text| Some(Value::String(text.as_bytes()))));
    let all: Vec<Instance<'_>> = reports
        .iter()
        .map(|values| Instance { bound: 1, name: "r.servicecontrolreport.ns", values })
        .collect();
    let Reply::Ready(Err(error)) = handler.as_report().unwrap().report(&all) else { panic!("an error") };
    assert!(error.message.contains("unknown service zzz") && error.is_of_request, "{error}");
    handler.close(PATIENCE).await.unwrap();
    let mut sent = Vec::new();
    while let Ok((path, body)) = google.received.try_recv() {
        if path.contains(":report") {
            for operation in body["operations"].as_array().unwrap() {
                let project = &operation["labels"]["serviceruntime.googleapis.com/consumer_project"];
                assert_eq!(project, "project_number:7");
                sent.push(path.clone());
            }
        }
    }
    let path = |service: &str| format!("/v1/services/{service}.example:report?alt=json");
    assert_eq!(sent, [path("a"), path("b"), path("b")]);
}

/// What Google says of operations may be long: of reports nothing is sent twice because of that, and nothing else is allowed by it.
#[tokio::test]
async fn an_answer_that_is_too_long_takes_reports_and_allows_nothing() {
    let long = json!({ "reportErrors": [{ "status": { "message": "x".repeat(70_000) } }] });
    let mut google = Google::start(&[token(), (":check", 200, long.clone()), (":report", 200, long)]).await;
    let handler = build(google.params(), false).await;
    let refused = check(&*handler, ["a", "op", "key"]).await;
    assert!(refused.as_ref().map_or(true, |result| result.status.code != 0), "{refused:?}");
    let values = ["a", "op", "key"].map(|text| Some(Value::String(text.as_bytes())));
    let report = Instance { bound: 1, name: "r.servicecontrolreport.ns", values: &values };
    let Reply::Ready(Ok(())) = handler.as_report().unwrap().report(&[report]) else { panic!("accepted") };
    handler.close(PATIENCE).await.unwrap();
    let mut reports = 0;
    while let Ok((path, _)) = google.received.try_recv() {
        reports += usize::from(path.contains(":report"));
    }
    assert_eq!(reports, 1);
}

#[tokio::test]
async fn while_google_is_away_a_batch_asks_about_one_key_only_and_operations_keep_their_ids() {
    let mut google = Google::start(&[token(), (":check", 503, json!({})), (":report", 503, json!({}))]).await;
    let handler = build(google.params(), false).await;
    let reports =
        ["one", "two", "three"].map(|key| ["a", "op", key].map(|text| Some(Value::String(text.as_bytes()))));
    let all: Vec<Instance<'_>> = reports
        .iter()
        .map(|values| Instance { bound: 1, name: "r.servicecontrolreport.ns", values })
        .collect();
    let Reply::Ready(Ok(())) = handler.as_report().unwrap().report(&all) else { panic!("accepted") };
    let mut attempts = Vec::new();
    let mut paths = Vec::new();
    while attempts.len() < 2 {
        let (path, body) = google.received.recv().await.unwrap();
        if let Some(operations) = body["operations"].as_array() {
            let ids: Vec<_> = operations.iter().map(|operation| operation["operationId"].clone()).collect();
            attempts.push(ids);
        }
        paths.push(path.split_once(':').unwrap().1.to_owned());
    }
    assert_eq!(paths, ["check?alt=json", "report?alt=json", "check?alt=json", "report?alt=json"]);
    assert_eq!(attempts[0], attempts[1], "Google counts an operation once");
    let different: std::collections::BTreeSet<_> = attempts[0].iter().map(ToString::to_string).collect();
    assert_eq!(different.len(), 3);
}

/// Makes parameters invalid.
type Change<'c> = &'c dyn Fn(&mut Params);

#[test]
fn parameters_are_checked() {
    let of = |change: &dyn Fn(&mut Params)| {
        let mut params = params();
        change(&mut params);
        problems::<ServiceControl>(&params)
    };
    assert!(of(&|_| {}).is_empty());
    let rows: [(Change<'_>, &str); 9] = [
        (&|params| params.runtime_config = None, "runtimeConfig: config is nil"),
        (
            &|params| params.runtime_config = Some(RuntimeConfig::default()),
            "runtimeConfig: config.CheckResultExpiration is nil",
        ),
        (
            &|params| {
                let zero = Some(SignedDuration::ZERO);
                params.runtime_config.as_mut().unwrap().check_result_expiration = zero;
            },
            "runtimeConfig: expect positive CheckResultExpiration, but get 0s",
        ),
        (&|params| params.service_configs.clear(), "serviceConfigs: settings is nil or empty"),
        (
            &|params| params.service_configs[1].google_service_name.clear(),
            "serviceConfigs: settings.MeshServiceName and settings.GoogleServiceName must be non-empty",
        ),
        (
            &|params| params.service_configs[0].quotas[0].name.clear(),
            "serviceConfigs: encountered an empty QuotaName",
        ),
        (
            &|params| params.service_configs[0].quotas[0].expiration = None,
            "serviceConfigs: quota expiration is nil",
        ),
        (
            &|params| params.service_configs[0].quotas[0].expiration = Some(SignedDuration::from_secs(-1)),
            "serviceConfigs: quota must have positive expiration, but get -1s",
        ),
        (
            &|params| params.endpoint = "servicecontrol".into(),
            "the handler will not be built: `servicecontrol` is not http://HOST or https://HOST",
        ),
    ];
    for (change, text) in rows {
        assert_eq!(of(change), [text]);
    }
}
