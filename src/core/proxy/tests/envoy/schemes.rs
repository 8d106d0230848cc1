//! Where the scheme of a request comes from, in both.

use http::{Request, Uri};

use crate::client::Client;
use crate::host::Host;
use crate::pair::{Directory, Pair, ask};
use crate::secure::{self, Authority};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const FORMAT: &str =
    "%REQ(:SCHEME)% %REQ(:PATH)% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\\n";

/// Routes that refuse a scheme, one that tells it, and two that forward.
const ROUTES: &str = "[\
    {match: {prefix: /https, headers: [{name: ':scheme', string_match: {exact: https}}]}, direct_response: {status: 403}}, \
    {match: {prefix: /http/, headers: [{name: ':scheme', string_match: {exact: http}}]}, direct_response: {status: 403}}, \
    {match: {prefix: /told}, redirect: {path_redirect: /x}}, \
    {match: {prefix: /secure}, redirect: {https_redirect: true}}, \
    {match: {prefix: /peer}, route: {cluster: peer}}, \
    {match: {prefix: /}, route: {cluster: backend}}]";

/// The listeners: one behind a balancer, and one at the edge (`use_remote_address`).
const LISTENERS: [(&str, &str); 2] = [("behind", "$HTTP"), ("edge", "$NAMED")];

const PATHS: [&str; 6] = ["/https/a", "/http/a", "/told", "/secure", "/peer/mirror", "/ok"];

/// What clients say in `x-forwarded-proto`, and whether hosts are told the same by both: the proxy replaces what is no scheme of HTTP.
const FORWARDED: [(&str, bool); 8] = [
    ("", true),
    ("x-forwarded-proto: https\r\n", true),
    ("x-forwarded-proto: HTTPS\r\n", true),
    ("x-forwarded-proto: Http\r\n", true),
    ("x-forwarded-proto:  https \r\n", true),
    ("x-forwarded-proto: https,http\r\n", false),
    ("x-forwarded-proto: http\r\nx-forwarded-proto: https\r\n", false),
    ("x-forwarded-proto: wss\r\n", false),
];

fn start(host: &Host) -> Pair {
    let manager = format!(
        "'@type': {MANAGER}, server_name: edge, \
        access_log: [{{name: a, typed_config: {{'@type': {FILE}, path: $LOG, log_format: {{text_format_source: {{inline_string: \"{FORMAT}\"}}}}}}}}], \
        http_filters: [{{name: r, typed_config: {{'@type': {ROUTER}}}}}], \
        route_config: {{virtual_hosts: [{{name: all, domains: ['*'], routes: {ROUTES}}}]}}"
    );
    // The path of the log is put in before the others are.
    let text = include_str!("schemes.yaml").replace("$MANAGER", &manager);
    mixer_net::tls::install_crypto_provider();
    let directory = Directory::new();
    let [chain, key] = Authority::new().issue(&["a.test"]).write(&directory.0, "server");
    let others = [
        ("$PEER", host.port.to_string()),
        ("$CHAIN", chain.display().to_string()),
        ("$KEY", key.display().to_string()),
    ];
    Pair::start_with(directory, &text, &others)
}

#[test]
fn https_targets_over_plain_text_are_refused_at_the_edge_as_by_envoy() {
    let host = Host::start(100);
    let pair = start(&host);
    for text in [
        "GET https://x/ok HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n\r\n",
        "GET HTTPS://x/ok HTTP/1.1\r\nHost: x\r\n\r\nGET /ok HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST https://x/ok HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "POST https://x/ok HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "GET https://x/ok HTTP/1.1\r\nHost: x\r\nConnection: :path\r\n\r\n",
        "OPTIONS https://x HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST https://x/ok HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n",
    ] {
        let [ours, envoys] = pair.ports("$NAMED").map(|port| ask(port, &[text]));
        assert_eq!(ours, envoys, "{text}");
        assert!(ours.contains(" 403 ") || ours.contains(" 400 "), "{ours}");
    }
    // Over TLS they are what they say.
    let client = secure::Client { server_name: "a.test", ..secure::Client::default() };
    for (target, scheme) in [("https://x/told", "https"), ("/told", "https"), ("http://x/told", "http")] {
        let text = format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: http\r\nConnection: close\r\n\r\n"
        );
        let [ours, envoys] = pair.ports("$TLS").map(|port| client.ask(port, &text));
        assert_eq!(ours, envoys, "{text}");
        assert!(ours.contains(&format!("location: {scheme}://x/x\n")), "{ours}");
    }
    for port in pair.ports("$HTTP").into_iter().chain(pair.ports("$NAMED")) {
        let behind = ask(port, &["GET http://x/ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
        assert!(behind.starts_with("HTTP/1.1 200"), "{behind}");
    }
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert!(ours.contains(" 403 DPE http1.https_url_on_plaintext_connection\n"), "{ours}");
    for name in ["http.edge.downstream_cx_protocol_error", "http.edge.downstream_rq_4xx"] {
        let (_, ours, envoys) = pair.stat(name);
        assert_eq!((ours, ours > 5), (envoys, true), "{name}");
    }
}

#[test]
fn schemes_of_http1_are_those_of_envoy() {
    let host = Host::start(100);
    let pair = start(&host);
    let pair = &pair;
    let compare = |listener: &str, port: &str, forwarded: &str, is_told: bool| {
        // At the edge, the others are refused.
        let schemes = ["", "http://x", "Http://x", "https://x", "HTTPS://x"];
        let schemes = &schemes[..if listener == "edge" { 3 } else { 5 }];
        let targets = schemes.iter().flat_map(|scheme| PATHS.map(|path| format!("{scheme}{path}")));
        let one = |target: String| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{forwarded}\r\n");
        let mut parts: Vec<String> = targets.map(one).collect();
        // Envoy waits a second before it closes a connection.
        parts.push("GET /told HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned());
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let [ours, envoys] = pair.ports(port).map(|port| ask(port, &parts));
        // Of a loopback address Envoy tells that of the machine.
        let [ours, envoys] = [ours, envoys].map(|shown| {
            let is_own = |line: &&str| {
                let begins = |name: &&str| line.starts_with(name);
                let own = ["x-forwarded-for", "x-envoy-external-address", "content-length"];
                !own.iter().any(begins) && (is_told || !begins(&"x-forwarded-proto"))
            };
            shown.lines().filter(is_own).collect::<Vec<_>>().join("\n")
        });
        assert!(ours.matches("HTTP/1.1 ").count() > 12, "{ours}");
        (ours != envoys).then(|| format!("{listener} {forwarded}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"))
    };
    let cases = LISTENERS.into_iter().flat_map(|listener| FORWARDED.map(|forwarded| (listener, forwarded)));
    let differences: Vec<String> = std::thread::scope(|scope| {
        let ask = |((listener, port), (forwarded, is_told))| {
            let compare = &compare;
            scope.spawn(move || compare(listener, port, forwarded, is_told))
        };
        let asked: Vec<_> = cases.map(ask).collect();
        asked.into_iter().filter_map(|asked| asked.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last").map(|log| {
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(ours, envoys, "access logs");
}

#[test]
fn schemes_of_http2_are_those_of_envoy() {
    let host = Host::start(100);
    let pair = start(&host);
    let mut differences = Vec::new();
    for (listener, port) in LISTENERS {
        let clients = pair.ports(port).map(Client::connect);
        for scheme in ["http", "https", "HTTPS", "Http", "ftp", "FTP", "a+b"] {
            for forwarded in ["", "http", "https", "HTTPS", "wss"] {
                let is_told = forwarded != "wss";
                for path in PATHS {
                    let [ours, envoys] = clients.each_ref().map(|client| {
                        let uri = Uri::builder().scheme(scheme).authority("h").path_and_query(path);
                        let mut request = Request::builder().uri(uri.build().unwrap());
                        if !forwarded.is_empty() {
                            request = request.header("x-forwarded-proto", forwarded);
                        }
                        let answer = client.ask(request.body(()).unwrap(), None, None).unwrap();
                        // Envoy tells hosts, and logs, what `x-forwarded-proto` says as it was written.
                        let text = answer.text().replace("GET HTTPS://", "GET https://");
                        let is_own =
                            |line: &&str| line.starts_with("GET ") || (is_told && line.contains("-proto"));
                        let told: Vec<_> = text.lines().filter(is_own).collect();
                        format!("{} {:?} {told:?}", answer.status, answer.headers.get("location"))
                    });
                    if ours != envoys {
                        differences.push(format!(
                            "{listener} {scheme} {path} {forwarded}\n    proxy {ours}\n    envoy {envoys}"
                        ));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last").map(|log| {
        let mut lines: Vec<String> = log.lines().map(|line| line.replacen("HTTPS /", "https /", 1)).collect();
        lines.sort();
        lines
    });
    assert_eq!(ours, envoys, "access logs");
}
