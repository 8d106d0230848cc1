//! What a failure beside a decision, or without one, makes of a call.

use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::auth::v3::CheckResponse;
use mixer_wire::envoy::service::auth::v3::check_response::HttpResponse;
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;
use serde_json::Value;

use super::{AUTHORIZATION, BROKEN, LIMITS, Setting, check, limit, lines_with, with_check, with_quota};
use crate::support::{DEADLINE, http, run_mixer, wait_for};

/// What a caller makes fail beside a refusal opens nothing, whatever the settings make of failures.
#[test]
fn a_denial_stands_whatever_else_fails() {
    let broken = BROKEN.replace("INSTANCE", "nothing");
    for (mode, failed) in [("open", 0), ("delegate", 13), ("closed", 13)] {
        let setting = Setting::on(&(with_check(&format!("{{errorMode: {mode}}}")) + &broken), &[]);
        let mut client = setting.client();
        assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7, "{mode}");
        assert_eq!(check(&mut client, "/", "ann").expect("an answer"), failed, "{mode}: nobody denies it");
        let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
        assert!(metrics.contains("mixer_check_overruled_failures_total 1\n"), "{metrics}");
    }
}

/// A panic is a fault of the server, and a caller may bring it about: it is denied in every mode. Failures that are allowed and denied are
/// counted apart, and a handler whose calls fail is degraded.
#[test]
fn a_handler_that_panics_opens_nothing() {
    let failing = BROKEN.replace("INSTANCE", "nothing");
    for (mode, failed, result) in
        [("open", 0, "error_allowed"), ("delegate", 13, "error"), ("closed", 13, "error_denied")]
    {
        let with = |broken: &str| Setting::on(&(with_check(&format!("{{errorMode: {mode}}}")) + broken), &[]);
        let setting = with(&failing.replace("outcome: ERROR", "outcome: PANIC"));
        assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), 13, "{mode}");
        let metrics = |setting: &Setting| {
            http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body
        };
        let denied = r#"bridge_check_total{code="INTERNAL",result="deny"} 1"#;
        assert!(metrics(&setting).contains(denied), "{mode}: {}", metrics(&setting));
        let setting = with(&failing);
        assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), failed, "{mode}");
        let counted = format!(r#"bridge_check_total{{code="INTERNAL",result="{result}"}} 1"#);
        assert!(metrics(&setting).contains(&counted), "{mode}: {}", metrics(&setting));
        let degraded = || metrics(&setting).contains(r#"mixer_component_degraded{component="handlers"} 1"#);
        assert!(wait_for(DEADLINE, || degraded().then_some(())).is_some(), "{mode}: {}", metrics(&setting));
    }
    let ignored = failing.replace(
        "name: broken, namespace",
        "name: broken, annotations: {mixer.dev/on-error: allow}, namespace",
    );
    let setting = Setting::on(&(with_check("{}") + &ignored), &[]);
    assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), 0);
    let body = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(
        body.contains(r#"mixer_check_ignored_failures_total{handler="broken.istio-system"} 1"#),
        "{body}"
    );
}

/// Whoever looks for the cause of a failure reads what Envoy gets meanwhile, and by which setting.
#[test]
fn what_envoy_gets_where_the_evaluation_fails_is_told() {
    let failing = BROKEN.replace("INSTANCE", "nothing");
    let explained = |setting: &Setting| -> Value {
        let address = setting.server.address();
        let flags = ["check", "--server", &address, "--explain", "-s", "request.path=/"];
        let text = run_mixer(&flags).stdout;
        let json = run_mixer(&[&flags[..], &["-o", "json"]].concat()).stdout;
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let explanation = json["explanation"].clone();
        // The command and the page say the same.
        let url = format!("http://127.0.0.1:{}/explainz/", setting.server.ports.ctrlz);
        let page = http("POST", &url, "attributes=request.path%3D%2F").expect("a page").body;
        let page = page.replace("<code>", "`").replace("</code>", "`");
        for sentence in explanation["forEnvoy"].as_array().into_iter().flatten() {
            let sentence = sentence.as_str().expect("a text");
            assert!(text.contains(&format!("note: {sentence}\n")), "{sentence}: {text}");
            assert!(page.contains(sentence), "{sentence}: {page}");
        }
        explanation
    };
    let degraded = |setting: &Setting| {
        let state = || {
            let body =
                http("GET", &setting.server.monitoring_url("/readyz?verbose"), "").expect("a state").body;
            let state: Value = serde_json::from_str(&body).expect("JSON");
            state["degraded"]["handlers"]["why"].as_str().map(str::to_owned)
        };
        wait_for(DEADLINE, state).expect("the handler is degraded")
    };
    let by_filter =
        "a call of Envoy gets an error, and the request passes if its filter has `failure_mode_allow: true`";
    for (settings, gets, setting) in [
        (
            "{errorMode: open}",
            "a call of Envoy gets OK, and the request passes undecided",
            "`errorMode: open`",
        ),
        ("{errorMode: closed}", "a call of Envoy is refused", "`errorMode: closed`"),
        ("{errorMode: delegate}", by_filter, "`errorMode: delegate`"),
        ("{}", by_filter, "`errorMode: delegate`, the default"),
    ] {
        let served = Setting::native(&(with_check(settings) + &failing));
        let by = format!("{setting} ({}:15)", served.directory.path().join("policy/policy.yaml").display());
        let first = "`mixer.dev/on-error` on the rule or its handler would come first";
        let explanation = explained(&served);
        assert_eq!(explanation["decision"]["cause"], "handler", "{explanation}");
        assert_eq!(explanation["forEnvoy"], serde_json::json!([format!("{gets}: {by}; {first}")]));
        check(&mut served.client(), "/", "ann").expect("an answer");
        let why = degraded(&served);
        let passes = format!("; requests of Envoy for which broken.istio-system fails pass undecided: {by}");
        assert_eq!(why.ends_with(&passes), settings == "{errorMode: open}", "{why}");
    }
    let panicking = failing.replace("outcome: ERROR", "outcome: PANIC");
    let served = Setting::native(&(with_check("{errorMode: open}") + &panicking));
    let refused = "a call of Envoy is refused with INTERNAL, whatever `errorMode` is: a handler panicked";
    assert_eq!(explained(&served)["forEnvoy"], serde_json::json!([refused]));
    // What the rule says of failures comes first.
    for (policy, code) in [("allow", 0), ("deny", 7)] {
        // The rule is the last.
        let (before, after) = failing.rsplit_once("name: broken, namespace").expect("a rule");
        let annotated =
            format!("{before}name: broken, annotations: {{mixer.dev/on-error: {policy}}}, namespace{after}");
        let served = Setting::native(&(with_check("{errorMode: open}") + &annotated));
        let explanation = explained(&served);
        assert_eq!(explanation["decision"]["code"], code, "{explanation}");
        assert!(explanation.get("forEnvoy").is_none(), "{explanation}");
        let dispatches = explanation["dispatches"].as_array().expect("a list");
        let failed =
            dispatches.iter().find(|one| one["handler"] == "broken.istio-system").expect("it is asked");
        assert_eq!(failed["onError"]["policy"], policy, "{failed}");
        assert_eq!(failed["onError"]["resource"], "broken.rule.istio-system", "{failed}");
        let place = failed["onError"]["place"].as_str().expect("a place");
        let (file, line) = place.rsplit_once(':').expect("a line");
        let text = std::fs::read_to_string(file).expect("it is a file");
        let line = text.lines().nth(line.parse::<usize>().expect("a number") - 1);
        assert!(line.is_some_and(|line| line.contains("on-error")), "{place}");
        check(&mut served.client(), "/", "ann").expect("an answer");
        let why = degraded(&served);
        assert!(!why.contains("pass undecided"), "{why}");
    }
}

/// Clients of Envoy read no names, addresses or texts of backends of what failed, although its rule refuses then.
#[test]
fn a_refusal_by_a_failure_tells_clients_nothing() {
    let failing = BROKEN.replace("INSTANCE", "nothing");
    let denied = failing.replace(
        "name: broken, namespace",
        "name: broken, annotations: {mixer.dev/on-error: deny}, namespace",
    );
    for (names, told) in [(false, false), (true, true)] {
        let setting = Setting::on(&(with_check(&format!("{{denyBodyNames: {names}}}")) + &denied), &[]);
        let answer = setting.client().call(AUTHORIZATION, super::check_request("/", "ann"), None);
        let answer = CheckResponse::decode(answer.expect("an answer")).expect("a response");
        let Some(HttpResponse::DeniedResponse(response)) = answer.http_response else { panic!("{answer:?}") };
        assert_eq!(response.body.contains("broken"), told, "{}", response.body);
        assert_eq!(response.body.contains("PERMISSION_DENIED:the request cannot be evaluated"), !told);
        let status = answer.status.expect("a status");
        assert!(
            status.code == 7 && status.message.contains("handler `broken.istio-system` failed: "),
            "{status:?}"
        );
    }
}

/// A handler that a caller makes fail does not open what no rule allows.
#[test]
fn the_refusal_by_a_default_stands_whatever_else_fails() {
    let closed = "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
                  metadata: {name: closed, namespace: istio-system, annotations: {mixer.dev/default: deny}}\n";
    let broken = BROKEN.replace("INSTANCE", "nothing");
    for mode in ["open", "delegate", "closed"] {
        let policy = with_check(&format!("{{errorMode: {mode}}}")) + &broken + closed;
        let setting = Setting::on(&policy, &[]);
        assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), 7, "{mode}");
        let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
        assert!(metrics.contains("mixer_check_overruled_failures_total 1\n"), "{metrics}");
    }
}

/// The quota of `calls` is taken twice at most, that of `broken` always fails.
#[test]
fn an_exhausted_quota_refuses_whatever_else_fails() {
    let broken = BROKEN.replace("INSTANCE", "broken");
    for quotas in ["{quota: calls}, {quota: broken}", "{quota: broken}, {quota: calls}"] {
        let quota_spec = format!("{{quotaSpec: [{{rules: [{{quotas: [{quotas}]}}]}}]}}");
        let setting = Setting::on(&(with_check(&quota_spec) + &broken), &[]);
        let mut client = setting.client();
        let codes: Vec<i32> = (0..4).map(|_| check(&mut client, "/", "ann").expect("an answer")).collect();
        assert_eq!(codes, [13, 13, 8, 8], "{quotas}");
    }
    let policy = with_quota("broken")
        .replace("check: {quotaSpec: [{rules: [{quotas: [{quota: broken}]}]}]}", "check: {}");
    let of_tenant = |tenant: &str| {
        let key = if tenant.is_empty() { "unmatched" } else { "tenant" };
        let entry = rate_limit_descriptor::Entry { key: key.to_owned(), value: tenant.to_owned() };
        RateLimitDescriptor { entries: vec![entry], ..Default::default() }
    };
    let unmatched = policy.replace("  ratelimit:\n", "  ratelimit:\n    unmatched: error\n");
    let delegate = policy.replace("  ratelimit:\n", "  ratelimit:\n    errorMode: delegate\n");
    for (policy, tenants, error) in [
        (&delegate, ["a", "fails"], tonic::Code::Unavailable),
        (&delegate, ["fails", "a"], tonic::Code::Unavailable),
        (&unmatched, ["a", ""], tonic::Code::Unknown),
    ] {
        let setting = Setting::on(&(policy.clone() + &broken), &[]);
        let mut client = setting.client();
        let mut limit = || {
            let descriptors = tenants.map(of_tenant).to_vec();
            let request = RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 };
            let answer = client.call(LIMITS, request.encode_to_vec(), None)?;
            Ok::<_, tonic::Status>(RateLimitResponse::decode(answer).expect("a response").overall_code)
        };
        for _ in 0..2 {
            assert_eq!(
                limit().expect_err("a quota fails and none is exhausted").code(),
                error,
                "{tenants:?}"
            );
        }
        assert_eq!(limit().expect("the quota of the other tenant is exhausted"), 2, "{tenants:?}");
    }
}

/// With `errorMode: closed` a check that ends without a decision is denied, so that the failure mode of the proxy allows nothing.
#[test]
fn closed_settings_deny_whatever_fails() {
    let closed = |arguments: &[&str]| Setting::on(&with_check("{errorMode: closed}"), arguments);
    let setting = closed(&["--apiWorkerPoolSize=1", "--api-queue-length=0"]);
    let mut client = setting.client();
    let answer = client.call(AUTHORIZATION, vec![0xff], None).expect("an answer to what is no CheckRequest");
    let response = CheckResponse::decode(answer).expect("a response");
    assert_eq!(response.status.expect("a status").code, 13);
    assert!(response.http_response.is_some(), "a denial");
    // The pool has one place, which a call has that never ends.
    let mut other = setting.client();
    let hangs = std::thread::spawn(move || check(&mut other, "/hang", "ann"));
    let full = wait_for(DEADLINE, || {
        let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
        metrics.contains("mixer_pool_in_flight{pool=\"api\"} 1\n").then_some(())
    });
    assert!(full.is_some(), "the call waits for its handler");
    assert_eq!(check(&mut client, "/slow/1", "ann").expect("an answer from a full pool"), 8);
    drop(setting);
    drop(hangs.join());

    let setting = closed(&["--loadsheddingMode=enforce", "--maxRequestsPerSecond=0.001", "--burstSize=1"]);
    let mut client = setting.client();
    let codes: Vec<i32> = (0..3).map(|_| check(&mut client, "/", "ann").expect("an answer")).collect();
    assert_eq!(codes[1..], [8, 8], "{codes:?}");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let line = r#"bridge_check_total{code="RESOURCE_EXHAUSTED",result="error_denied"} 2"#;
    assert!(metrics.contains(line), "{}", lines_with(&metrics, "bridge_check"));

    // Settings that do not serve close nothing, and neither does a disabled service.
    let setting = Setting::on(&with_check("{errorMode: closed, enabled: false}"), &[]);
    let status = check(&mut setting.client(), "/", "ann").expect_err("a disabled service");
    assert_eq!(status.code(), tonic::Code::Unimplemented, "{status}");
}

#[test]
fn calls_that_need_a_quota_without_a_rule_fail() {
    // An error, which serves only where errors do.
    let setting = Setting::on(&with_quota("cals"), &["--config-on-error=serve-valid"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 13);
    assert!(!limit(&mut client, "fails").expect("an answer"), "nothing would be charged");
    assert!(limit(&mut client, "a").expect("an answer"));
}

/// No mode opens what a rule denies, whether or not its quota can be charged.
#[test]
fn a_denial_stands_although_no_rule_configures_the_quota() {
    let policy = with_quota("cals").replace("check: {", "check: {errorMode: open, ");
    let setting = Setting::on(&policy, &["--config-on-error=serve-valid"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0, "the mode is for this failure");
}
