//! What Envoy does not tell, and what configuration does not say as it is meant: nothing of it opens a door.

use std::path::Path;

use mixer_wire::envoy::config::core::v3::{
    Address, HeaderMap, HeaderValue, Metadata, SocketAddress, address,
};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use mixer_wire::envoy::service::auth::v3::{AttributeContext, CheckRequest, CheckResponse};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;

use crate::direct::{AUTHORIZATION, LIMITS, Setting};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, programs, run};

/// PERMISSION_DENIED and RESOURCE_EXHAUSTED.
pub(crate) const DENIED: i32 = 7;
pub(crate) const EXHAUSTED: i32 = 8;

/// A check of a request.
pub(crate) struct Asked(AttributeContext);

impl Asked {
    pub(crate) fn of(method: &str, path: &str) -> Self {
        let http = HttpRequest { method: method.to_owned(), path: path.to_owned(), ..HttpRequest::default() };
        let request = Request { time: None, http: Some(http) };
        Self(AttributeContext { request: Some(request), ..AttributeContext::default() })
    }

    pub(crate) fn from(mut self, principal: &str, address: &str) -> Self {
        let socket = SocketAddress { address: address.to_owned(), port_value: 1234 };
        let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
        self.0.source = Some(Peer { principal: principal.to_owned(), address, ..Peer::default() });
        self
    }

    pub(crate) fn to(mut self, principal: &str) -> Self {
        self.0.destination = Some(Peer { principal: principal.to_owned(), ..Peer::default() });
        self
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.context_extensions.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn headers(mut self, headers: &[(&str, &[u8])]) -> Self {
        let header = |(name, value): &(&str, &[u8])| HeaderValue {
            key: (*name).to_owned(),
            raw_value: value.to_vec().into(),
            ..HeaderValue::default()
        };
        if let Some(http) = self.0.request.as_mut().and_then(|request| request.http.as_mut()) {
            http.header_map = Some(HeaderMap { headers: headers.iter().map(header).collect() });
        }
        self
    }

    /// With a body, as Envoy packs it.
    pub(crate) fn body(mut self, text: &str, as_bytes: bool) -> Self {
        if let Some(http) = self.0.request.as_mut().and_then(|request| request.http.as_mut()) {
            if as_bytes {
                http.raw_body = text.as_bytes().to_vec().into();
            } else {
                http.body = text.to_owned();
            }
        }
        self
    }

    pub(crate) fn answer(self, client: &mut Client) -> CheckResponse {
        let body = CheckRequest { attributes: Some(self.0) }.encode_to_vec();
        let answer = client.call(AUTHORIZATION, body, None).expect("an answer");
        CheckResponse::decode(answer).expect("a response")
    }

    /// Code and message of the answer.
    pub(crate) fn ask(self, client: &mut Client) -> (i32, String) {
        let status = self.answer(client).status.expect("a status");
        (status.code, status.message)
    }

    pub(crate) fn code(self, client: &mut Client) -> i32 {
        self.ask(client).0
    }
}

/// Whether a call with one descriptor is within its limits.
pub(crate) fn limit(client: &mut Client, domain: &str, entry: (&str, &str)) -> Result<bool, tonic::Status> {
    let entry = rate_limit_descriptor::Entry { key: entry.0.to_owned(), value: entry.1.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: domain.to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
    let answer = client.call(LIMITS, request.encode_to_vec(), None)?;
    Ok(RateLimitResponse::decode(answer).expect("a response").overall_code == 1)
}

/// The problems that `mixer validate` finds, as `SEVERITY[CODE]: MESSAGE; HINT`.
pub(crate) fn validated(text: &str, arguments: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("policy.yaml"), text).expect("it is writable");
    let mut all = vec!["validate".to_owned(), "--output".to_owned(), "json".to_owned()];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    all.push(directory.path().display().to_string());
    let ran = run(&programs().path("mixer"), &all, &[], None, None, DEADLINE).expect("it ends");
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let text =
        |problem: &serde_json::Value, name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    let shown = |problem: &serde_json::Value| {
        let [severity, code, message, hint] =
            ["severity", "code", "message", "hint"].map(|name| text(problem, name));
        format!("{severity}[{code}]: {message}; {hint}")
    };
    told["diagnostics"].as_array().expect("a list").iter().map(shown).collect()
}

/// The one problem that `mixer validate` finds.
fn only_problem(text: &str) -> String {
    let told = validated(text, &[]);
    assert_eq!(told.len(), 1, "{told:#?}");
    told.into_iter().next().unwrap_or_default()
}

pub(crate) const MANIFEST: &str = "kind: attributemanifest
metadata: {name: proxy, namespace: istio-system}
spec:
  attributes:
    destination.namespace: {valueType: STRING}
    origin.ip: {valueType: IP_ADDRESS}
    request.auth.claims: {valueType: STRING_MAP}
    request.headers: {valueType: STRING_MAP}
    request.method: {valueType: STRING}
    request.url_path: {valueType: STRING}
    source.namespace: {valueType: STRING}
---
";

/// The example of docs/configuration.md.
fn default_deny() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let section = page.split("\n## Default deny\n").nth(1).expect("the section");
    section
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("its example")
        .to_owned()
}

const DENY_ADMIN: &str = "---
kind: handler
metadata: {name: deny, namespace: shop}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: rule
metadata: {name: no-admin, namespace: shop}
spec:
  match: request.url_path == \"/admin\"
  actions: [{handler: deny, instances: [request]}]
";

pub(crate) const SHOP: &str = "spiffe://cluster.local/ns/shop/sa/till";
const STAFF: &str = "spiffe://cluster.local/ns/staff/sa/ann";

pub(crate) fn bridge(spec: &str) -> String {
    format!("---\nkind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\nspec: {spec}\n")
}

#[test]
fn a_request_without_namespace_is_refused_while_rules_of_namespaces_may_refuse_it() {
    let rules = format!("{MANIFEST}{}{DENY_ADMIN}", default_deny());
    let setting = Setting::on(&rules, &[]);
    let mut client = setting.client();
    for path in ["/", "/admin"] {
        let (code, message) = Asked::of("GET", path).from("", "10.0.0.7").ask(&mut client);
        assert_eq!(code, DENIED, "{path}");
        assert!(message.contains("the request names no namespace"), "{message}");
    }
    assert_eq!(Asked::of("POST", "/").from(STAFF, "10.0.0.7").code(&mut client), DENIED, "it may be any");
    assert_eq!(Asked::of("GET", "/").with("destination.namespace", "").code(&mut client), DENIED);
    // Those that name one.
    assert_eq!(Asked::of("POST", "/").from(STAFF, "10.0.0.7").to(SHOP).code(&mut client), 0);
    let (code, message) = Asked::of("GET", "/").from(STAFF, "10.0.0.7").to(SHOP).ask(&mut client);
    assert!(code == DENIED && message.contains("default of closed.rule.shop"), "{message}");
    assert_eq!(Asked::of("POST", "/admin").from(STAFF, "10.0.0.7").to(SHOP).code(&mut client), DENIED);
    assert_eq!(Asked::of("GET", "/").with("destination.namespace", "other").code(&mut client), 0);
    // Those that misspell one would get the rules of the mesh alone.
    for named in ["Shop", "SHOP", " shop"] {
        let (code, message) = Asked::of("POST", "/")
            .from(STAFF, "10.0.0.7")
            .with("destination.namespace", named)
            .ask(&mut client);
        let told = format!("the request names namespace `{named}`, and the rules are in `shop`");
        assert!(code == DENIED && message.contains(&told), "{named}: {code} {message}");
    }
    for named in ["shops", "Other", "Istio-System", "istio-system"] {
        assert_eq!(
            Asked::of("GET", "/").with("destination.namespace", named).code(&mut client),
            0,
            "{named}"
        );
    }
    // The API of Mixer answers as Istio Mixer.
    let answer = client.call("/istio.mixer.v1.Mixer/Check", Vec::new(), None).expect("an answer");
    let answer = mixer_wire::istio::mixer::v1::CheckResponse::decode(answer).expect("a response");
    let status = answer.precondition.and_then(|p| p.status).unwrap_or_default();
    assert_eq!(status.code, 0, "{}", status.message);
    drop(setting);

    // The setting says which; a certificate is stronger, also than a constant.
    for spec in ["{defaultNamespace: shop}", "{check: {staticAttributes: {destination.namespace: shop}}}"] {
        let setting = Setting::on(&format!("{rules}{}", bridge(spec)), &[]);
        let mut client = setting.client();
        assert_eq!(Asked::of("POST", "/").from(STAFF, "10.0.0.7").code(&mut client), 0, "{spec}");
        let (code, message) = Asked::of("GET", "/").ask(&mut client);
        assert!(code == DENIED && message.contains("default of closed.rule.shop"), "{spec}: {message}");
        assert_eq!(Asked::of("POST", "/admin").from(STAFF, "10.0.0.7").code(&mut client), DENIED, "{spec}");
        let other = "spiffe://cluster.local/ns/other/sa/x";
        assert_eq!(Asked::of("GET", "/").to(other).code(&mut client), 0, "{spec}");
    }
    // A failure that the caller provokes changes nothing.
    let failing = "---
kind: handler
metadata: {name: list, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [a], blacklist: true}}
---
kind: instance
metadata: {name: agent, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: request.headers[\"x\"]}}
---
kind: rule
metadata: {name: agents, namespace: istio-system}
spec: {actions: [{handler: list, instances: [agent]}]}
";
    let setting = Setting::on(&format!("{rules}{failing}{}", bridge("{check: {errorMode: open}}")), &[]);
    assert_eq!(Asked::of("GET", "/").code(&mut setting.client()), DENIED);
    drop(setting);
    let setting = Setting::on(&format!("{rules}{}", bridge("{defaultNamespace: istio-system}")), &[]);
    assert_eq!(
        Asked::of("GET", "/admin").code(&mut setting.client()),
        0,
        "the namespace of the mesh, on purpose"
    );
}

#[test]
fn requests_without_namespace_are_warned_of() {
    let rules = format!("{MANIFEST}{}{DENY_ADMIN}", default_deny());
    let with = |spec: &str| format!("{rules}{}", bridge(spec));
    let warned = only_problem(&with("{check: {errorMode: closed}}"));
    assert!(warned.contains("warning[envoy-namespace-unknown]"), "{warned}");
    assert!(warned.contains("defaultNamespace: shop"), "{warned}");
    for named in ["{defaultNamespace: shop}", "{check: {staticAttributes: {destination.namespace: shop}}}"] {
        assert_eq!(validated(&with(named), &[]), [""; 0], "{named}");
    }
    for misspelt in [
        "{defaultNamespace: shpo}",
        "{defaultNamespace: Shop}",
        "{defaultNamespace: \"shop \"}",
        "{check: {staticAttributes: {destination.namespace: shpo}}}",
        "{check: {reporterKind: outbound, staticAttributes: {source.namespace: shpo}}}",
    ] {
        let told = only_problem(&with(misspelt));
        assert!(told.contains("error[namespace-unused]") && told.contains("`shop`"), "{told}");
    }
    // The namespace of the mesh is meant; that of the source selects nothing here.
    for meant in [
        "{defaultNamespace: istio-system}",
        "{defaultNamespace: shop, check: {staticAttributes: {source.namespace: gateway}}}",
    ] {
        assert_eq!(validated(&with(meant), &[]), [""; 0], "{meant}");
    }
    let mapped = |default: &str| {
        format!(
            "{rules}---\nkind: attributemapping\nmetadata: {{name: m, namespace: istio-system}}\n\
             spec: {{mappings: [{{attribute: destination.namespace, from: {{extension: ns}}, default: {default}}}]}}\n"
        )
    };
    assert_eq!(validated(&mapped("shop"), &[]), [""; 0]);
    let told = only_problem(&mapped("shpo"));
    assert!(told.contains("error[namespace-unused]") && told.contains("`shop`"), "{told}");
    // Nothing is told about a configuration that is for Istio.
    assert_eq!(validated(&rules, &[]), [""; 0]);
}

#[test]
fn the_example_of_a_default_works_with_the_example_of_envoy() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy/policy");
    let mut text = String::new();
    for file in std::fs::read_dir(example).expect("it is readable") {
        let path = file.expect("an entry").path();
        if !path.ends_with("limits.yaml") {
            text += &std::fs::read_to_string(path).expect("it is readable");
            text += "\n---\n";
        }
    }
    text += &default_deny();
    assert_eq!(validated(&text, &[]), [""; 0]);
    let setting = Setting::on(&text, &[]);
    let mut client = setting.client();
    let (code, message) = Asked::of("GET", "/").ask(&mut client);
    assert!(code == DENIED && message.contains("default of closed.rule.shop"), "{message}");
    assert_eq!(Asked::of("POST", "/").from(STAFF, "10.0.0.7").code(&mut client), 0);
    assert_eq!(Asked::of("GET", "/").from(STAFF, "10.0.0.7").code(&mut client), DENIED);
}

/// A quota of one in namespace NAMESPACE.
pub(crate) const QUOTA: &str = "---
kind: handler
metadata: {name: memory, namespace: NAMESPACE}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.NAMESPACE, maxAmount: 1, validDuration: 3600s}]}}
---
kind: instance
metadata: {name: calls, namespace: NAMESPACE}
spec: {compiledTemplate: quota, params: {dimensions: {}}}
---
kind: rule
metadata: {name: charge, namespace: NAMESPACE}
spec: {actions: [{handler: memory, instances: [calls]}]}
";

#[test]
fn a_quota_of_another_namespace_is_never_granted_without_a_charge() {
    let of = |namespace: &str| QUOTA.replace("NAMESPACE", namespace);
    let check = bridge("{check: {errorMode: closed, quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}");
    let setting = Setting::on(&format!("{MANIFEST}{}{check}", of("shop")), &[]);
    let mut client = setting.client();
    for _ in 0..2 {
        assert_ne!(Asked::of("GET", "/").code(&mut client), 0, "no rule of the mesh has it");
    }
    let codes = [(); 2].map(|()| Asked::of("GET", "/").to(SHOP).code(&mut client));
    assert_eq!(codes, [0, EXHAUSTED], "the rule of the namespace has it");
    drop(setting);

    let limits = |rest: &str| {
        format!(
            "{MANIFEST}{}{}",
            of("shop"),
            bridge(&format!(
                "{{ratelimit: {{quotas: [{{domain: d, entries: {{k: '*'}}, quota: calls}}]}}{rest}}}"
            ))
        )
    };
    let told = only_problem(&limits(""));
    assert!(told.contains("error[quota-unknown]") && told.contains("namespace `shop`"), "{told}");
    let setting = Setting::on(&limits(""), &["--config-on-error=serve-valid"]);
    let within = limit(&mut setting.client(), "d", ("k", "v")).expect("an answer");
    assert!(!within, "what cannot be charged is over its limit");
    drop(setting);
    assert_eq!(validated(&limits(", defaultNamespace: shop"), &[]), [""; 0]);
    let setting = Setting::on(&limits(", defaultNamespace: shop"), &[]);
    let mut client = setting.client();
    let within = [(); 2].map(|()| limit(&mut client, "d", ("k", "v")).expect("an answer"));
    assert_eq!(within, [true, false]);
}

#[test]
fn a_quota_in_dry_run_does_not_fail_calls() {
    let tried = QUOTA.replace("NAMESPACE", "istio-system").replace(
        "name: charge, namespace: istio-system}",
        "name: charge, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}",
    );
    let check = bridge("{check: {quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}");
    let setting = Setting::on(&format!("{MANIFEST}{tried}{check}"), &[]);
    let mut client = setting.client();
    let codes = [(); 3].map(|()| Asked::of("GET", "/").code(&mut client));
    assert_eq!(codes, [0, 0, 0]);
}

/// Values as they are in files of envoyproxy/ratelimit.
const WRITTEN: [&str; 15] = [
    "1.10",
    "02134",
    "007",
    "yes",
    "NO",
    "12345678901234567890123",
    "0x10",
    "1e3",
    "1e+3",
    "1_000",
    "True",
    "2026-01-02",
    "12:30",
    "5",
    "2.0",
];

#[test]
fn limits_apply_to_values_as_they_are_written() {
    let mut file = "# Überall\ndomain: d\ndescriptors:\n".to_owned();
    for value in WRITTEN {
        let limit = "rate_limit: {unit: hour, requests_per_unit: 1}";
        file +=
            &format!("- {{key: \"é\", value: {value}, {limit}}}\n- key: {value}   # a comment\n  {limit}\n");
    }
    assert_eq!(validated(&format!("{MANIFEST}{file}"), &[]), [""; 0]);
    let setting = Setting::on(&format!("{MANIFEST}{file}"), &[]);
    let mut client = setting.client();
    for value in WRITTEN {
        for entry in [("é", value), (value, "any")] {
            let within = [(); 2].map(|()| limit(&mut client, "d", entry).expect("an answer"));
            assert_eq!(within, [true, false], "{entry:?}");
        }
    }
    drop(setting);
    let tagged = "domain: d\ndescriptors:\n- {key: k, value: !!int \"010\", rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    let told = only_problem(&format!("{MANIFEST}{tagged}"));
    assert!(told.contains("error[ratelimit-descriptor]") && told.contains("quotes"), "{told}");
}

#[test]
fn domains_are_merged_to_the_last_level() {
    let team = |name: &str, rest: &str| {
        format!(
            "---\nkind: ratelimit\nmetadata: {{name: {name}, namespace: istio-system}}\nspec:\n  domain: shared\n  descriptors:\n{rest}"
        )
    };
    let login = "  - key: path\n    value: /login\n    rate_limit: {unit: hour, requests_per_unit: 1000}\n";
    let nested = "  - key: path\n    value: /login\n    descriptors:\n    - {key: user, value: eve, rate_limit: {unit: hour, requests_per_unit: 0}}\n";
    let merged = format!(
        "{MANIFEST}{}{}{}",
        team("a", login),
        team("b", nested),
        bridge("{ratelimit: {mergeDomains: true}}")
    );
    assert_eq!(validated(&merged, &[]), [""; 0]);
    let setting = Setting::on(&merged, &[]);
    let mut client = setting.client();
    let entries = [("path", "/login"), ("user", "eve")];
    let entries = entries
        .map(|(key, value)| rate_limit_descriptor::Entry { key: key.to_owned(), value: value.to_owned() });
    let descriptor = RateLimitDescriptor { entries: entries.to_vec(), ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: "shared".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
    let answer = client.call(LIMITS, request.encode_to_vec(), None).expect("an answer");
    assert_eq!(RateLimitResponse::decode(answer).expect("a response").overall_code, 2, "over the limit of b");
    assert!(limit(&mut client, "shared", ("path", "/login")).expect("an answer"));
    drop(setting);

    let twice = format!("{merged}{}", team("c", login));
    let told = only_problem(&twice);
    assert!(told.contains("error[ratelimit-descriptor]"), "{told}");
    assert!(told.contains("duplicate descriptor composite key 'shared.path_/login'"), "{told}");
}

#[test]
fn the_peer_never_stands_in_for_an_address_that_a_header_should_have() {
    let rules = format!(
        "{MANIFEST}kind: handler
metadata: {{name: office, namespace: istio-system}}
spec: {{compiledAdapter: listchecker, params: {{entryType: IP_ADDRESSES, overrides: [\"10.0.0.0/8\"]}}}}
---
kind: instance
metadata: {{name: client, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: 'origin.ip | ip(\"0.0.0.0\")'}}}}
---
kind: rule
metadata: {{name: only-office, namespace: istio-system}}
spec: {{actions: [{{handler: office, instances: [client]}}]}}
"
    );
    for (source, name) in [("xff:1", "x-forwarded-for"), ("external_address", "x-envoy-external-address")] {
        let bridge = bridge(&format!("{{check: {{originIp: \"{source}\"}}}}"));
        let setting = Setting::on(&format!("{rules}{bridge}"), &[]);
        let mut client = setting.client();
        for (value, allowed) in [
            ("10.1.2.3", true),
            ("10.1.2.3:4444", true),
            ("203.0.113.9", false),
            ("203.0.113.9:4444", false),
            ("[2001:db8::1]:55", false),
            ("[2001:db8::1]", false),
            ("unknown", false),
            ("203.0.113.9, ", false),
            ("", false),
        ] {
            let asked = Asked::of("GET", "/").from("", "10.0.0.5").headers(&[(name, value.as_bytes())]);
            assert_eq!(asked.code(&mut client) == 0, allowed, "{source} {value:?}");
        }
        assert_ne!(
            Asked::of("GET", "/").from("", "10.0.0.5").code(&mut client),
            0,
            "{source} without the header"
        );
    }
}

#[test]
fn bytes_that_are_no_utf8_are_charged() {
    let spec = "{check: {quotaSpec: [{rules: [{match: [{clause: {request.url_path: {regex: \"/api/.*\"}}}], quotas: [{quota: calls}]}]}]}}";
    let setting = Setting::on(
        &format!("{MANIFEST}{}{}", QUOTA.replace("NAMESPACE", "istio-system"), bridge(spec)),
        &[],
    );
    let mut client = setting.client();
    // prost writes texts only: the byte is put into the encoded message.
    let mut ask = || {
        let mut body = CheckRequest { attributes: Some(Asked::of("GET", "/api/~").0) }.encode_to_vec();
        let at = body.iter().position(|byte| *byte == b'~').expect("the byte");
        body[at] = 0xff;
        let answer = client.call(AUTHORIZATION, body, None).expect("an answer");
        CheckResponse::decode(answer).expect("a response").status.expect("a status").code
    };
    assert_eq!([ask(), ask()], [0, EXHAUSTED]);
}

/// As docs/envoy.md says it.
#[test]
fn claims_that_are_no_texts_are_mapped() {
    let rules = format!(
        "{}kind: attributemapping
metadata: {{name: claims, namespace: istio-system}}
spec:
  mappings:
  - attribute: request.guest
    from: {{metadata: {{namespace: envoy.filters.http.jwt_authn, path: [jwt_payload, guest]}}}}
    default: \"true\"
---
kind: handler
metadata: {{name: deny, namespace: istio-system}}
spec: {{compiledAdapter: denier, params: {{status: {{code: 7}}}}}}
---
kind: instance
metadata: {{name: nothing, namespace: istio-system}}
spec: {{compiledTemplate: checknothing}}
---
kind: rule
metadata: {{name: guests, namespace: istio-system}}
spec:
  match: (request.guest | true) || request.auth.claims[\"groups\"] == \"a,b\"
  actions: [{{handler: deny, instances: [nothing]}}]
",
        MANIFEST.replace("  attributes:\n", "  attributes:\n    request.guest: {valueType: BOOL}\n")
    );
    assert_eq!(validated(&rules, &[]), [""; 0]);
    let setting = Setting::on(&rules, &[]);
    let mut client = setting.client();
    for (claims, code) in [
        (serde_json::json!({"guest": true}), DENIED),
        (serde_json::json!({"guest": "true"}), DENIED),
        (serde_json::json!({"guest": false, "groups": ["a", "b"]}), DENIED),
        (serde_json::json!({"guest": false, "groups": ["a"]}), 0),
        (serde_json::json!({"groups": ["a"]}), DENIED),
    ] {
        let mut asked = Asked::of("GET", "/");
        let payload = structure(&serde_json::json!({"jwt_payload": claims}));
        let metadata = [("envoy.filters.http.jwt_authn".to_owned(), payload)];
        asked.0.metadata_context = Some(Metadata { filter_metadata: metadata.into_iter().collect() });
        assert_eq!(asked.code(&mut client), code, "{claims}");
    }
}

/// An object as `google.protobuf.Struct`.
fn structure(object: &serde_json::Value) -> prost_types::Struct {
    use prost_types::value::Kind;
    fn value(json: &serde_json::Value) -> prost_types::Value {
        let kind = match json {
            serde_json::Value::Bool(flag) => Kind::BoolValue(*flag),
            serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => Kind::StringValue(text.clone()),
            serde_json::Value::Array(items) => {
                Kind::ListValue(prost_types::ListValue { values: items.iter().map(value).collect() })
            }
            serde_json::Value::Object(_) => Kind::StructValue(structure(json)),
            serde_json::Value::Null => Kind::NullValue(0),
        };
        prost_types::Value { kind: Some(kind) }
    }
    let fields = object.as_object().into_iter().flatten();
    prost_types::Struct { fields: fields.map(|(name, json)| (name.clone(), value(json))).collect() }
}
