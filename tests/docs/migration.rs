//! docs/migration.md: a policy and what it became give the same decisions.

use std::collections::HashMap;

use regorus::{Engine, Value as Rego};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    DEADLINE, HttpAnswer, Ports, Process, Server, envoy, free_port, http, http_with, put, wait_for,
};
use crate::{read, repository};

/// Tokens of the key in the Envoy configurations, with their claims. They do not expire.
static TOKENS: [(&str, &str, &str); 9] = [
    (
        "ann",
        r#"{"iss":"https://auth.example","sub":"ann","role":"customer","groups":["staff","oncall"]}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6ImFubiIsInJvbGUiOiJjdXN0b21lciIsImdyb3VwcyI6WyJzdGFmZiIsIm9uY2FsbCJdfQ.BliI8cKTDCIY60OQJplqPt4vvUZ4NhXcYcxuwxPr70Y",
    ),
    (
        "bob",
        r#"{"iss":"https://auth.example","sub":"bob","role":"customer"}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6ImJvYiIsInJvbGUiOiJjdXN0b21lciJ9.lpNDGznNUjAcF4hPuky8x3wF5h8Uw-KXuXha1-Sf44M",
    ),
    (
        "root",
        r#"{"iss":"https://auth.example","sub":"root","role":"admin","groups":["staff"]}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6InJvb3QiLCJyb2xlIjoiYWRtaW4iLCJncm91cHMiOlsic3RhZmYiXX0.bALWKz5-uw8oCl3OowuSsATrTJ2P2zQ1els7zrqt69E",
    ),
    (
        "nobody",
        r#"{"iss":"https://auth.example","sub":"nobody"}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6Im5vYm9keSJ9.7rxEKRGknozF1jMvOG3HB6xLaQJ9jfLSl-VlXiX08r8",
    ),
    (
        "gone",
        r#"{"iss":"https://auth.example","sub":"gone","role":"admin","suspended":true}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6ImdvbmUiLCJyb2xlIjoiYWRtaW4iLCJzdXNwZW5kZWQiOnRydWV9.cXOivKhb3G9y0q5uXA8J2chqAmZeX44d3F8JXmpuARQ",
    ),
    (
        "late",
        r#"{"iss":"https://auth.example","sub":"late","role":"admin","suspended":"until 2027"}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6ImxhdGUiLCJyb2xlIjoiYWRtaW4iLCJzdXNwZW5kZWQiOiJ1bnRpbCAyMDI3In0.Dgoye8y4hfQf_8s2UBBuug501HqYoLfCelSrOmMLUtE",
    ),
    (
        "null",
        r#"{"iss":"https://auth.example","sub":"null","role":"admin","suspended":null}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6Im51bGwiLCJyb2xlIjoiYWRtaW4iLCJzdXNwZW5kZWQiOm51bGx9.WD71cZHZPBGCZKmf9ltd_-giJzvB_cDCeN39njOBjo8",
    ),
    (
        "unnamed",
        r#"{"iss":"https://auth.example","role":"admin"}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInJvbGUiOiJhZG1pbiJ9.Nv7qIxovSfVYzBlEWFxoMgH2DHxbhGZO1tkl1hK_1Lw",
    ),
    (
        "sly",
        r#"{"iss":"https://auth.example","sub":"sly","role":"customer","groups":["x,staff"]}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImV4YW1wbGUiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsInN1YiI6InNseSIsInJvbGUiOiJjdXN0b21lciIsImdyb3VwcyI6WyJ4LHN0YWZmIl19.zgOmNJU74xcvR8UERH03KGVEdM4VAxjMrkxp5irMhlQ",
    ),
];

/// Administrators with a claim `suspended` that is no Boolean, and one without a name.
const ODD: [&str; 3] = ["late", "null", "unnamed"];
/// Who calls: nobody with a token, and the others of [`TOKENS`].
const CALLERS: [&str; 7] = ["", "ann", "bob", "root", "nobody", "gone", "sly"];
/// Where from, as `x-forwarded-for` says: nothing, of a blocked range, of the office, of its guests, and over IPv6.
const CLIENTS: [&str; 5] = ["", "203.0.113.7", "10.1.2.3", "10.1.9.3", "2001:db8::1"];

/// Mixer, and Envoy in front of an upstream.
struct Shop {
    _directory: TempDir,
    _mixer: Server,
    _envoy: Process,
    before: u16,
    after: u16,
}

impl Shop {
    /// Starts what a directory of examples/migration describes, with one of its policies.
    fn start(example: &str, policy: &str, change: impl Fn(String) -> String) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join("policy");
        std::fs::create_dir(&own).expect("it is writable");
        let of = repository(&format!("examples/migration/{example}/{policy}"));
        for entry in std::fs::read_dir(of).expect("the example is there") {
            let path = entry.expect("an entry").path();
            let text = change(std::fs::read_to_string(&path).expect("it is readable"));
            std::fs::write(own.join(path.file_name().expect("a name")), text).expect("it is writable");
        }
        let server_ports = Ports::free();
        let mixer = Server::on(&own).native().on_ports(server_ports).start();
        let [before, after] = [(); 2].map(|()| free_port());
        let ports = [
            ("BEFORE_PORT", before),
            ("AFTER_PORT", after),
            ("MIXER_PORT", server_ports.api),
            ("UPSTREAM_PORT", envoy::upstream()),
        ];
        // A busy machine is no failure of the service. A filter refuses before it has seen the end of the request, and Envoy then waits
        // a second before it closes the connection.
        let bootstrap = read(&format!("examples/migration/{example}/envoy.yaml"))
            .replace("timeout: 1s", "timeout: 60s")
            .replace("stat_prefix: before", "stat_prefix: before\n          delayed_close_timeout: 0.01s");
        let process = envoy::start(directory.path(), &envoy::filled(&bootstrap, &ports));
        let shop = Self { _directory: directory, _mixer: mixer, _envoy: process, before, after };
        let is_ready = wait_for(DEADLINE, || {
            let answer = http_with("GET", &format!("http://127.0.0.1:{after}/"), &[], "").ok()?;
            (answer.status == 200).then_some(())
        });
        assert!(is_ready.is_some(), "Envoy forwards nothing");
        shop
    }
}

/// A request of a caller.
#[derive(Debug, Clone, Copy)]
struct Asked<'r> {
    caller: &'r str,
    client: &'r str,
    method: &'r str,
    path: &'r str,
}

impl Asked<'_> {
    fn at(&self, port: u16) -> HttpAnswer {
        let token = TOKENS.iter().find(|(name, ..)| *name == self.caller);
        let bearer = token.map(|(.., token)| format!("Bearer {token}"));
        let mut headers = vec![("x-user", "forged")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        headers.extend((!self.client.is_empty()).then_some(("x-forwarded-for", self.client)));
        http_with(self.method, &format!("http://127.0.0.1:{port}{}", self.path), &headers, "")
            .expect("an answer")
    }
}

/// Every caller from every client with every request.
fn requests<'r>(clients: &'r [&'r str], requests: &'r [(&'r str, &'r str)]) -> Vec<Asked<'r>> {
    let mut all = Vec::new();
    for caller in CALLERS {
        for client in clients {
            let asked = requests.iter().map(|(method, path)| Asked { caller, client, method, path });
            all.extend(asked);
        }
    }
    all
}

/// Both decisions are among the expected ones, each of which is there.
fn assert_every(statuses: &HashMap<u16, usize>, expected: &[u16]) {
    let mut found: Vec<u16> = statuses.keys().copied().collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{statuses:?}");
}

#[test]
fn rules_decide_as_the_rbac_filter_that_istio_makes_of_authorization_policies() {
    let shop = Shop::start("authorization-policy", "policy", |text| text);
    let paths = [
        ("GET", "/"),
        ("GET", "/catalog/1?a=b"),
        ("POST", "/catalog/1"),
        ("GET", "/cart/1"),
        ("DELETE", "/cart/1"),
        ("DELETE", "/orders"),
        ("POST", "/orders"),
        ("PUT", "/orders"),
        ("GET", "/admin"),
        ("GET", "/administrator"),
        ("GET", "//admin/x"),
        ("GET", "/x/../admin"),
        ("GET", "/Admin"),
        ("GET", "/metrics"),
        ("DELETE", "/metrics"),
    ];
    let mut statuses = HashMap::new();
    for asked in requests(&CLIENTS, &paths) {
        let (before, after) = (asked.at(shop.before), asked.at(shop.after));
        assert_eq!(after.status, before.status, "{asked:?}: {}", after.body);
        *statuses.entry(before.status).or_default() += 1;
    }
    assert_every(&statuses, &[200, 403]);
}

/// The filter of step 2 and 3, before those of the old policy.
const BOTH: &str = "          - name: envoy.filters.http.ext_authz
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {envoy_grpc: {cluster_name: mixer}, timeout: 60s}
              failure_mode_allow: FAILURE_MODE
              metadata_context_namespaces: [envoy.filters.http.jwt_authn]
          # What Istio makes of the policy `deny`.";

/// Every step of the page: what was refused stays refused, the shadow tells what Mixer would do, and the server tells what it does not enforce.
#[test]
fn no_step_opens_what_was_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let own = directory.path().join("policy");
    std::fs::create_dir(&own).expect("it is writable");
    let example = |name: &str| read(&format!("examples/migration/authorization-policy/policy/{name}.yaml"));
    for name in ["allow", "deny", "mesh"] {
        std::fs::write(own.join(format!("{name}.yaml")), example(name)).expect("it is writable");
    }
    let shadow = example("mesh").replace("  check:\n", "  check:\n    mode: shadow\n");
    put(&own.join("mesh.yaml"), &shadow);
    let server_ports = Ports::free();
    let mixer = Server::on(&own).native().on_ports(server_ports).start();
    let closed = [
        ("", "", "GET", "/admin"),
        ("", "203.0.113.7", "GET", "/"),
        ("bob", "", "DELETE", "/orders"),
        ("bob", "", "GET", "/admin"),
        ("", "10.1.9.3", "GET", "/metrics"),
        ("", "", "POST", "/catalog/1"),
    ];
    let open = [("", "", "GET", "/"), ("bob", "", "POST", "/orders"), ("root", "", "GET", "/admin")];
    let asked = |(caller, client, method, path)| Asked { caller, client, method, path };
    // Starts an Envoy whose listener `before` asks Mixer as well, and gives its ports and the file of its access log.
    let start = |step: &str, failure_mode: &str| {
        let [before, after] = [(); 2].map(|()| free_port());
        let ports = [
            ("BEFORE_PORT", before),
            ("AFTER_PORT", after),
            ("MIXER_PORT", server_ports.api),
            ("UPSTREAM_PORT", envoy::upstream()),
        ];
        let log = directory.path().join(format!("{step}.log"));
        let access_log = format!(
            "stat_prefix: before
          delayed_close_timeout: 0.01s
          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {}
              log_format:
                text_format_source:
                  inline_string: \"%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ext_authz:mixer_shadow_code)% %RESPONSE_FLAGS% %PATH%\\n\"",
            log.display()
        );
        let filter = BOTH.replace("FAILURE_MODE", failure_mode);
        let bootstrap = read("examples/migration/authorization-policy/envoy.yaml")
            .replace("timeout: 1s", "timeout: 60s")
            .replace("          # What Istio makes of the policy `deny`.", &filter)
            .replace("stat_prefix: before", &access_log);
        let own = directory.path().join(step);
        std::fs::create_dir(&own).expect("it is writable");
        let process = envoy::start(&own, &envoy::filled(&bootstrap, &ports));
        let is_ready = wait_for(DEADLINE, || {
            let answer = http_with("GET", &format!("http://127.0.0.1:{before}/"), &[], "").ok()?;
            (answer.status == 200).then_some(())
        });
        assert!(is_ready.is_some(), "Envoy forwards nothing");
        (process, before, after, log)
    };
    let not_enforced = || {
        let answer = http("GET", &mixer.monitoring_url("/readyz?verbose"), "").expect("an answer");
        let document: Value = serde_json::from_str(&answer.body).expect("JSON");
        document["notEnforced"]["count"].as_u64()
    };
    // The text of the access log, once it has as many lines.
    let logged = |log: &std::path::Path, wanted: &str| {
        let found = wait_for(DEADLINE, || {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            text.lines().any(|line| line == wanted).then_some(text)
        });
        found.unwrap_or_else(|| panic!("no `{wanted}`: {}", std::fs::read_to_string(log).unwrap_or_default()))
    };

    assert_eq!(not_enforced(), Some(1), "step 2");
    let (envoy, before, after, log) = start("compare", "true");
    for request in closed {
        assert_eq!(asked(request).at(before).status, 403, "step 2: {request:?}");
    }
    for request in open {
        assert_eq!(asked(request).at(before).status, 200, "step 2: {request:?}");
    }
    logged(&log, "403 PERMISSION_DENIED - /admin");
    assert_eq!(asked(closed[0]).at(after).status, 200, "a server in shadow mode alone opens everything");
    drop(envoy);

    put(&own.join("mesh.yaml"), &example("mesh"));
    let is_enforced = wait_for(DEADLINE, || (not_enforced() == Some(0)).then_some(()));
    assert!(is_enforced.is_some(), "step 3: {:?}", not_enforced());
    let (_envoy, before, after, log) = start("enforce", "false");
    for (step, port) in [("3", before), ("4", after)] {
        for request in closed {
            let answer = asked(request).at(port);
            assert_eq!(answer.status, 403, "step {step}: {request:?}");
            assert!(answer.body.starts_with("PERMISSION_DENIED:"), "step {step}, of Mixer: {}", answer.body);
        }
        for request in open {
            assert_eq!(asked(request).at(port).status, 200, "step {step}: {request:?}");
        }
    }
    logged(&log, "403 - UAEX /admin");
}

/// What OPA-Envoy decides: the status, and the header `x-user` that it sets.
fn decided(engine: &mut Engine, asked: Asked<'_>) -> (u16, Option<String>) {
    let (path, _) = asked.path.split_once('?').unwrap_or((asked.path, ""));
    let parsed: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    // Envoy adds the address of its peer.
    let hops = [asked.client, "192.0.2.2"]
        .iter()
        .filter(|hop| !hop.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(",");
    let claims = TOKENS.iter().find(|(name, ..)| *name == asked.caller).map(|(_, claims, _)| *claims);
    let claims: Option<Value> = claims.map(|claims| serde_json::from_str(claims).expect("JSON"));
    let metadata =
        claims.map_or(json!({}), |claims| json!({"envoy.filters.http.jwt_authn": {"payload": claims}}));
    let input = json!({
        "attributes": {
            "metadataContext": {"filterMetadata": metadata},
            "request": {"http": {
                "method": asked.method,
                "path": asked.path,
                "headers": {":method": asked.method, ":path": asked.path, "x-forwarded-for": hops, "x-user": "forged"},
            }},
        },
        "parsed_path": parsed,
    });
    engine.set_input(Rego::from_json_str(&input.to_string()).expect("an input"));
    let result = engine.eval_rule("data.envoy.authz.allow".to_owned()).expect("a decision");
    let result: Value = serde_json::from_str(&result.to_json_str().expect("JSON")).expect("JSON");
    if result["allowed"] == json!(true) {
        return (200, result["headers"]["x-user"].as_str().map(str::to_owned));
    }
    (u16::try_from(result["http_status"].as_u64().expect("a status")).expect("a status"), None)
}

#[test]
fn rules_and_rego_decide_as_the_policy_of_opa_envoy() {
    let mut engine = Engine::new();
    engine.add_policy_from_file(repository("examples/migration/opa-envoy/policy.rego")).expect("it compiles");
    let paths = [
        ("GET", "/"),
        ("GET", "/catalog"),
        ("GET", "/catalog/1?a=b"),
        ("POST", "/catalog/1"),
        ("GET", "/catalogue"),
        ("GET", "/cart/ann"),
        ("DELETE", "/cart/bob"),
        ("POST", "/cart/bob/x"),
        ("GET", "/admin"),
        ("POST", "/admin/x"),
        ("GET", "/administrator"),
        ("PUT", "/orders"),
    ];
    for policy in ["policy", "policy-rego"] {
        let shop = Shop::start("opa-envoy", policy, |text| text);
        let mut statuses = HashMap::new();
        let odd = ODD.into_iter().flat_map(|caller| {
            paths.iter().map(move |(method, path)| Asked { caller, client: "", method, path })
        });
        for asked in requests(&CLIENTS[..3], &paths).into_iter().chain(odd) {
            let (status, user) = decided(&mut engine, asked);
            let answer = asked.at(shop.after);
            assert_eq!(answer.status, status, "{policy}: {asked:?}: {}", answer.body);
            if status == 200 {
                let sent = answer.body.lines().find_map(|line| line.strip_prefix("x-user: "));
                assert_eq!(sent, user.as_deref(), "{policy}: {asked:?}");
            }
            *statuses.entry(status).or_default() += 1;
        }
        assert_every(&statuses, &[200, 401, 403]);
    }
}

/// envoyproxy/ratelimit as its README describes it: of a descriptor, each entry selects the node with its key and value, else the
/// one with its key alone; the limit is that of the node of the last entry, with a counter for each list of entries; every
/// descriptor of a call is counted, and the call is over its limit if one of them is.
struct Documented {
    configuration: serde_yaml::Value,
    counters: HashMap<String, u64>,
}

impl Documented {
    fn limit_of(&self, entries: &[(&str, String)]) -> Option<u64> {
        let mut node = &self.configuration;
        for (key, value) in entries {
            let children = node.get("descriptors")?.as_sequence()?;
            let with = |value: Option<&str>| {
                children.iter().find(|child| {
                    child["key"].as_str() == Some(*key)
                        && child.get("value").and_then(|v| v.as_str()) == value
                })
            };
            node = with(Some(value.as_str())).or_else(|| with(None))?;
        }
        node.get("rate_limit")?.get("requests_per_unit")?.as_u64()
    }

    fn is_over(&mut self, descriptors: &[Vec<(&str, String)>]) -> bool {
        let mut is_over = false;
        for entries in descriptors {
            if let Some(limit) = self.limit_of(entries) {
                let count = self.counters.entry(format!("{entries:?}")).or_default();
                *count += 1;
                is_over |= *count > limit;
            }
        }
        is_over
    }
}

#[test]
fn limits_count_as_envoyproxy_ratelimit_documents() {
    // The window must not end during the test.
    let change = |text: String| text.replace("unit: hour", "unit: year");
    let shop = Shop::start("ratelimit", "policy", change);
    let text = change(read("examples/migration/ratelimit/policy/limits.yaml"));
    let configuration = serde_yaml::from_str(&text).expect("YAML");
    let mut documented = Documented { configuration, counters: HashMap::new() };
    let mut statuses = HashMap::new();
    for step in 0..96 {
        let plan = ["", "free", "trial", "gold"][step % 4];
        let user = ["", "ann", "bob", "root", "eve"][step * 7 % 5];
        let path = ["/", "/login", "/x?y"][step % 3];
        // As the route of the example makes descriptors: without a header there is none.
        let mut descriptors = Vec::new();
        if !plan.is_empty() {
            descriptors.push(vec![("plan", plan.to_owned())]);
        }
        if !user.is_empty() {
            descriptors.push(vec![("user", user.to_owned())]);
            descriptors.push(vec![("path", path.to_owned()), ("user", user.to_owned())]);
        }
        let expected = if documented.is_over(&descriptors) { 429 } else { 200 };
        let headers = [("x-plan", plan), ("x-user", user)];
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let url = format!("http://127.0.0.1:{}{path}", shop.after);
        let answer = http_with("GET", &url, &headers, "").expect("an answer");
        assert_eq!(answer.status, expected, "step {step}: {path} {headers:?}: {}", answer.body);
        *statuses.entry(expected).or_default() += 1;
    }
    assert_every(&statuses, &[200, 429]);
}

#[test]
fn the_examples_have_no_problems() {
    for policy in
        ["authorization-policy/policy", "opa-envoy/policy", "opa-envoy/policy-rego", "ratelimit/policy"]
    {
        let path = repository(&format!("examples/migration/{policy}"));
        let ran = crate::support::run_mixer(&["validate", "--output", "plain", &path.display().to_string()]);
        assert_eq!(ran.status, 0, "{}", ran.stdout);
    }
}
