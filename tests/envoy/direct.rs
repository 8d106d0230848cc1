//! The services for Envoy called directly: logs, dry run, limits, load shedding, tracing and deadlines apply as to Mixer's API.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mixer_wire::envoy::data::accesslog::v3::{
    AccessLogCommon, HttpAccessLogEntry, HttpRequestProperties, TcpAccessLogEntry,
};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::accesslog::v3::{StreamAccessLogsMessage, stream_access_logs_message};
use mixer_wire::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, attribute_context,
};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;
use serde_json::Value;

use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, free_port, http, programs, run, wait_for};

pub(crate) const AUTHORIZATION: &str = "/envoy.service.auth.v3.Authorization/Check";
pub(crate) const LIMITS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// `RateLimitResponse.Code`.
const OVER_LIMIT: i32 = 2;
const LOGS: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// A policy in a directory, and a server on it.
pub(crate) struct Setting {
    directory: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Setting {
    fn start(arguments: &[&str]) -> Self {
        Self::on(include_str!("direct.yaml"), arguments)
    }

    pub(crate) fn on(text: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let policy = directory.path().join("policy");
        std::fs::create_dir(&policy).expect("it is writable");
        std::fs::write(policy.join("policy.yaml"), text).expect("it is writable");
        let place = directory.path().display().to_string();
        let arguments: Vec<String> = arguments.iter().map(|a| a.replace("$DIRECTORY", &place)).collect();
        let server = Server::on(&policy).with(&arguments).start();
        Self { directory, server }
    }

    /// Writes a file of the policy.
    pub(crate) fn put(&self, file: &str, text: &str) {
        std::fs::write(self.directory.path().join("policy").join(file), text).expect("it is writable");
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.server.address()).expect("a client")
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory.path().join(file)).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn check_request(path: &str, user: &str) -> Vec<u8> {
    let headers = [("x-user", user), ("authorization", "Bearer secret")];
    let http = attribute_context::HttpRequest {
        method: "GET".to_owned(),
        path: path.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Default::default()
    };
    let request =
        attribute_context::Request { time: Some(std::time::SystemTime::now().into()), http: Some(http) };
    let attributes = AttributeContext { request: Some(request), ..Default::default() };
    CheckRequest { attributes: Some(attributes) }.encode_to_vec()
}

/// The code of the answer.
pub(crate) fn check(client: &mut Client, path: &str, user: &str) -> Result<i32, tonic::Status> {
    let answer = client.call(AUTHORIZATION, check_request(path, user), None)?;
    Ok(CheckResponse::decode(answer).expect("a response").status.expect("a status").code)
}

/// Whether the request is within the limit.
pub(crate) fn limit(client: &mut Client, tenant: &str) -> Result<bool, tonic::Status> {
    let entry = rate_limit_descriptor::Entry { key: "tenant".to_owned(), value: tenant.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let request =
        RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
    let answer = client.call(LIMITS, request.encode_to_vec(), None)?;
    Ok(RateLimitResponse::decode(answer).expect("a response").overall_code == 1)
}

fn log(client: &mut Client, users: &[&str]) -> Result<(), tonic::Status> {
    let entry = |user: &&str| HttpAccessLogEntry {
        common_properties: Some(AccessLogCommon { access_log_type: 6, ..Default::default() }),
        request: Some(HttpRequestProperties {
            request_headers: [("x-user".to_owned(), (*user).to_owned())].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let entries =
        stream_access_logs_message::HttpAccessLogEntries { log_entry: users.iter().map(entry).collect() };
    let message = StreamAccessLogsMessage {
        identifier: None,
        log_entries: Some(stream_access_logs_message::LogEntries::HttpLogs(entries)),
    };
    client.call(LOGS, message.encode_to_vec(), None).map(drop)
}

#[test]
fn messages_with_too_many_parts_are_refused() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // HTTP entries of two bytes each.
    let entries = |count: usize| {
        let list = [0x0a, 0].repeat(count);
        let mut message = vec![0x12];
        prost::encoding::encode_varint(list.len() as u64, &mut message);
        [message, list].concat()
    };
    assert!(client.call(LOGS, entries(20_000), None).is_ok());
    for count in [20_001, 500_000] {
        let refused = client.call(LOGS, entries(count), None).expect_err("an error");
        let text = "the message has more than 20000 entries (--max-report-records)";
        assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, text));
    }
    let descriptors = |count: usize| {
        let descriptors = vec![RateLimitDescriptor::default(); count];
        RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 }.encode_to_vec()
    };
    assert!(client.call(LIMITS, descriptors(64), None).is_ok());
    let refused = client.call(LIMITS, descriptors(65), None).expect_err("an error");
    let text = "the call has 65 descriptors; at most 64 are allowed (--max-check-quotas)";
    assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, text));
}

#[test]
fn attributes_that_a_manifest_declares_otherwise_are_named() {
    // Nothing is configured for Envoy, so that the manifest is a warning only.
    let text = "kind: attributemanifest
metadata: {name: typed, namespace: istio-system}
spec: {attributes: {source.ip: {valueType: STRING}, request.path: {valueType: STRING}}}
";
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("policy.yaml"), text).expect("it is writable");
    let server = Server::on(directory.path()).native().start();
    server.wait_for_log("attribute source.ip is STRING here, but Envoy sends IP_ADDRESS");
    let lacking = "requests of Envoy lack attributes: source.ip is declared as STRING and sent as IP_ADDRESS";
    assert!(!server.log().contains(lacking), "Envoy did not call: {}", server.log());
    let mut client = Client::new(&server.address()).expect("a client");
    client.call(AUTHORIZATION, check_request("/", "ann"), None).expect("an answer");
    server.wait_for_log(lacking);
}

/// A length-delimited field.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut out);
    prost::encoding::encode_varint(content.len() as u64, &mut out);
    [out, content.to_vec()].concat()
}

#[test]
fn messages_with_too_many_fields_are_refused() {
    const LIMIT: usize = 16 << 10;
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // A list of empty parts, in the messages with these numbers.
    let of = |outer: &[u32], part: u32, count: usize| {
        let parts = field(part, &[]).repeat(count);
        outer.iter().rev().fold(parts, |inner, number| field(*number, &inner))
    };
    let domain = field(1, b"shop");
    for (what, path, outer, part, before) in [
        ("headers", AUTHORIZATION, &[1, 4, 2][..], 3, &[][..]),
        ("headers of a list", AUTHORIZATION, &[1, 4, 2, 13], 1, &[]),
        ("extensions", AUTHORIZATION, &[1], 10, &[]),
        ("labels", AUTHORIZATION, &[1, 1], 3, &[]),
        ("metadata", AUTHORIZATION, &[1, 11, 1, 2], 1, &[]),
        ("fields that nobody reads", AUTHORIZATION, &[1, 4, 2], 14, &[]),
        ("entries", LIMITS, &[2], 1, &domain),
    ] {
        let at_bound = LIMIT - outer.len() - usize::from(!before.is_empty());
        // Callers choose how many there are, and so no error for which a proxy may let them pass.
        for (count, is_refused) in [(at_bound, false), (at_bound + 1, true), (500_000, true)] {
            let message = [before.to_vec(), of(outer, part, count)].concat();
            let answer = client.call(path, message, None).expect("an answer");
            let told = match path {
                LIMITS => RateLimitResponse::decode(answer).expect("an answer").overall_code == OVER_LIMIT,
                _ => {
                    let status = CheckResponse::decode(answer).expect("an answer").status.unwrap_or_default();
                    let text = "the message has more than 16384 fields";
                    status.code == tonic::Code::InvalidArgument as i32 && status.message.contains(text)
                }
            };
            assert_eq!(told, is_refused, "{count} {what}");
        }
    }
    let answer = client.call(LIMITS, [domain, of(&[], 2, 500_000)].concat(), None);
    let told = RateLimitResponse::decode(answer.expect("an answer")).expect("an answer");
    assert_eq!(told.overall_code, OVER_LIMIT);
    // Other entries of the message are reported.
    let entries = [of(&[1, 3], 13, LIMIT), of(&[1, 4], 4, LIMIT), of(&[1, 1], 22, LIMIT), of(&[], 1, 2)];
    client.call(LOGS, field(2, &entries.concat()), None).expect("an answer");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    for (result, count) in [("error", 3), ("reported", 2)] {
        let line =
            format!("bridge_als_entries_total{{log_name=\"\",result=\"{result}\",type=\"http\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{}", lines_with(&metrics, "bridge_als"));
    }
    let refused = client.call(LOGS, of(&[1, 1], 4, LIMIT), None).expect_err("an error");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
}

#[test]
fn decisions_are_logged_and_recorded() {
    let mut setting =
        Setting::start(&["--decision-log=$DIRECTORY/log", "--record-requests=$DIRECTORY/calls"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    // Again, from the cache.
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    let within: Vec<bool> = (0..3).map(|_| limit(&mut client, "a").expect("an answer")).collect();
    assert_eq!(within, [true, true, false]);
    log(&mut client, &["ann", "eve"]).expect("it is taken");
    assert_eq!(setting.server.terminate(), Ok(Some(0)));

    let logged = setting.lines("log");
    let methods: Vec<&str> = logged.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["check", "check", "check", "limit", "limit", "limit"], "{logged:#?}");
    let ids: std::collections::BTreeSet<&str> = logged
        .iter()
        .filter_map(|line| line["deduplicationId"].as_str())
        .filter(|id| id.len() == 36)
        .collect();
    assert_eq!(ids.len(), 6, "every decision has an id of its own: {logged:#?}");
    let denied = &logged[2];
    assert_eq!(denied["answer"]["status"]["code"], 7, "{denied}");
    assert_eq!(denied["rules"], serde_json::json!(["deny.rule.istio-system"]), "{denied}");
    assert_eq!(denied["attributes"]["request.headers"]["x-user"], "mallory", "{denied}");
    assert_eq!(denied["attributes"]["request.headers"]["authorization"], "***", "masked: {denied}");
    // Undeclared attributes are logged: a later configuration may declare them.
    assert_eq!(denied["attributes"]["request.method"], "GET", "{denied}");
    assert_eq!((&logged[0]["cached"], &logged[1]["cached"]), (&Value::Null, &Value::Bool(true)));
    let tried = denied["dryRun"].as_array().expect("rules in dry run");
    assert!(
        tried.iter().any(|t| t["rule"] == "tried.rule.istio-system" && t["outcome"] == "denied"),
        "{denied}"
    );
    let over = &logged[5];
    assert_eq!(over["attributes"]["ratelimit.descriptor"]["tenant"], "a", "{over}");
    assert_eq!(
        (&over["quotas"]["calls"]["amount"], &over["answer"]["quotas"]["calls"]["granted"]),
        (&1.into(), &0.into())
    );

    let recorded = setting.lines("calls");
    let methods: Vec<&str> = recorded.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["check", "check", "check", "report"], "{recorded:#?}");
    assert_eq!(recorded[3]["records"].as_array().map(Vec::len), Some(2), "{recorded:#?}");
    // Recorded requests are replayed on a configuration without the denial.
    let place = |name: &str| setting.directory.path().join(name).display().to_string();
    std::fs::create_dir(place("new")).expect("it is writable");
    let new = include_str!("direct.yaml").replace("mallory", "nobody");
    std::fs::write(Path::new(&place("new")).join("policy.yaml"), new).expect("it is writable");
    let arguments = [
        "diff",
        "--from",
        &place("policy"),
        "--to",
        &place("new"),
        "--requests",
        &place("calls"),
        "-o",
        "json",
    ];
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let finished = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).expect("it ends");
    assert_eq!(finished.status, 1, "{} {}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("- deny.rule.istio-system"), "{}", finished.stdout);
}

/// The policy where every check, and the descriptors of the domain `other`, take a quota.
fn with_quota(quota: &str) -> String {
    include_str!("direct.yaml").replace(
        "spec:\n  ratelimit:\n    quotas:\n",
        &format!(
            "spec:\n  check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {quota}}}]}}]}}]}}\n  ratelimit:\n    quotas:\n    \
             - {{domain: shop, entries: {{tenant: fails}}, quota: {quota}}}\n"
        ),
    )
}

#[test]
fn calls_that_fail_on_their_quota_are_logged_as_failures() {
    let policy = with_quota("broken") + &BROKEN.replace("INSTANCE", "broken");
    let mut setting = Setting::on(&policy, &["--decision-log=$DIRECTORY/log"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 13);
    assert!(!limit(&mut client, "fails").expect("an answer"), "the quota fails");
    assert!(limit(&mut client, "a").expect("an answer"));
    assert_eq!(setting.server.terminate(), Ok(Some(0)));
    let logged = setting.lines("log");
    let seen: Vec<_> = logged.iter().map(|line| (&line["method"], &line["error"]["name"])).collect();
    let [check, limit] = ["check", "limit"].map(Value::from);
    let [internal, unavailable] = ["INTERNAL", "UNAVAILABLE"].map(Value::from);
    assert_eq!(seen, [(&check, &internal), (&limit, &unavailable), (&limit, &Value::Null)], "{logged:#?}");
}

/// A rule `broken` whose handler fails every check and quota.
const BROKEN: &str = r#"---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: broken, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {path: 'request.path | ""'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: broken, namespace: istio-system}
spec:
  actions:
  - {handler: broken, instances: [INSTANCE]}
"#;

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

/// Envoy sends no id with its calls: one that it repeats charges again, and none is taken for the repetition of another.
#[test]
fn a_call_that_is_repeated_charges_again() {
    let setting = Setting::on(&with_quota("calls"), &[]);
    let mut client = setting.client();
    let limits: Vec<bool> = (0..3).map(|_| limit(&mut client, "fails").expect("an answer")).collect();
    assert_eq!(limits, [true, true, false], "descriptors");
    let checked = with_check("{quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}");
    let setting = Setting::on(&checked, &[]);
    let mut client = setting.client();
    let codes: Vec<i32> = (0..3).map(|_| check(&mut client, "/", "ann").expect("an answer")).collect();
    assert_eq!(codes, [0, 0, 8], "checks");
}

/// Requests for `/post` match both rules of the quotaSpec.
#[test]
fn charges_of_several_rules_for_one_quota_are_added() {
    for (all, post) in [(1, 5), (5, 1)] {
        let rules = format!(
            "[{{quotas: [{{quota: calls, charge: {all}}}]}}, \
             {{match: [{{clause: {{request.path: {{exact: /post}}}}}}], quotas: [{{quota: calls, charge: {post}}}]}}]"
        );
        let policy = include_str!("direct.yaml")
            .replace(
                "spec:\n  ratelimit:",
                &format!("spec:\n  check: {{quotaSpec: [{{rules: {rules}}}]}}\n  ratelimit:"),
            )
            .replace("maxAmount: 2,", "maxAmount: 6,");
        let mut setting = Setting::on(&policy, &["--decision-log=$DIRECTORY/log"]);
        let mut client = setting.client();
        assert_eq!(check(&mut client, "/post", "ann").expect("an answer"), 0, "{all}, {post}");
        assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 8, "{all}, {post}: all 6 are taken");
        assert_eq!(setting.server.terminate(), Ok(Some(0)));
        let logged = &setting.lines("log")[0];
        assert_eq!(
            (&logged["quotas"]["calls"]["amount"], &logged["answer"]["quotas"]["calls"]["granted"]),
            (&6.into(), &6.into()),
            "{logged}"
        );
    }
}

/// The expressions of clauses search as much of a long text as those of conditions; beyond it a request is charged.
#[test]
fn a_path_that_is_too_long_to_be_searched_is_charged() {
    let clauses = |count: usize| -> String {
        (0..count).map(|n| format!("{{clause: {{request.path: {{regex: \"/[a-z]*{n}\"}}}}}},")).collect()
    };
    let long = format!("/{}", "a".repeat(500_000));
    // 16 times 500 001 bytes are less than 8 MiB.
    for (count, codes) in [(16, [0, 0, 0, 0, 0]), (17, [0, 0, 0, 0, 8])] {
        let rules = format!("[{{match: [{}], quotas: [{{quota: calls}}]}}]", clauses(count));
        let setting = Setting::on(&with_check(&format!("{{quotaSpec: [{{rules: {rules}}}]}}")), &[]);
        let mut client = setting.client();
        let found =
            ["/", "/a", &long, &long, &long].map(|path| check(&mut client, path, "ann").expect("an answer"));
        assert_eq!(found, codes, "{count} clauses");
    }
}

/// The policy where checks have these settings.
fn with_check(settings: &str) -> String {
    include_str!("direct.yaml")
        .replace("spec:\n  ratelimit:", &format!("spec:\n  check: {settings}\n  ratelimit:"))
}

#[test]
fn decisions_cached_without_metadata_are_not_used_with_it() {
    let policy = |metadata: bool| {
        let message = "status: {code: 7, message: not welcome}";
        with_check(&format!("{{responseMetadata: {metadata}, cache: {{maxAge: 3600s}}}}"))
            .replace(message, &format!("{message}\n    validDuration: 3600s"))
            // A rule in dry run, which would keep the answer out of the cache, no longer matches.
            .replacen("mallory", "eve", 1)
    };
    let setting = Setting::on(&policy(false), &[]);
    let mut client = setting.client();
    let mut metadata = || {
        let answer = client.call(AUTHORIZATION, check_request("/", "eve"), None).expect("an answer");
        CheckResponse::decode(answer).expect("a response").dynamic_metadata
    };
    assert!(metadata().is_none());
    let place = setting.directory.path().join("policy");
    std::fs::write(place.join("new"), policy(true)).expect("it is writable");
    std::fs::rename(place.join("new"), place.join("policy.yaml")).expect("it is writable");
    let first = wait_for(DEADLINE, &mut metadata).expect("the new settings");
    for metadata in [first, metadata().expect("metadata")] {
        let rules = format!("{:?}", metadata.fields.get("mixer_rules"));
        assert!(rules.contains("deny.istio-system"), "{rules}");
    }
}

#[test]
fn limits_that_are_no_longer_configured_are_forgotten() {
    const LIMITS_EACH: usize = 64;
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let place = setting.directory.path().join("policy");
    for generation in 0..12 {
        let keys = (0..LIMITS_EACH)
            .map(|n| format!("- {{key: k{n}, rate_limit: {{unit: hour, requests_per_unit: 9}}}}\n"));
        let text = format!("domain: d{generation}\ndescriptors:\n{}", keys.collect::<String>());
        std::fs::write(place.join("new"), text).expect("it is writable");
        std::fs::rename(place.join("new"), place.join("limits.yaml")).expect("it is writable");
        let descriptors = (0..LIMITS_EACH).map(|n| {
            let entry = rate_limit_descriptor::Entry { key: format!("k{n}"), value: "v".to_owned() };
            RateLimitDescriptor { entries: vec![entry], ..Default::default() }
        });
        let domain = format!("d{generation}");
        let request = RateLimitRequest { domain, descriptors: descriptors.collect(), hits_addend: 1 };
        let matched = wait_for(DEADLINE, || {
            let answer = client.call(LIMITS, request.encode_to_vec(), None).expect("an answer");
            let answer = RateLimitResponse::decode(answer).expect("a response");
            answer.statuses.iter().all(|status| status.current_limit.is_some()).then_some(())
        });
        assert!(matched.is_some(), "generation {generation} is in force");
    }
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let of = |start: &str| metrics.lines().filter(|line| line.starts_with(start)).count();
    let name = "ratelimit_service_rate_limit_total_hits";
    assert_eq!(of(&format!("{name}{{domain=\"d11\"")), LIMITS_EACH);
    let all = of(&format!("{name}{{"));
    assert!(all < 6 * LIMITS_EACH, "{all} limits of {} are exposed", 12 * LIMITS_EACH);
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

#[test]
fn rules_in_dry_run_are_counted_for_envoy() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // Twice: a request that a rule in dry run matches is not answered from the cache.
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert!(limit(&mut client, "a").expect("an answer"));
    log(&mut client, &["ann", "eve"]).expect("it is taken");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    for line in [
        r#"mixer_dry_run_outcomes_total{outcome="denied",rule="tried.rule.istio-system",variety="check"} 2"#,
        r#"mixer_dry_run_outcomes_total{outcome="matched",rule="tried-limit.rule.istio-system",variety="quota"} 1"#,
        r#"mixer_dry_run_outcomes_total{outcome="matched",rule="tried-log.rule.istio-system",variety="report"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{}", lines_with(&metrics, "dry_run"));
    }
    for method in [AUTHORIZATION, LIMITS, LOGS] {
        let line = format!(r#"grpc_server_method="{}""#, &method[1..]);
        assert!(metrics.contains(&line), "{line}\n{}", lines_with(&metrics, "grpc_io_server"));
    }
}

fn lines_with(text: &str, part: &str) -> String {
    text.lines().filter(|line| line.contains(part)).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_callers_name_is_not_kept() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let long = "x".repeat(1 << 19);
    let entry = TcpAccessLogEntry {
        common_properties: Some(AccessLogCommon {
            access_log_type: 2,
            stream_id: long.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let entries = stream_access_logs_message::TcpAccessLogEntries { log_entry: vec![entry] };
    let message = StreamAccessLogsMessage {
        identifier: Some(stream_access_logs_message::Identifier { node: None, log_name: long.clone() }),
        log_entries: Some(stream_access_logs_message::LogEntries::TcpLogs(entries)),
    };
    client.call(LOGS, message.encode_to_vec(), None).expect("it is taken");
    let request =
        RateLimitRequest { domain: long, descriptors: vec![RateLimitDescriptor::default()], hits_addend: 0 };
    client.call(LIMITS, request.encode_to_vec(), None).expect("it is answered");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let longest = metrics.lines().map(str::len).max();
    assert!(longest < Some(1200), "{longest:?}");
    for line in [
        "bridge_tcp_state_entries 0",
        r#"bridge_ratelimit_total{domain="other",result="no_match"} 1"#,
        r#"result="reported",type="tcp"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{}", lines_with(&metrics, "bridge_"));
    }
}

#[test]
fn calls_past_the_pool_and_its_queue_are_refused() {
    let setting = Setting::start(&["--apiWorkerPoolSize=1", "--api-queue-length=0"]);
    let slow: Vec<_> = (0..4)
        .map(|number| {
            let mut client = setting.client();
            // Different paths: none is answered from the cache.
            std::thread::spawn(move || check(&mut client, &format!("/slow/{number}"), "ann"))
        })
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for caller in slow {
        match caller.join().expect("it does not panic") {
            Ok(code) => {
                assert_eq!(code, 0);
                answered += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
                refused += 1;
            }
        }
    }
    assert!(answered >= 1 && refused >= 1, "{answered} answered, {refused} refused");
    // Synchronous calls bypass the pool.
    assert_eq!(check(&mut setting.client(), "/", "ann").expect("an answer"), 0);
}

#[test]
fn calls_are_shed() {
    let arguments = ["--loadsheddingMode=enforce", "--maxRequestsPerSecond=0.001", "--burstSize=2"];
    let setting = Setting::start(&arguments);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "ann").expect("within the burst"), 0);
    let mut refused = 0;
    for _ in 0..3 {
        let answers = [check(&mut client, "/", "ann").map(drop), limit(&mut client, "b").map(drop)];
        for status in answers.into_iter().filter_map(Result::err) {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
            refused += 1;
        }
    }
    assert!(refused >= 4, "{refused} of 6");
    let status = log(&mut client, &["ann"]).expect_err("refused too");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
}

#[test]
fn calls_are_traced() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}/api/v1/spans", listener.local_addr().expect("it is bound"));
    let received = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&received);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let taken = Arc::clone(&taken);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = socket.read(&mut buffer) {
                    taken.lock().expect("not poisoned").extend_from_slice(&buffer[..length]);
                    // Accepted undecoded: the test searches the bytes for names.
                    let _ = socket.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    let setting = Setting::start(&["--trace_zipkin_url", &url, "--trace_sampling_rate=1"]);
    let mut client = setting.client();
    assert_eq!(check(&mut client, "/", "mallory").expect("an answer"), 7);
    assert!(limit(&mut client, "a").expect("an answer"));
    log(&mut client, &["ann"]).expect("it is taken");
    let wanted = [
        AUTHORIZATION,
        LIMITS,
        LOGS,
        "checknothing:deny.istio-system(denier)",
        "Quota calls",
        "attribute bag 0",
    ];
    let seen = wait_for(DEADLINE, || {
        let bytes = received.lock().expect("not poisoned");
        let has = |name: &&str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        wanted.iter().all(has).then_some(())
    });
    let bytes = received.lock().expect("not poisoned");
    assert!(seen.is_some(), "{}", String::from_utf8_lossy(&bytes));
}

#[test]
fn the_deadline_of_a_call_bounds_its_handlers() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let started = std::time::Instant::now();
    let answer = client.call(AUTHORIZATION, check_request("/hang", "ann"), Some(Duration::from_millis(300)));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // INTERNAL, or an ended call: the failure mode of the proxy applies.
    match answer {
        Ok(answer) => {
            let response = CheckResponse::decode(answer).expect("a response");
            assert_eq!(response.status.expect("a status").code, 13);
        }
        // Client or server, whichever notices first.
        Err(status) => {
            let ended = [tonic::Code::DeadlineExceeded, tonic::Code::Cancelled];
            assert!(ended.contains(&status.code()), "{status}");
        }
    }
}

fn mixer(arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let finished = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE).expect("it ends");
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished.stdout
}

#[test]
fn routes_and_explanations_include_the_configuration_for_envoy() {
    let policy = format!("fs://{}/examples/envoy/policy", env!("CARGO_MANIFEST_DIR"));
    let routes = mixer(&["routes", "show", "--config", &policy, "-o", "plain"]);
    let line = |what: &str| routes.lines().find(|line| line.starts_with(what)).unwrap_or_default().to_owned();
    for part in ["request header x-user", "request.user", "mapping.yaml:"] {
        assert!(line("mapping").contains(part), "{part}\n{routes}");
    }
    for part in ["shop.plan_free", "3 per HOUR", "limits.yaml:"] {
        assert!(line("limit").contains(part), "{part}\n{routes}");
    }
    let routes: Value =
        serde_json::from_str(&mixer(&["routes", "show", "--config", &policy, "-o", "json"])).expect("JSON");
    assert_eq!(routes["envoy"][0]["to"], "request.user", "{routes}");
    let why = mixer(&["check", "--config", &policy, "--explain", "-s", "request.user=mallory"]);
    assert!(why.contains("request.user from request header x-user"), "{why}");
}

#[test]
fn the_example_runs_with_one_command() {
    the_example_runs("grpc");
}

/// Only the headers that Envoy lists reach the rules, and the service.
#[test]
fn the_example_over_http_lists_the_headers() {
    the_example_runs("http");
}

fn the_example_runs(checks: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy/run.sh");
    let mut environment: Vec<(String, String)> = vec![
        ("ENVOY".to_owned(), crate::support::envoy::program().display().to_string()),
        ("MIXER".to_owned(), env!("CARGO_BIN_EXE_mixer").to_owned()),
        ("CHECKS".to_owned(), checks.to_owned()),
    ];
    for name in [
        "ENVOY_PORT",
        "ADMIN_PORT",
        "UPSTREAM_PORT",
        "MIXER_PORT",
        "CHECK_PORT",
        "MONITORING_PORT",
        "METRICS_PORT",
    ] {
        environment.push((name.to_owned(), free_port().to_string()));
    }
    let finished = run(&script, &[], &environment, None, None, DEADLINE).expect("it ends");
    assert_eq!(finished.status, 0, "{}{}", finished.stdout, finished.stderr);
    for part in [
        "hello, ann",
        "PERMISSION_DENIED:deny.istio-system:mallory is not welcome",
        "x-envoy-ratelimited: true",
        r#"istio_requests{code="200",user="ann"} 1"#,
        r#"istio_requests{code="429",user="bob"} 1"#,
        r#"bridge_ratelimit_total{domain="shop",result="over"} 1"#,
    ] {
        assert!(finished.stdout.contains(part), "{part}\n{}", finished.stdout);
    }
}

#[test]
fn without_configuration_nothing_is_answered_over_http() {
    let directory = tempfile::tempdir().expect("a directory");
    let [checks, limits] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let arguments = ["--envoy-http-address", &checks, "--envoy-ratelimit-http-address", &limits];
    let _server = Server::on(directory.path()).native().with(&arguments).start();
    for (address, method, path, body) in [
        (&checks, "GET", "/check/cart", ""),
        (&checks, "POST", "/cart", "{}"),
        (
            &limits,
            "POST",
            "/json",
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "a"}]}]}"#,
        ),
        (&limits, "POST", "/json", "no JSON"),
        (&limits, "GET", "/healthcheck", ""),
        (&limits, "GET", "/rlconfig", ""),
    ] {
        let answer = http(method, &format!("http://{address}{path}"), body).expect("an answer");
        assert_eq!(answer.status, 503, "{path}: {}", answer.body);
        assert!(answer.body.starts_with("no configuration is served: "), "{path}: {}", answer.body);
    }
}
