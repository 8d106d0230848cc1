//! Bootstraps that are valid, and what is wrong with others.

mod connections;
mod discovery;
mod filters;
mod health;
mod http2;
mod mirror;
mod udp;
mod unsupported;

use super::*;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// A bootstrap with one HTTP listener that has these routes, and a cluster `c`.
fn with_routes(routes: &str) -> String {
    format!(
        "static_resources:\n  clusters:\n  - {{name: c, load_assignment: {{cluster_name: c}}}}\n  listeners:\n  - name: l\n    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}\n    filter_chains:\n    - filters:\n      - name: http\n        typed_config:\n          '@type': {MANAGER}\n          stat_prefix: p\n          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]\n          route_config:\n            name: r\n            virtual_hosts:\n            - name: v\n              domains: ['*']\n              routes:\n{routes}\n"
    )
}

/// The first problem: its code, line, path and message.
fn problem(text: &str) -> (&'static str, u32, String, String) {
    let problems = read(text, "b.yaml").expect_err("it is not valid");
    let is_error = |problem: &&mixer_config::Diagnostic| problem.severity == mixer_config::Severity::Error;
    let first = problems.iter().find(is_error).expect("an error");
    let line = first.span.map_or(0, |span| span.start.line);
    (first.code, line, first.field.to_string(), first.message.clone())
}

fn assert_problem(text: &str, code: &str, line: u32, path: &str, message: &str) {
    let found = problem(text);
    assert_eq!((found.0, found.1, found.2.as_str()), (code, line, path), "{}", found.3);
    assert!(found.3.contains(message), "{}", found.3);
}

#[test]
fn empty_documents_are_valid() {
    for text in ["", "{}", "static_resources: {}", "admin: {}", "node: {id: y, cluster: no}"] {
        assert!(read(text, "b.yaml").is_ok(), "{text}");
    }
    let (bootstrap, _) = read("node: {id: y, cluster: no}", "b.yaml").unwrap();
    assert_eq!(
        (bootstrap.node_id.as_str(), bootstrap.node_cluster.as_str()),
        ("y", "no"),
        "text, not Booleans"
    );
}

#[test]
fn a_listener_with_routes_is_read() {
    let text = with_routes(
        "              - {match: {prefix: /a}, route: {cluster: c, timeout: 0.25s, retryPolicy: {retry_on: '5xx', num_retries: 3}}}\n              - {match: {path: /b}, redirect: {hostRedirect: x, response_code: FOUND}}\n              - {match: {safe_regex: {regex: '/c+'}}, direct_response: {status: 204}}",
    );
    let (bootstrap, warnings) = read(&text, "b.yaml").unwrap();
    assert_eq!(warnings, []);
    let NetworkFilter::Http(manager) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("an HTTP listener")
    };
    let routes = &manager.routes.hosts[0].routes;
    assert_eq!(routes.len(), 3);
    let Action::Route(action) = &routes[0].action else { panic!("a route") };
    assert_eq!(action.timeout, Some(std::time::Duration::from_millis(250)));
    assert_eq!(action.retry.as_ref().map(|retry| (retry.retries, retry.on.server_error)), Some((3, true)));
    let Action::Redirect(redirect) = &routes[1].action else { panic!("a redirect") };
    assert_eq!((redirect.status, redirect.host.as_deref()), (302, Some("x")));
    assert_eq!(manager.max_head, 60 << 10);
}

#[test]
fn what_is_not_supported_is_refused_by_name_path_and_line() {
    let unsupported = "proxy-unsupported";
    assert_problem(
        "node: {id: a}\nlayered_runtime: {}\n",
        unsupported,
        2,
        "layered_runtime",
        "field `layered_runtime` of Bootstrap is not supported by this version",
    );
    assert_problem(
        "static_resources:\n  clusters:\n  - name: c\n    lbSubsetConfig: {}\n",
        unsupported,
        4,
        "static_resources.clusters[0].lb_subset_config",
        "field `lb_subset_config` of Cluster",
    );
    assert_problem(
        "static_resources:\n  clusters:\n  - name: c\n    type: EDS\n",
        unsupported,
        4,
        "static_resources.clusters[0].type",
        "cluster type EDS is not supported by this version",
    );
    let route = with_routes(
        "              - match: {prefix: /}\n                route: {cluster: c, regex_rewrite: {}}",
    );
    assert_problem(
        &route,
        unsupported,
        21,
        "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0].route.regex_rewrite",
        "field `regex_rewrite` of RouteAction",
    );
    let lua = "{name: lua, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua}}, ";
    let filter =
        with_routes("                []").replace("http_filters: [", &format!("http_filters: [{lua}"));
    assert_problem(
        &filter,
        unsupported,
        13,
        "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[0].typed_config",
        "HTTP filter envoy.extensions.filters.http.lua.v3.Lua is not supported",
    );
}

#[test]
fn what_frames_a_message_is_not_added() {
    for field in ["request_headers_to_add", "response_headers_to_add"] {
        for (name, is_valid) in [
            ("Content-Length", false),
            ("transfer-encoding", false),
            ("Connection", false),
            ("upgrade", false),
            ("keep-alive", false),
            ("trailer", false),
            ("content-type", true),
        ] {
            let text = with_routes(&format!(
                "              - {{match: {{prefix: /}}, direct_response: {{status: 200}}, {field}: [{{header: {{key: {name}, value: '1'}}}}]}}"
            ));
            let problems = read(&text, "b.yaml").err().unwrap_or_default();
            assert_eq!(problems.is_empty(), is_valid, "{field} {name}: {problems:?}");
            for problem in problems {
                assert!(
                    problem.field.to_string().ends_with(&format!("{field}[0].header.key")),
                    "{problem:?}"
                );
                assert!(problem.message.contains(&name.to_ascii_lowercase()), "{problem:?}");
            }
        }
    }
}

#[test]
fn values_of_headers_can_be_written() {
    for (value, is_valid) in [
        ("a b", true),
        ("a\\tb", true),
        ("\u{e9}", true),
        ("a\\x01b", false),
        ("a\\x7f", false),
        ("a\\nb", false),
    ] {
        let text = with_routes(&format!(
            "              - {{match: {{prefix: /}}, direct_response: {{status: 200}}, response_headers_to_add: [{{header: {{key: a, value: \"{value}\"}}}}]}}"
        ));
        let problems = read(&text, "b.yaml").err().unwrap_or_default();
        assert_eq!(problems.is_empty(), is_valid, "{value}: {problems:?}");
        for problem in problems {
            assert!(problem.message.contains("control characters"), "{problem:?}");
        }
    }
}

#[test]
fn texts_of_heads_are_one_line() {
    let problems = |text: &str| read(text, "b.yaml").err().unwrap_or_default();
    for (name, fields) in [
        ("host_rewrite_literal", "route: {cluster: c, host_rewrite_literal: \"$\"}"),
        ("prefix_rewrite", "route: {cluster: c, prefix_rewrite: \"/$\"}"),
        ("path_redirect", "redirect: {path_redirect: \"/$\"}"),
        ("prefix_rewrite", "redirect: {prefix_rewrite: \"/$\"}"),
        ("host_redirect", "redirect: {host_redirect: \"$\"}"),
        ("scheme_redirect", "redirect: {scheme_redirect: \"$\"}"),
    ] {
        for (value, is_valid) in [("a", true), ("a\\r\\nb", false), ("a\\x01", false), ("\\nb", false)] {
            let route = format!("              - {{match: {{prefix: /}}, {}}}", fields.replace('$', value));
            let found = problems(&with_routes(&route));
            let found = found.iter().filter(|problem| problem.message.contains("control characters"));
            let named = found.filter(|problem| problem.field.to_string().ends_with(name)).count();
            assert_eq!(named == 0, is_valid, "{route}");
        }
    }
    let named = with_routes("              - {match: {prefix: /}, route: {cluster: c}}")
        .replace("http_filters:", "server_name: \"a\\nb\"\n          http_filters:");
    assert!(
        problems(&named).iter().any(|problem| problem.field.to_string().ends_with("server_name")),
        "{named}"
    );
    for name in ["host", "Host", ":path"] {
        let route = format!(
            "              - {{match: {{prefix: /}}, direct_response: {{status: 200}}, request_headers_to_remove: ['{name}']}}"
        );
        let found = problems(&with_routes(&route));
        assert!(
            found.iter().any(|problem| problem.message.contains("may not be removed")),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn keys_are_what_is_written() {
    let read_keys = |keys: &str| {
        let text = format!("node: {{id: a, metadata: {{a: [{{{keys}}}]}}}}\nstats_config: {{}}\n");
        read(&text, "b.yaml").err().map(|problems| problems[0].message.clone())
    };
    for keys in ["1: a, true: b, 1.5: c", "'no': a, \"0x10\": b", "1e: a", "a: no"] {
        assert_eq!(read_keys(keys), None, "{keys}");
    }
    for (keys, message) in [
        ("no: a", "key `no` reads as `false`"),
        ("True: a", "key `True` reads as `true`"),
        ("b: {on: a}", "key `on` reads as `true`"),
        ("0x10: a", "key `0x10` reads as `16`"),
        ("012: a", "key `012` reads as `10`"),
        ("1_0: a", "key `1_0` reads as `10`"),
    ] {
        assert_eq!(read_keys(keys).as_deref(), Some(message), "{keys}");
    }
}

#[test]
fn texts_of_matches_are_those_that_envoy_takes() {
    for (test, field) in [
        ("string_match: {exact: ''}", ""),
        ("exact_match: ''", ""),
        ("string_match: {prefix: ''}", "string_match.prefix"),
        ("string_match: {suffix: ''}", "string_match.suffix"),
        ("string_match: {contains: '', ignore_case: true}", "string_match.contains"),
        ("prefix_match: ''", "prefix_match"),
        ("suffix_match: ''", "suffix_match"),
        ("contains_match: ''", "contains_match"),
    ] {
        let text = with_routes(&format!(
            "              - {{match: {{prefix: /, headers: [{{name: a, {test}}}]}}, direct_response: {{status: 200}}}}"
        ));
        let problems = read(&text, "b.yaml").err().unwrap_or_default();
        assert_eq!(problems.is_empty(), field.is_empty(), "{test}: {problems:?}");
        for problem in problems {
            assert!(problem.field.to_string().ends_with(field), "{problem:?}");
            assert!(problem.message.contains("value length must be at least 1 characters"), "{problem:?}");
        }
    }
}

#[test]
fn a_body_needs_a_status_that_has_one() {
    for (response, is_valid) in [
        ("{status: 204}", true),
        ("{status: 304, body: {inline_string: ''}}", true),
        ("{status: 205, body: {inline_string: a}}", true),
        ("{status: 204, body: {inline_string: a}}", false),
        ("{status: 304, body: {inline_string: a}}", false),
    ] {
        let text =
            with_routes(&format!("              - {{match: {{prefix: /}}, direct_response: {response}}}"));
        match read(&text, "b.yaml") {
            Ok(_) => assert!(is_valid, "{response}"),
            Err(problems) => {
                assert!(!is_valid, "{response}: {}", problems[0].message);
                assert!(
                    problems[0].field.to_string().ends_with("direct_response.body"),
                    "{}",
                    problems[0].field
                );
                assert!(problems[0].message.contains("has no body"), "{}", problems[0].message);
            }
        }
    }
}

#[test]
fn what_envoy_refuses_is_refused_with_its_words() {
    let cluster = |rest: &str| format!("static_resources:\n  clusters:\n  - {rest}\n");
    let routes = |rest: &str| with_routes(&format!("              - {rest}"));
    let log = |format: &str| {
        let config = format!("{{'@type': {FILE}, path: /dev/null, log_format: {format}}}");
        let log = format!("stat_prefix: p\n          access_log: [{{name: f, typed_config: {config}}}]");
        with_routes("                []").replace("stat_prefix: p", &log)
    };
    let rows = [
        (log("{}"), "field: \"format\", reason: is required"),
        (log("{text_format_source: null}"), "field: \"format\", reason: is required"),
        (log("{text_format_source: {}}"), "field: \"specifier\", reason: is required"),
        ("nope: 1".to_owned(), "no such field: 'nope'"),
        ("hello".to_owned(), "Unable to convert YAML as JSON: hello"),
        ("node: {id: 5}".to_owned(), "expected a string, found a number"),
        (cluster("{name: ''}"), "ClusterValidationError.Name: value length must be at least 1 characters"),
        (
            cluster("{name: c, connect_timeout: 0s}"),
            "ClusterValidationError.ConnectTimeout: value must be greater than 0s",
        ),
        (cluster("{name: c, connect_timeout: 5}"), "expected a duration"),
        (cluster("{name: c, connect_timeout: '5'}"), "duration must end with a single 's'"),
        (cluster("{name: c, connect_timeout: 9223372036s}"), "Duration out-of-range"),
        (cluster("{name: c, connect_timeout: 315576000001s}"), "Duration out-of-range"),
        (cluster("{name: c, connect_timeout: -5s}"), "Expected positive duration"),
        (cluster("{name: c, type: SCTP}"), "unknown enum value: 'SCTP'"),
        (cluster("{name: c}\n  - {name: c}"), "cluster manager: duplicate cluster 'c'"),
        (
            cluster(
                "{name: c, load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: example.test, port_value: 1}}}}]}]}}",
            ),
            "malformed IP address: example.test. Consider setting resolver_name",
        ),
        (
            "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 70000}}}".to_owned(),
            "SocketAddressValidationError.PortValue: value must be less than or equal to 65535",
        ),
        (
            "admin: {address: {socket_address: {address: 127.0.0.1}}}".to_owned(),
            "field: \"port_specifier\", reason: is required",
        ),
        (
            "admin: {address: {socket_address: {address: localhost, port_value: 1}}}".to_owned(),
            "malformed IP address: localhost",
        ),
        (routes("{route: {cluster: c}}"), "RouteValidationError.Match: value is required"),
        (routes("{match: {}, route: {cluster: c}}"), "field: \"path_specifier\", reason: is required"),
        (routes("{match: {prefix: /}}"), "field: \"action\", reason: is required"),
        (routes("{match: {prefix: /}, route: {}}"), "field: \"cluster_specifier\", reason: is required"),
        (routes("{match: {prefix: /}, route: {cluster: zz}}"), "route: unknown cluster 'zz'"),
        (
            routes(
                "{match: {prefix: /}, route: {weighted_clusters: {clusters: [{weight: 9}, {name: c, weight: 1}]}}}",
            ),
            "At least one of name or cluster_header need to be specified",
        ),
        (
            routes(
                "{match: {prefix: /}, route: {weighted_clusters: {clusters: [{name: c}, {name: c, weight: 1}]}}}",
            ),
            "Field 'weight' is missing",
        ),
        (
            routes("{match: {prefix: /}, direct_response: {status: 200, body: {}}}"),
            "field: \"specifier\", reason: is required",
        ),
        (
            routes("{match: {prefix: /}, route: {cluster: c, retry_policy: {retry_back_off: {}}}}"),
            "RetryBackOffValidationError.BaseInterval: value is required",
        ),
        (routes("{match: {prefix: /, path: /}, route: {cluster: c}}"), "excludes `prefix`"),
        (routes("{match: {safe_regex: {regex: 'a)(b'}}, route: {cluster: c}}"), "error parsing regexp"),
        (
            routes("{match: {prefix: /}, direct_response: {status: 99}}"),
            "value must be inside range [200, 600)",
        ),
        (
            routes("{match: {prefix: /}, route: {weighted_clusters: {clusters: [{name: c, weight: 0}]}}}"),
            "Sum of weights in the weighted_cluster must be greater than 0.",
        ),
        (
            routes(
                "{match: {prefix: /}, route: {cluster: c, retry_policy: {retry_back_off: {base_interval: 2s, max_interval: 1s}}}}",
            ),
            "retry_policy.max_interval must greater than or equal to the base_interval",
        ),
        (
            with_routes("                []").replace("domains: ['*']", "domains: []"),
            "VirtualHostValidationError.Domains: value must contain at least 1 item(s)",
        ),
        (
            with_routes("                []").replace("domains: ['*']", "domains: [x.com, X.com]"),
            "Only unique values for domains are permitted. Duplicate entry of domain x.com in route r",
        ),
        (
            with_routes("                []").replace("domains: ['*']", "domains: ['*', '*']"),
            "Only a single wildcard domain is permitted in route r",
        ),
        (
            with_routes("                []").replace("stat_prefix: p", "stat_prefix: ''"),
            "StatPrefix: value length must be at least 1",
        ),
        (
            with_routes("                []").replace(ROUTER, "type.googleapis.com/foo.Bar"),
            "could not find @type 'type.googleapis.com/foo.Bar'",
        ),
        ("node: {id: a}\nnode: {id: b}".to_owned(), "key `node` occurs twice"),
        ("admin: {address: {socket_address: null}}".to_owned(), "reason: is required"),
    ];
    for (text, message) in rows {
        let found = read(&text, "b.yaml").expect_err(&text);
        assert!(found.iter().any(|problem| problem.message.contains(message)), "{message}: {found:?}");
        assert!(found.iter().all(|problem| problem.span.is_some()), "{found:?}");
    }
}

#[test]
fn unknown_retry_tokens_warn() {
    let text = with_routes(
        "              - {match: {prefix: /}, route: {cluster: c, retry_policy: {retry_on: 'x,5xx'}}}",
    );
    let (_, warnings) = read(&text, "b.yaml").unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].message.starts_with("Unknown retry_on policy token(s) [x] in retry_on config 'x,5xx'.")
    );
}

/// Bootstraps that a real Envoy served with: each problem is one of support, and has its place.
#[test]
fn recorded_bootstraps_are_refused_for_what_is_not_supported_only() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/conformance/envoy/bootstrap");
    // The certificates were not recorded.
    let certificates = tempfile::tempdir().unwrap();
    let issued = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    for (name, text) in [
        ("ca.pem", issued.cert.pem()),
        ("server.pem", issued.cert.pem()),
        ("server.key", issued.signing_key.serialize_pem()),
    ] {
        std::fs::write(certificates.path().join(name), text).unwrap();
    }
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("filename: tls/", &format!("filename: {}/", certificates.path().display()));
        let problems =
            read(&text, &path.display().to_string()).expect_err("they use more than this version has");
        for problem in &problems {
            let line = problem.span.map_or(0, |span| span.start.line);
            assert!(
                problem.code == "proxy-unsupported" && line > 0,
                "{}: {}",
                problem.field,
                problem.brief()
            );
            assert!(problem.message.ends_with("is not supported by this version"), "{}", problem.message);
        }
        count += 1;
    }
    assert!(count >= 7, "{count}");
}
