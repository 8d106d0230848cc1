//! Paths and hosts in one form, beside Envoy.

use crate::client::Client;
use crate::pair::{Directory, Pair, ask, bodies};

/// Targets of requests that could be written otherwise.
const TARGETS: [&str; 58] = [
    "/ok/a//b",
    "//ok",
    "/ok//",
    "///",
    "/ok/./a",
    "/ok/a/..",
    "/../ok/a",
    "/x/../ok/a",
    "/ok/%2e%2E/ok/b",
    "/ok/.%2e/ok",
    "/ok/...",
    "/ok/..b",
    "/ok/a\\b",
    "/ok\\..\\ok\\b",
    "/ok/a%5cb",
    "/ok/a%2Fb",
    "/ok%2f..%2fok%2fc",
    "/%6f%6b/a",
    "/ok/%%300",
    "/ok/%zz%",
    "/ok/a%00",
    "/ok/\"<>^`{|}",
    "/ok/[]@!$&'()*+,;=:",
    "/ok/a?b=/../c//d%2f",
    "/ok/a/../b?c%2fd",
    "/ok/%252f",
    "/ok/a/..//b",
    "/ok/a//..//b",
    "/ok/%2f%2f/b",
    "/ok/;/../b",
    "/%2f",
    "/ok/%7E%41%2a%2A",
    "http://h:80/ok/../ok/%61",
    "/ok/a/..;/b",
    "/ok/a/..;x=1/b",
    "/ok/a/.;v/b",
    "/ok/a/..;;/b",
    "/ok/a/..;..;/b",
    "/ok/a/..;",
    "/ok/a/.;?x=/..;/y",
    "/..;\\ok/b",
    "/ok/a\\..;/b",
    "/ok/a/..;\\..;/b",
    "/ok/a/%2e%2e;/b",
    "/ok/a/.%2e;/b",
    "/ok/a/..%3b/b",
    "/ok/a/..%3B/b",
    "/ok/a/...;/b",
    "/ok/a/;..;/b",
    "/ok/a/..;%2fb",
    "/ok/a%2f..;%5cb/c",
    "/ok/a/..;%00/b",
    "/ok/a/b/..;/..;/c",
    "/%2Fevil.test/%2e",
    "/%5cevil.test?a=//b",
    "/%5C%2F/%2fevil.test",
    "/a/..%2F/evil.test",
    "/a%2F..%5C%5Cevil.test",
];

/// A location of Envoy, but on the host that the request was for: `//host` and `/\host` are other hosts to clients.
fn on_its_host(location: &str) -> String {
    format!("/{}", location.trim_start_matches(['/', '\\']))
}

/// An answer with a [location](on_its_host) on the same host.
fn with_safe_location(answer: &str) -> String {
    let line = |line: &str| match line.strip_prefix("location: ") {
        Some(location) => format!("location: {}", on_its_host(location)),
        None => line.to_owned(),
    };
    answer.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// What generated paths are made of.
const PARTS: [&str; 16] =
    ["/", "/", "/", ".", "..", "..", ";", ";", "a", "%2e", "%2F", "%5c", "\\", "%3b", "x=1", "?"];

#[test]
fn paths_and_hosts_have_the_form_of_envoy() {
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let manager = format!(
        "'@type': {manager}, stat_prefix: in, server_name: edge, http_filters: [{{name: r, typed_config: {{'@type': {router}}}}}], \
         route_config: {{virtual_hosts: [{{name: a, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: backend}}}}]}}]}}"
    );
    let pair = Pair::start_with(Directory::new(), include_str!("normalize.yaml"), &[("$MANAGER", manager)]);
    let ports = ["$HTTP", "$TLS", "$REQUIRED", "$NAMED", "$CHAINS", "$PATIENT", "$SOURCES"];
    let mut differences = Vec::new();
    let mut compare = |name: &str, target: &str, host: [String; 2]| {
        let ports = pair.ports(name);
        let [ours, envoys] = [0, 1].map(|side| {
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", host[side]);
            ask(ports[side], &[&request]).replace(&ports[side].to_string(), "PORT")
        });
        let envoys = with_safe_location(&envoys);
        if ours != envoys {
            differences.push(format!("{name} {target} {host:?}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    };
    let same = |host: &str| [host.to_owned(), host.to_owned()];
    let (mut compared, mut over_http2, mut generated) = (0, Vec::new(), Vec::new());
    for target in TARGETS {
        for name in ports {
            compare(name, target, same("h"));
        }
    }
    for host in [
        "h:80",
        "h:",
        "H:80",
        "h.",
        "h.:80",
        "h..",
        "[::1]:80",
        "[::1]",
        "h:0080",
        "h:4294967296",
        "a.b.:",
        "1.2.3.4:5",
    ] {
        for name in ["$HTTP", "$REQUIRED", "$NAMED"] {
            compare(name, "/ok/a", same(host));
        }
    }
    // HTTP/2 has no form of its own: a client may choose it.
    for target in TARGETS.into_iter().filter(|target| target.starts_with('/')) {
        let Ok(target) = http::uri::PathAndQuery::try_from(target) else { continue };
        for name in ports {
            let [ours, envoys] = pair.ports(name).map(|port| {
                let answer = Client::connect(port).get(target.as_str());
                let location = answer.headers.get("location").map(|value| value.to_str().unwrap().to_owned());
                (answer.status, location, answer.text())
            });
            let envoys = (envoys.0, envoys.1.map(|location| on_its_host(&location)), envoys.2);
            compared += 1;
            if ours != envoys {
                over_http2.push(format!("{name} {target}\n--- proxy\n{ours:?}\n--- envoy\n{envoys:?}\n"));
            }
        }
    }
    assert!(compared >= 300, "{compared}");
    assert!(over_http2.is_empty(), "{} differ over HTTP/2:\n{}", over_http2.len(), over_http2.join("\n"));
    // Many more, of parts that mean something, one after the other.
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..12 {
        let paths: Vec<String> = (0..80)
            .map(|_| {
                let parts: String =
                    (0..random.usize(1..9)).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
                format!("/{parts}")
            })
            .collect();
        for name in ["$HTTP", "$TLS", "$PATIENT"] {
            let requests: Vec<String> =
                paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
            let [ours, envoys] = pair.ports(name).map(|port| {
                let line = |body: String| body.lines().next().unwrap_or_default().to_owned();
                bodies(port, &requests).into_iter().map(line).collect::<Vec<_>>()
            });
            assert!(ours.iter().filter(|line| line.starts_with("GET /")).count() > 70, "{round} {name}");
            for (path, (ours, envoys)) in paths.iter().zip(ours.iter().zip(&envoys)) {
                if ours != envoys {
                    generated.push(format!("{name} {path}: {ours}, with Envoy {envoys}"));
                }
            }
        }
    }
    assert!(generated.is_empty(), "{} of generated paths differ:\n{}", generated.len(), generated.join("\n"));
    let own = pair.ports("$NAMED").map(|port| format!("h:{port}"));
    compare("$NAMED", "/ok/last", own);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
