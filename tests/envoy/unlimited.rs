//! What operators are told of rate limits: those that nobody has configured, limits of files, and refusals of quotas.

use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;
use serde_json::{Value, json};

use crate::direct::{LIMITS, Setting, check, limit};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, http, run_mixer, wait_for};

/// Answers OK.
fn ask(client: &mut Client, domain: &str, entries: &[(&str, &str)]) {
    ask_for(client, domain, &[entries]);
}

/// Answers OK to a call of several descriptors.
fn ask_for(client: &mut Client, domain: &str, descriptors: &[&[(&str, &str)]]) {
    let entry = |(key, value): &(&str, &str)| rate_limit_descriptor::Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    let descriptor = |entries: &&[(&str, &str)]| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..Default::default()
    };
    let descriptors = descriptors.iter().map(descriptor).collect();
    let request = RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 };
    let answer = client.call(LIMITS, request.encode_to_vec(), None).expect("an answer");
    assert_eq!(RateLimitResponse::decode(answer).expect("a response").overall_code, 1);
}

#[test]
fn rate_limits_that_are_not_configured_are_told() {
    let setting = Setting::on(include_str!("direct.yaml"), &[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", setting.server.ports.ctrlz);
    let page = |path: &str| http("GET", &url(path), "").expect("a page").body;
    let unlimited = || -> Value { serde_json::from_str(&page("/unlimitedj/")).expect("JSON") };
    let mut client = setting.client();
    // A quota is for these keys.
    ask(&mut client, "shop", &[("tenant", "a")]);
    assert_eq!(unlimited()["groups"], json!([]));
    assert!(!page("/").contains("not configured") && !page("/quotaz/").contains("not configured"));

    for _ in 0..3 {
        ask(&mut client, "shopp", &[("tenant", "a"), ("path\n", "/x?token=secret")]);
    }
    // A quota is for one of the descriptors, and nothing for the other.
    ask_for(&mut client, "shop", &[&[("tenant", "a")], &[("user", "ann")]]);
    let told = unlimited();
    let shown = |group: &Value| json!([group["domain"], group["keys"], group["calls"], group["why"]]);
    let groups: Vec<Value> = told["groups"].as_array().expect("groups").iter().map(shown).collect();
    let nothing = "no limits file and no entry of `ratelimit.quotas` is for the domain (did you mean `shop`?): \
        nothing limits them";
    let others = "the limits and quotas for the domain are for other keys: nothing limits them";
    let expected = [json!(["shopp", "tenant.path\\n", 3, nothing]), json!(["shop", "user", 1, others])];
    assert_eq!(groups, expected, "{told}");
    for path in ["/", "/quotaz/"] {
        let page = page(path);
        assert!(page.contains("not configured") && page.contains("tenant.path\\n"), "{path}: {page}");
        assert!(page.contains("name a quota for them in `ratelimit.quotas`"), "{path}: {page}");
        assert!(!page.contains("secret"), "{path}: {page}");
    }

    let monitoring = setting.server.ports.monitoring.to_string();
    let ctrlz = setting.server.ports.ctrlz.to_string();
    let address = setting.server.address();
    let flags = ["--monitoring-port", &monitoring, "--ctrlz-port", &ctrlz, "--address", &address];
    let done = run_mixer(&[&["doctor", "-o", "json"], &flags[..]].concat());
    let found: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let of_limits: Vec<&Value> = found["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|f| f["check"] == "rate limits")
        .collect();
    assert_eq!(of_limits.len(), 2, "{found}");
    assert_eq!(of_limits[0]["verdict"], "warn");
    let detail = format!("Envoy asks for domain `shopp` with keys `tenant.path\\n` (3 calls): {nothing}");
    assert_eq!(of_limits[0]["detail"], detail);

    setting.server.wait_for_log(nothing);
    let log = setting.server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(nothing)).collect();
    assert_eq!(lines.len(), 1, "once for a domain and its keys: {log}");
    assert!(
        ["shopp", "tenant.path", "name a quota for them"].iter().all(|part| lines[0].contains(part)),
        "{log}"
    );

    // A configuration that has the limit ends the notice.
    setting.put(
        "limits.yaml",
        "domain: shopp\ndescriptors: [{key: tenant, rate_limit: {unit: hour, requests_per_unit: 9}}]\n",
    );
    let ended = wait_for(DEADLINE, || (unlimited()["groups"] == json!([])).then_some(()));
    assert!(ended.is_some(), "{}", unlimited());
}

#[test]
fn a_refusal_of_a_quota_is_a_denial_of_the_quota() {
    let setting = Setting::on(include_str!("direct.yaml"), &[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", setting.server.ports.ctrlz);
    let page = |path: &str| http("GET", &url(path), "").expect("a page").body;
    let json = |path: &str| -> Value { serde_json::from_str(&page(path)).expect("JSON") };
    let mut client = setting.client();
    let within = [(); 4].map(|()| limit(&mut client, "big").expect("an answer"));
    assert_eq!(within, [true, true, false, false]);
    let groups = json("/denialgroupj/");
    let group = &groups["groups"][0];
    assert_eq!(
        (&group["kind"], &group["by"], &group["count"]),
        (&"quota".into(), &"calls".into(), &2.into())
    );
    assert_eq!(groups["groups"].as_array().map(Vec::len), Some(1), "{groups}");
    assert_eq!(json("/denialj/")[0]["message"], "Quota is exhausted for: calls");
    let denials = page("/denialz/");
    assert!(denials.contains("name=calls.instance.istio-system"), "it leads to the instance: {denials}");

    // A quota that fails refuses, too.
    let memory = "compiledAdapter: memquota
  params:
    quotas:
    - {name: calls.instance.istio-system, maxAmount: 2, validDuration: 600s}";
    let failing =
        include_str!("direct.yaml").replace(memory, "compiledAdapter: drill\n  params: {outcome: ERROR}");
    let broken = Setting::on(&failing, &[]);
    let mut client = broken.client();
    assert!(!limit(&mut client, "big").expect("an answer"), "errorMode: closed");
    let url = format!("http://127.0.0.1:{}/denialj/", broken.server.ports.ctrlz);
    let denials: Value = serde_json::from_str(&http("GET", &url, "").expect("a page").body).expect("JSON");
    assert_eq!((&denials[0]["kind"], &denials[0]["by"]), (&"quota".into(), &"calls".into()), "{denials}");
    assert_eq!(denials[0]["message"], "Quota failed: calls");
}

#[test]
fn limits_of_files_are_shown_with_their_hits() {
    let setting = Setting::on(include_str!("direct.yaml"), &[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", setting.server.ports.ctrlz);
    let page = |path: &str| http("GET", &url(path), "").expect("a page").body;
    let limits = "domain: edge\ndescriptors:\n- key: user\n  rate_limit: {unit: day, requests_per_unit: 2}\n\
        - {key: plan, value: free, descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 9}}]}\n\
        - {key: a.b, rate_limit: {unit: day, requests_per_unit: 9}}\n\
        - {key: a, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]}\n";
    setting.put("limits.yaml", limits);
    let known = wait_for(DEADLINE, || page("/quotaz/").contains("edge.plan_free.path").then_some(()));
    assert!(known.is_some(), "{}", page("/quotaz/"));
    let mut client = setting.client();
    for _ in 0..2 {
        ask(&mut client, "edge", &[("user", "ann")]);
        ask(&mut client, "edge", &[("plan", "free"), ("path", "/")]);
    }
    (0..3).for_each(|_| ask(&mut client, "edge", &[("a.b", "1")]));
    ask(&mut client, "edge", &[("a", "1"), ("b", "1")]);
    for entries in [&[("user", "ann")][..], &[("a", "1"), ("b", "1")]] {
        let entry = |(key, value): &(&str, &str)| rate_limit_descriptor::Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let entries = entries.iter().map(entry).collect();
        let descriptor = RateLimitDescriptor { entries, ..Default::default() };
        let request =
            RateLimitRequest { domain: "edge".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
        client.call(LIMITS, request.encode_to_vec(), None).expect("an answer");
    }
    let denied: Value = serde_json::from_str(&page("/denialj/")).expect("JSON");
    let message = denied[0]["message"].as_str().unwrap_or_default();
    assert_eq!((&denied[0]["kind"], &denied[0]["by"]), (&"limit".into(), &"edge.a.b".into()), "{denied}");
    assert!(
        message.starts_with("over the limit of 1 per DAY (") && message.ends_with("limits.yaml:7)"),
        "{denied}"
    );
    let page = page("/quotaz/");
    // The same name of two limits, each with its own hits and line.
    for (hits, line) in [(3, 6), (2, 7)] {
        let is_row = |row: &&str| {
            row.contains("<code>edge.a.b</code>")
                && row.contains(&format!("data-label=\"Hits\">{hits}<"))
                && row.contains(&format!("limits.yaml:{line}"))
        };
        assert_eq!(page.split("<tr>").filter(is_row).count(), 1, "{hits} {line}: {page}");
    }
    let row = |name: &str| {
        page.split("<tr>").find(|row| row.contains(&format!("<code>{name}</code>"))).expect("a row")
    };
    let user = row("edge.user");
    assert!(user.contains("data-label=\"Hits\">3<") && user.contains("<span class=\"bad\">1<"), "{page}");
    assert!(page.contains("2 per DAY") && page.contains("9 per DAY"), "{page}");
    assert!(row("edge.plan_free.path").contains("data-label=\"Hits\">2<"), "{page}");
}

/// A rule with a quota, and nothing for Envoy.
const QUOTA: &str = "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limits, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: user.instance.istio-system, maxAmount: 1, validDuration: 60s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: limit, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [user]}]}
";

#[test]
fn quotas_that_no_check_of_envoy_is_charged_to_are_told_once_envoy_asks() {
    let setting = Setting::on(QUOTA, &[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", setting.server.ports.ctrlz);
    let page = |path: &str| http("GET", &url(path), "").expect("a page").body;
    let told = || -> Value { serde_json::from_str(&page("/unlimitedj/")).expect("JSON") };
    const TEXT: &str = "o check of Envoy is charged to quotas that rules configure";
    // A server of Mixer's clients alone has nothing to tell.
    assert_eq!(told()["uncharged"], json!([]));
    assert!(!page("/").contains(TEXT) && !setting.server.log().contains(TEXT));

    let mut client = setting.client();
    for _ in 0..3 {
        assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 0);
    }
    assert_eq!(told()["uncharged"], json!(["user"]));
    for path in ["/", "/quotaz/"] {
        let page = page(path);
        assert!(page.contains(TEXT) && page.contains("<code>user</code>"), "{path}: {page}");
        assert!(page.contains("check.quotaSpec"), "{path}: {page}");
    }
    setting.server.wait_for_log(TEXT);
    let log = setting.server.log();
    assert_eq!(log.lines().filter(|line| line.contains(TEXT)).count(), 1, "once: {log}");
    let (monitoring, ctrlz) =
        (setting.server.ports.monitoring.to_string(), setting.server.ports.ctrlz.to_string());
    let address = setting.server.address();
    let flags = ["--monitoring-port", &monitoring, "--ctrlz-port", &ctrlz, "--address", &address];
    let done = run_mixer(&[&["doctor", "-o", "json"], &flags[..]].concat());
    let found: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    let findings = found["findings"].as_array().expect("findings");
    let of_quotas = findings.iter().find(|finding| finding["check"] == "quotas").expect("a finding");
    assert_eq!(of_quotas["verdict"], "warn");
    assert_eq!(of_quotas["detail"], format!("n{TEXT}: user"));

    // With a resource for Envoy, the configuration has the warning, or the quota is named.
    setting.put(
        "bridge.yaml",
        "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {name: default, namespace: istio-system}\nspec: {check: {quotaSpec: [{rules: [{quotas: [{quota: user}]}]}]}}\n",
    );
    let ended = wait_for(DEADLINE, || {
        let refused = check(&mut client, "/", "ann").expect("an answer") == 8;
        (refused && told()["uncharged"] == json!([])).then_some(())
    });
    assert!(ended.is_some(), "{}", told());
}
