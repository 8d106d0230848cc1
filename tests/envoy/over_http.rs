//! Checks over HTTP: through Envoy, and what the endpoint answers by itself.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use crate::fixture::{Fixture, Http};
use crate::support::{DEADLINE, Server, free_port, http_with, wait_for};

const BASE: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: direct, namespace: istio-system}
spec:
  attributes:
    context.protocol: {valueType: STRING}
    request.url_path: {valueType: STRING}
    source.ip: {valueType: IP_ADDRESS}
    origin.ip: {valueType: IP_ADDRESS}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
"#;

/// A handler, and a rule that calls it.
fn rule(name: &str, adapter: &str, params: &str, condition: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: {adapter}, params: {params}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec:\n  match: {condition}\n  actions:\n  - {{handler: {name}, instances: [nothing]}}\n"
    )
}

/// Denials of every kind, by path.
fn denials() -> String {
    let on = |path: &str| format!("request.url_path == \"{path}\"");
    let direct = "{status: {code: 7, details: [{\"@type\": type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse, code: 503}]}}";
    [
        rule("denied", "denier", "{status: {code: 7}}", &on("/denied")),
        rule("unavailable", "denier", "{status: {code: 14}}", &on("/unavailable")),
        rule("unknown", "denier", "{status: {code: 2}}", &on("/unknown")),
        rule("direct", "denier", direct, &on("/direct")),
        rule("broken", "drill", "{outcome: ERROR}", &on("/broken")),
    ]
    .concat()
}

fn settings(check: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\n\
         spec: {{check: {check}}}\n"
    )
}

/// A server that answers checks over HTTP.
struct Endpoint {
    _directory: tempfile::TempDir,
    _server: Server,
    address: String,
}

impl Endpoint {
    fn start(policy: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("policy.yaml"), format!("{BASE}{policy}"))
            .expect("it is writable");
        let address = format!("127.0.0.1:{}", free_port());
        let server =
            Server::on(directory.path()).with(&["--envoy-http-address", &address]).with(arguments).start();
        let endpoint = Self { _directory: directory, _server: server, address };
        let ready = wait_for(DEADLINE, || http_with("GET", &endpoint.url("/"), &[], "").ok().map(drop));
        assert!(ready.is_some(), "the endpoint listens");
        endpoint
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The status, and the value of the header with the decided status.
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        self.ask("GET", path, headers)
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let answer = http_with(method, &self.url(path), headers, "").expect("an answer");
        let decided = answer.headers.iter().find(|(name, _)| name == "x-mixer-http-status");
        (answer.status, decided.map_or(String::new(), |(_, value)| value.clone()))
    }
}

#[test]
fn only_a_delegated_failure_is_an_error_for_envoy() {
    let closed = Endpoint::start(&(denials() + &settings("{errorMode: closed}")), &[]);
    for (path, status, decided) in [
        ("/check/", 200, ""),
        ("/check/denied", 403, ""),
        ("/check/unavailable", 403, "503"),
        ("/check/unknown", 403, "500"),
        ("/check/direct", 403, "503"),
        ("/check/broken", 403, "500"),
    ] {
        assert_eq!(closed.get(path, &[]), (status, decided.to_owned()), "{path}");
    }
    let delegating = Endpoint::start(&denials(), &[]);
    assert_eq!(delegating.get("/check/broken", &[]), (503, String::new()));
    assert_eq!(delegating.get("/check/unavailable", &[]), (403, "503".to_owned()));
}

#[test]
fn closed_settings_deny_what_overload_leaves_undecided() {
    for (mode, status) in [("delegate", 503), ("closed", 403)] {
        let policy = denials() + &settings(&format!("{{errorMode: {mode}, cache: {{entries: 0}}}}"));
        let shed = ["--loadsheddingMode=enforce", "--maxRequestsPerSecond=0.001", "--burstSize=1"];
        let endpoint = Endpoint::start(&policy, &shed);
        let answers: Vec<u16> = (0..3).map(|_| endpoint.get("/check/", &[]).0).collect();
        assert!(
            answers[1..].iter().all(|found| (*found == 503) == (status == 503) && *found != 200),
            "{mode}: {answers:?}"
        );
    }
}

/// Every request that is denied is counted as denied, whoever counts: those without a decision, and those that no rule sees.
#[test]
fn what_is_denied_without_a_decision_is_recorded_and_counted_as_denied() {
    let policy = denials() + &settings("{errorMode: closed, cache: {entries: 0}}");
    let endpoint = Endpoint::start(&policy, &["--config-on-error=keep-last"]);
    let server = &endpoint._server;
    let sum = |family: &str, wanted: &[&str]| -> u64 {
        let metrics = http_with("GET", &server.monitoring_url("/metrics"), &[], "").expect("metrics").body;
        let lines = metrics.lines().filter(|line| line.starts_with(&format!("{family}{{")));
        let lines = lines.filter(|line| wanted.iter().any(|text| line.contains(text)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let results = ["result=\"deny\"", "result=\"error_denied\""];
    // The endpoint was asked for `/` until it listened.
    let before = sum("bridge_check_total", &results);
    assert_eq!(endpoint.get("/check/broken", &[]).0, 403);
    assert_eq!(endpoint.get("/check/denied", &[]).0, 403);
    assert_eq!(endpoint.get("/outside", &[]).0, 404);
    let large = "y".repeat(5 << 20);
    // The answer may come before all of the body is sent.
    let answer = http_with("POST", &endpoint.url("/check/large"), &[], &large);
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 413));
    let counted = wait_for(DEADLINE, || (sum("bridge_check_total", &results) == before + 4).then_some(()));
    assert!(counted.is_some(), "{before} before, then {}", sum("bridge_check_total", &results));
    assert_eq!(sum("mixer_check_denials_total", &["code="]), before + 4);
    let url = format!("http://127.0.0.1:{}/denialj/", server.ports.ctrlz);
    let recorded = http_with("GET", &url, &[], "").expect("the denials").body;
    let recorded: serde_json::Value = serde_json::from_str(&recorded).expect("JSON");
    for (path, status, cure) in [
        ("/broken", "INTERNAL", "without a decision, refused by check.errorMode: closed"),
        ("/outside", "NOT_FOUND", "outside of `/check` and is refused; set path_prefix"),
        ("/check/large", "INVALID_ARGUMENT", "max_request_bytes"),
    ] {
        let is_of = |denial: &&serde_json::Value| {
            let attributes = denial["attributes"].as_array().into_iter().flatten();
            attributes.into_iter().any(|pair| pair[0] == "request.url_path" && pair[1] == path)
        };
        let denial = recorded.as_array().into_iter().flatten().find(is_of);
        let denial = denial.unwrap_or_else(|| panic!("no {path} in {recorded}"));
        assert_eq!(
            (denial["kind"].as_str(), denial["status"].as_str()),
            (Some("server"), Some(status)),
            "{denial}"
        );
        assert!(denial["message"].as_str().is_some_and(|text| text.contains(cure)), "{denial}");
    }
}

#[test]
fn the_source_address_is_absent_unless_a_setting_names_it() {
    let block = |name: &str| {
        let condition =
            format!("request.url_path == \"/{name}\" && ({name}.ip | ip(\"0.0.0.0\")) == ip(\"192.0.2.66\")");
        rule(name, "denier", "{status: {code: 7}}", &condition)
    };
    let rules = block("source") + &block("origin");
    let before = [("x-forwarded-for", "192.0.2.66,10.0.0.1"), ("x-client", "192.0.2.66")];
    let last = [("x-forwarded-for", "10.0.0.1,192.0.2.66")];
    for (setting, of_before, of_last) in [
        ("{}", 200, 200),
        ("{httpSourceIp: \"xff:2\"}", 403, 200),
        ("{httpSourceIp: \"header:X-Client\"}", 403, 200),
    ] {
        let endpoint = Endpoint::start(&(rules.clone() + &settings(setting)), &[]);
        for path in ["/check/source", "/check/origin"] {
            let statuses = [endpoint.get(path, &before).0, endpoint.get(path, &last).0];
            assert_eq!(statuses, [of_before, of_last], "{path}, {setting}");
        }
    }
}

/// A call of the rate limit service, as JSON.
const LIMIT_CALL: &str =
    r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "a"}]}]}"#;

/// The paths of the rate limit service over HTTP.
const LIMIT_PATHS: [(&str, &str, &str); 3] =
    [("GET", "/healthcheck", ""), ("GET", "/rlconfig", ""), ("POST", "/json", LIMIT_CALL)];

#[test]
fn a_port_of_checks_serves_nothing_else() {
    let deny = rule("all", "denier", "{status: {code: 7}}", "context.protocol != \"ratelimit\"");
    let at_root = deny.clone() + &settings("{httpPathPrefix: /}");
    for (policy, outside) in [(deny, 404), (at_root, 403)] {
        let endpoint = Endpoint::start(&policy, &["--config-on-error=keep-last"]);
        for (method, path, body) in
            LIMIT_PATHS.into_iter().chain([("GET", "/a", ""), ("HEAD", "/rlconfig", "")])
        {
            for (prefix, status) in [("", outside), ("/check", 403)] {
                let url = endpoint.url(&format!("{prefix}{path}"));
                let answer = http_with(method, &url, &[], body).expect("an answer");
                assert_eq!(answer.status, status, "{method} {prefix}{path}: {}", answer.body);
            }
        }
    }
}

#[test]
fn rate_limits_have_a_port_of_their_own() {
    let address = format!("127.0.0.1:{}", free_port());
    let deny = rule("all", "denier", "{status: {code: 7}}", "context.protocol != \"ratelimit\"");
    let endpoint = Endpoint::start(&deny, &["--envoy-ratelimit-http-address", &address]);
    let ask = |method, path, body| {
        let answer = http_with(method, &format!("http://{address}{path}"), &[], body).expect("an answer");
        (answer.status, answer.body)
    };
    assert_eq!(ask("GET", "/healthcheck", ""), (200, "OK\n".to_owned()));
    assert_eq!(ask("GET", "/rlconfig", ""), (200, String::new()));
    assert_eq!(ask("POST", "/json", LIMIT_CALL).0, 200);
    for (method, path) in [("GET", "/check/a"), ("GET", "/json"), ("GET", "/a")] {
        assert_eq!(ask(method, path, "").0, 404, "{method} {path}");
    }
    assert_eq!(endpoint.get("/check/a", &[]).0, 403);
}

#[test]
fn settings_of_another_namespace_do_not_take_over() {
    let other = settings("{mode: shadow}").replace("istio-system", "a-tenant");
    let policy = rule("all", "denier", "{status: {code: 7}}", "context.protocol != \"ratelimit\"") + &other;
    let endpoint = Endpoint::start(&policy, &["--config-on-error=serve-valid"]);
    assert_eq!(endpoint.get("/check/", &[]).0, 403);
}

#[test]
fn policy_knows_that_a_body_is_truncated() {
    let policy = rule("partial", "denier", "{status: {code: 7}}", "request.body.partial | false")
        + &settings("{includeBody: true}");
    let endpoint = Endpoint::start(&policy, &[]);
    for (value, status) in [("true", 403), ("false", 200)] {
        assert_eq!(endpoint.get("/check/", &[("x-envoy-auth-partial-body", value)]).0, status, "{value}");
    }
    assert_eq!(endpoint.get("/check/", &[]).0, 200);
}

/// Envoy sends no header to rules, and takes none of them, that it is not told to.
#[test]
fn the_headers_that_envoy_must_list_are_told_once() {
    let policy = rule(
        "mallory",
        "denier",
        "{status: {code: 7}}",
        "(request.headers[\"x-user\"] | \"\") == \"mallory\"",
    ) + "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: role, namespace: istio-system}\n\
           spec:\n  requestHeaderOperations:\n  - {name: X-Role, values: ['request.headers[\"x-team\"] | \"none\"'], operation: REPLACE}\n";
    let manifest = "---\napiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {name: more, namespace: istio-system}\n\
                    spec: {attributes: {request.headers: {valueType: STRING_MAP}}}\n";
    let endpoint = Endpoint::start(&format!("{manifest}{policy}"), &[]);
    for _ in 0..2 {
        assert_eq!(endpoint.get("/check/", &[]).0, 200);
    }
    let told = "rules read x-team, x-user (allowed_headers); rules set x-role (allowed_upstream_headers of authorization_response)";
    endpoint._server.wait_for_log(told);
    assert_eq!(endpoint._server.log().matches(told).count(), 1);
}

/// What the vocabulary of the tests of headers has besides.
const HEADERS: &str = "---\napiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\nmetadata: {name: more, namespace: istio-system}\n\
                       spec: {attributes: {request.headers: {valueType: STRING_MAP}, request.useragent: {valueType: STRING}}}\n";

/// A rule is the same over gRPC, where the request line is among the headers.
#[test]
fn headers_have_the_request_line() {
    let deny =
        |name: &str, condition: &str| rule(name, "denier", "{status: {code: 7}}", &format!("'{condition}'"));
    let policy = [
        deny("path", "request.headers[\":path\"] == \"/admin?a=b\""),
        deny("method", "request.headers[\":method\"] == \"DELETE\""),
        deny(
            "host",
            "match(request.headers[\":authority\"], \"127.0.0.1:*\") && request.url_path == \"/host\"",
        ),
        deny("scheme", "request.headers[\":scheme\"] == \"https\""),
    ];
    let endpoint = Endpoint::start(&format!("{HEADERS}{}", policy.concat()), &[]);
    let https = [("x-forwarded-proto", "https")];
    for (method, path, headers, status) in [
        ("GET", "/check/", &[][..], 200),
        ("GET", "/check/admin", &[], 200),
        ("GET", "/check/admin?a=b", &[], 403),
        ("DELETE", "/check/", &[], 403),
        ("GET", "/check/host", &[], 403),
        ("GET", "/check/", &https, 403),
    ] {
        assert_eq!(endpoint.ask(method, path, headers).0, status, "{method} {path} {headers:?}");
    }
    assert!(!endpoint._server.log().contains(":path"), "no list brings it");
    endpoint._server.wait_for_log("rules read x-forwarded-proto (allowed_headers)");
}

/// Clauses of quotas, maps as a whole, and the length of a body that Envoy does not send.
#[test]
fn all_that_rules_lack_over_http_is_told() {
    let quota = "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: memory, namespace: istio-system}\n\
                 spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 100, validDuration: 60s}]}}\n\
                 ---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: calls, namespace: istio-system}\n\
                 spec: {compiledTemplate: quota, params: {dimensions: {}}}\n\
                 ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: calls, namespace: istio-system}\n\
                 spec: {actions: [{handler: memory, instances: [calls]}]}\n";
    let bot = "match: [{clause: {request.useragent: {prefix: bot}}}]";
    let settings = settings(&format!("{{quotaSpec: [{{rules: [{{{bot}, quotas: [{{quota: calls}}]}}]}}]}}"));
    let deny = |condition: &str| rule("deny", "denier", "{status: {code: 7}}", condition);
    let long = deny("'request.headers[\"content-length\"] == \"9\"'");
    let any = deny("'(request.headers[request.url_path] | \"\") == \"mallory\"'");
    for (policy, told) in [
        (
            format!("{quota}{settings}"),
            "the headers that ext_authz lists: rules read user-agent (allowed_headers)",
        ),
        (long, "rules read content-length, which is that of the body that Envoy sends"),
        (any, "rules read all headers (allowed_headers)"),
    ] {
        let endpoint = Endpoint::start(&format!("{HEADERS}{policy}"), &[]);
        assert_eq!(endpoint.get("/check/", &[]).0, 200);
        endpoint._server.wait_for_log(told);
    }
}

/// Envoy sends the bytes of a body, no text.
#[test]
fn bodies_are_matched_as_text() {
    let condition = "'\"(?i)attack\".matches(request.body.text | \"\")'";
    let policy =
        rule("attack", "denier", "{status: {code: 7}}", condition) + &settings("{includeBody: true}");
    let endpoint = Endpoint::start(&policy, &[]);
    for (body, status) in [("an Attack", 403), ("nothing", 200), ("", 200), ("\u{e9} ATTACK", 403)] {
        let answer = http_with("POST", &endpoint.url("/check/"), &[], body).expect("an answer");
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_denies_what_is_denied_although_it_fails_open() {
    let fixture = Fixture::start().await;
    let get = async |path: &str, headers: &[(&str, &str)]| {
        fixture.get_at(fixture.over_http, Http::One, path, headers).await
    };
    let allowed = get("/addresses", &[("x-user", "ann"), ("x-forwarded-for", "192.0.2.7")]).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    // The address that the client sent, and that of the peer: for loopback Envoy writes its own.
    let seen =
        allowed.body.lines().find_map(|line| line.strip_prefix("x-seen-addresses: ")).unwrap_or_default();
    let addresses: Vec<&str> = seen.split(',').map(str::trim).collect();
    assert_eq!((addresses.len(), addresses[0]), (2, "192.0.2.7"), "{}", allowed.body);

    let closed = get("/closed", &[("x-user", "ann")]).await;
    assert_eq!((closed.status, closed.header("x-mixer-http-status")), (403, "503"), "{closed:?}");
    let blocked = get("/", &[("x-user", "ann"), ("x-forwarded-for", "192.0.2.66")]).await;
    assert_eq!(blocked.status, 403, "the second address from the right: {blocked:?}");

    // Without `path_prefix` the client chooses the whole path of the check.
    for path in ["/healthcheck", "/rlconfig", "/json", "/"] {
        let chosen = fixture.get_at(fixture.without_prefix, Http::One, path, &[("x-user", "ann")]).await;
        assert_eq!(chosen.status, 404, "{path}: {chosen:?}");
    }
}

#[test]
fn requests_that_are_no_http_are_bad_requests() {
    let endpoint = Endpoint::start(&denials(), &[]);
    let ask = |request: &str| {
        let mut socket = TcpStream::connect(&endpoint.address).expect("it listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        socket.write_all(request.as_bytes()).expect("it is sent");
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    };
    let chunked = |body: &str| {
        ask(&format!("POST /check/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"))
    };
    assert_eq!(chunked("1\r\nx\r\n0\r\n\r\n"), "HTTP/1.1 200 OK");
    for broken in ["x\r\n", "1\r\nxx\r\n0\r\n\r\n", "ffffffffffffffffff\r\n"] {
        assert_eq!(chunked(broken), "HTTP/1.1 400 Bad Request", "{broken:?}");
    }
    let hosts = |hosts: &str| ask(&format!("GET /check/ HTTP/1.1\r\n{hosts}\r\n"));
    assert_eq!(hosts("Host: a\r\n"), "HTTP/1.1 200 OK");
    for two in ["Host: a\r\nHost: b\r\n", "Host: a\r\nhost: a\r\n"] {
        assert_eq!(hosts(two), "HTTP/1.1 400 Bad Request", "{two:?}");
    }
}

/// What a caller leaves out or misspells must not be taken for a call without limits.
#[test]
fn calls_for_rate_limits_are_strict_and_bounded() {
    let address = format!("127.0.0.1:{}", free_port());
    let limits: String = (0..3000)
        .map(|n| {
            format!("  - {{key: user, value: u{n}, rate_limit: {{unit: day, requests_per_unit: {n}}}}}\n")
        })
        .collect();
    let policy = format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: ratelimit\nmetadata: {{name: shop, namespace: istio-system}}\n\
         spec:\n  domain: shop\n  descriptors:\n{limits}"
    );
    let endpoint = Endpoint::start(&policy, &["--envoy-ratelimit-http-address", &address]);
    let ask = |method, path, body: &str| {
        let answer = http_with(method, &format!("http://{address}{path}"), &[], body).expect("an answer");
        (answer.status, answer.body)
    };
    let with = |descriptor: &str| format!("{{\"domain\": \"shop\", \"descriptors\": [{descriptor}]}}");
    let entries = r#""entries": [{"key": "any", "value": "ann"}]"#;
    let limited = with(&format!(r#"{{{entries}, "limit": {{"requestsPerUnit": 2, "unit": "DAY"}}}}"#));
    let answers = [(); 3].map(|()| ask("POST", "/json", &limited).0);
    assert_eq!(answers, [200, 200, 429], "the limit of the descriptor applies");
    let (status, text) = ask("POST", "/json", &with(r#"{"entrys": []}"#));
    assert_eq!((status, text.contains("unknown field `entrys`")), (400, true), "{text}");
    let padded = |length: usize| format!("{limited}{}", " ".repeat(length - limited.len()));
    assert_eq!(ask("POST", "/json", &padded(64 << 10)).0, 429);
    assert_eq!(ask("POST", "/json", &padded((64 << 10) + 1)).0, 413);
    // Long enough to be streamed.
    let (status, text) = ask("GET", "/rlconfig", "");
    assert_eq!((status, text.lines().count(), text.len() > 64 << 10), (200, 3000, true));
    assert!(text.starts_with("shop.user_u0: unit=DAY requests_per_unit=0, "), "{}", &text[..200]);
    assert_eq!(endpoint.get("/check/a", &[]).0, 200);
}

/// Heads that do not end have a bound in all: the longest of them give way.
#[test]
fn half_sent_heads_keep_nobody_out() {
    // 7 / 32 of it is for connections, and a 16th of that for heads: 224 KiB.
    let endpoint = Endpoint::start("", &["--memory-limit=16777216"]);
    let begin = |bytes: usize| {
        let mut socket = TcpStream::connect(&endpoint.address).expect("it listens");
        let head = format!("GET /check/ HTTP/1.1\r\nHost: a\r\nx: {}", "a".repeat(bytes));
        // One that is closed while it is sent counts as closed.
        let _ = socket.write_all(head.as_bytes());
        socket.set_nonblocking(true).expect("a socket");
        socket
    };
    let is_closed = |mut socket: &TcpStream| match socket.read(&mut [0; 100]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    let sockets: Vec<TcpStream> = (0..12).map(|_| begin(60_000)).collect();
    let closed = wait_for(DEADLINE, || (sockets.iter().filter(|s| is_closed(s)).count() >= 9).then_some(()));
    assert!(closed.is_some(), "three of 60 kB are within the bound");
    assert_eq!(endpoint.get("/check/", &[]).0, 200, "a request of usual length");
    let long = begin(70_000);
    // It is answered with 431, if the client reads it before the end of the connection.
    let ended = wait_for(DEADLINE, || is_closed(&long).then_some(()));
    assert!(ended.is_some(), "no head has more than 64 KiB");
}

#[test]
fn header_operations_that_http_does_not_carry_are_counted() {
    let policy = "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {name: headers, namespace: istio-system}\n\
                  spec:\n  requestHeaderOperations:\n  - {name: \":path\", values: ['\"/a\"'], operation: REPLACE}\n  \
                  - {name: x-user, values: ['\"ann\"'], operation: REPLACE}\n  \
                  responseHeaderOperations:\n  - {name: x-policy, values: ['\"a\"'], operation: REPLACE}\n";
    let endpoint = Endpoint::start(policy, &[]);
    let answer = http_with("GET", &endpoint.url("/check/"), &[], "").expect("an answer");
    let names: Vec<&str> =
        answer.headers.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("x-")).collect();
    assert_eq!((answer.status, names), (200, vec!["x-user", "x-envoy-auth-headers-to-remove"]));
    let url = endpoint._server.monitoring_url("/metrics");
    let metrics = http_with("GET", &url, &[], "").expect("metrics").body;
    for op in ["pseudo_header", "response_header"] {
        // The first answer is that to the wait for the start.
        assert!(metrics.contains(&format!("bridge_unsupported_total{{op=\"{op}\"}} 1\n")), "{op}: {metrics}");
    }
}
