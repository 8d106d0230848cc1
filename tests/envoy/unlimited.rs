//! Envoy asks for rate limits that nobody has configured: its requests pass, and operators are told.

use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;
use serde_json::{Value, json};

use crate::direct::{LIMITS, Setting};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, http, run_mixer, wait_for};

/// Answers OK.
fn ask(client: &mut Client, domain: &str, entries: &[(&str, &str)]) {
    let entry = |(key, value): &(&str, &str)| rate_limit_descriptor::Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    let descriptor =
        RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() };
    let request =
        RateLimitRequest { domain: domain.to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
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
    ask(&mut client, "shop", &[("user", "ann")]);
    let told = unlimited();
    let shown = |group: &Value| json!([group["domain"], group["keys"], group["calls"], group["why"]]);
    let groups: Vec<Value> = told["groups"].as_array().expect("groups").iter().map(shown).collect();
    let nothing = "no limits file and no entry of `ratelimit.quotas` is for the domain (did you mean `shop`?): \
        the calls are answered OK";
    let others = "the limits and quotas for the domain are for other keys: the calls are answered OK";
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
