//! HTTP/2 and gRPC through both.

use http::{HeaderMap, HeaderValue, Request};

use crate::client::{Answer, Client, request};
use crate::host::Host;
use crate::pair::{Directory, Pair, masked};

/// Statistics that both count alike.
const STATS: [&str; 35] = [
    "http.in.downstream_cx_total",
    "http.in.downstream_cx_http1_total",
    "http.in.downstream_cx_http2_total",
    "http.in.downstream_rq_total",
    "http.in.downstream_rq_http1_total",
    "http.in.downstream_rq_http2_total",
    "http.in.downstream_rq_completed",
    "http.in.downstream_rq_rx_reset",
    "http.in.downstream_rq_response_before_rq_complete",
    "http.in.downstream_rq_1xx",
    "http.in.downstream_rq_2xx",
    "http.in.downstream_rq_3xx",
    "http.in.downstream_rq_4xx",
    "http.in.downstream_rq_5xx",
    "http.in.no_route",
    "http.in.rq_direct_response",
    "http.in.rq_total",
    "http2.rx_reset",
    "http2.tx_reset",
    "http2.streams_active",
    "cluster.backend.upstream_rq_200",
    "cluster.backend.upstream_rq_504",
    "cluster.backend.upstream_rq_timeout",
    "cluster.dead.upstream_rq_503",
    "cluster.peer.upstream_cx_http1_total",
    "cluster.peer.upstream_rq_total",
    "cluster.peer.upstream_rq_200",
    "cluster.peer.upstream_rq_503",
    "cluster.peer.upstream_rq_504",
    "cluster.peer.upstream_rq_retry",
    "cluster.peer.upstream_rq_retry_success",
    "cluster.peer.upstream_rq_rx_reset",
    "cluster.peer.http2.rx_reset",
    "cluster.peer.upstream_rq_pending_overflow",
    "cluster.peer.upstream_rq_pending_failure_eject",
];

/// A request and what its body is.
struct Case {
    name: &'static str,
    request: Request<()>,
    body: Option<&'static [u8]>,
    trailers: bool,
}

fn case(name: &'static str, method: &str, path: &str, fields: &[(&'static str, &'static str)]) -> Case {
    let mut request = request(method, path);
    for (name, value) in fields {
        request.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    Case { name, request, body: None, trailers: false }
}

fn with(case: Case, body: &'static [u8], trailers: bool) -> Case {
    Case { body: Some(body), trailers, ..case }
}

fn cases() -> Vec<Case> {
    let grpc: &[_] = &[("content-type", "application/grpc"), ("te", "trailers")];
    vec![
        case("get", "GET", "/ok?a=b", &[]),
        case("head", "HEAD", "/ok", &[]),
        case("post without body", "POST", "/ok", &[]),
        case("another method", "PURGE", "/ok", &[]),
        with(case("body", "POST", "/ok", &[]), b"abc", false),
        with(case("body with a length", "POST", "/ok", &[("content-length", "3")]), b"abc", false),
        with(case("body with trailers", "POST", "/ok", &[]), b"abc", true),
        with(case("trailers only", "POST", "/ok", &[]), b"", true),
        with(case("get with a body", "GET", "/ok", &[]), b"abc", false),
        case("cookies", "GET", "/ok", &[("cookie", "a=1"), ("cookie", "b=2"), ("x-a", "1"), ("x-a", "2")]),
        case("te", "GET", "/ok", &[("te", "trailers")]),
        case("forwarded", "GET", "/ok", &[("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https")]),
        case("internal headers", "GET", "/ok", &[("x-envoy-retry-on", "5xx"), ("x-request-id", "abc")]),
        case("the same host", "GET", "/ok", &[("host", "h")]),
        case("no content", "GET", "/ok/204", &[]),
        case("to the end of the connection", "GET", "/ok/eof", &[]),
        case("chunked", "GET", "/ok/chunked", &[]),
        case("hint", "GET", "/ok/hint", &[]),
        case("host closes", "GET", "/ok/close", &[]),
        case("host sends garbage", "GET", "/ok/garbage", &[]),
        case("timeout", "GET", "/slow", &[]),
        case("connection refused", "GET", "/dead", &[]),
        case("grpc to a refused connection", "POST", "/dead", grpc),
        case("grpc without route", "POST", "/none", grpc),
        case("no route", "GET", "/none", &[]),
        case("direct", "GET", "/direct", &[]),
        case("head of direct", "HEAD", "/direct", &[]),
        case("redirect", "GET", "/secure?a", &[]),
        case("grpc to direct", "POST", "/direct", grpc),
        case("grpc to a redirect", "POST", "/secure", grpc),
        case("peer", "GET", "/peer/mirror?x=y", &[("x-a", "1")]),
        with(case("body to a peer", "POST", "/peer/mirror", &[]), b"abc", false),
        with(
            case("body with a length to a peer", "POST", "/peer/mirror", &[("content-length", "3")]),
            b"abc",
            false,
        ),
        with(case("trailers to a peer", "POST", "/peer/mirror", &[]), b"abc", true),
        case("post without body to a peer", "POST", "/peer/mirror", &[]),
        with(case("grpc", "POST", "/peer/grpc", grpc), b"\0\0\0\0\x01a", false),
        case("grpc with trailers only", "POST", "/peer/trailers-only", grpc),
        case("empty response of a peer", "GET", "/peer/empty", &[]),
        case("length of a peer", "GET", "/peer/length", &[]),
        case("head to a peer", "HEAD", "/peer/empty", &[]),
        case("no content of a peer", "GET", "/peer/204", &[]),
        case("error of a peer", "GET", "/peer/503", &[]),
        case("reset by a peer", "GET", "/peer/reset", &[]),
        case("refused by a peer", "GET", "/peer/refuse", &[]),
        case("grpc reset by a peer", "POST", "/peer/reset", grpc),
        case("timeout of a peer", "GET", "/peer/never", &[]),
        case("grpc timeout", "POST", "/peer/never", grpc),
        case("refused and retried", "GET", "/retry/$SIDE/refuse-first", &[]),
        case("unavailable and retried", "POST", "/retry/$SIDE/unavailable-first", grpc),
        case("refused again", "GET", "/retry/refuse", &[]),
        case("the last", "GET", "/ok/last", &[]),
    ]
}

/// What a client gets, with masks.
fn shown(answer: Result<Answer, h2::Error>) -> String {
    match answer {
        Ok(answer) => {
            let fields = |headers: &HeaderMap| {
                let field = |(name, value): (&http::HeaderName, &HeaderValue)| {
                    format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
                };
                let mut lines: Vec<String> = headers.iter().map(field).collect();
                lines.sort();
                lines.join("\n")
            };
            let trailers = answer.trailers.as_ref().map(fields);
            let text = format!("{}\n{}\n\n{}", answer.status, fields(&answer.headers), answer.text());
            masked(&format!("{text}\n{trailers:?}"))
        }
        Err(error) if error.is_reset() => "reset".to_owned(),
        Err(error) => format!("{error}"),
    }
}

#[test]
fn http2_of_clients_and_hosts_is_that_of_envoy() {
    let host = Host::start(100);
    let others = [("$PEER", host.port.to_string())];
    let pair = Pair::start_with(Directory::new(), include_str!("http2.yaml"), &others);
    let clients = pair.ports("$HTTP").map(Client::connect);
    for client in &clients {
        assert_eq!(client.get("/direct").status, 403);
    }
    let mut differences = Vec::new();
    for Case { name, request: head, body, trailers } in cases() {
        let answers = [0, 1].map(|side: usize| {
            let mut request = Request::new(());
            *request.method_mut() = head.method().clone();
            *request.uri_mut() = head.uri().to_string().replace("$SIDE", &side.to_string()).parse().unwrap();
            *request.headers_mut() = head.headers().clone();
            let trailers = trailers.then(|| {
                let mut fields = HeaderMap::new();
                fields.insert("x-trailer", HeaderValue::from_static("t"));
                fields
            });
            // Each has a place of its own at the host, which answers the first request to it otherwise.
            let own = format!("/retry/{side}/");
            shown(clients[side].ask(request, body, trailers)).replace(&own, "/retry/$SIDE/")
        });
        let [ours, envoys] = answers;
        if ours != envoys {
            differences.push(format!("{name}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
    }
    // Clients of HTTP/1.1 before hosts of HTTP/2.
    for path in ["mirror", "grpc", "trailers-only", "empty", "length", "204", "503", "reset", "refuse"] {
        for (method, rest) in [
            ("GET", "\r\n"),
            ("POST", "Content-Length: 3\r\n\r\nabc"),
            ("POST", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        ] {
            let text = format!("{method} /peer/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{rest}");
            let [ours, envoys] = pair.ask(&[text.as_str()]);
            if ours != envoys {
                differences.push(format!("{text}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
            }
        }
    }
    // Nothing follows the head of a response to HEAD but the next response.
    for path in ["late", "late-length", "late-trailers", "empty", "204"] {
        let text = format!(
            "HEAD /peer/{path} HTTP/1.1\r\nHost: x\r\n\r\nGET /peer/empty HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        );
        let [ours, envoys] = pair.ask(&[text.as_str()]);
        // Envoy says how a body would be sent.
        let envoys = envoys.replacen("transfer-encoding: chunked\n", "", 1);
        if ours != envoys {
            differences.push(format!("{text}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        assert!(ours.matches("HTTP/1.1 ").count() == 2 && ours.ends_with("end"), "{path}: {ours}");
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    pair.ask(&["GET /ok/end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/end");
    let [ours, envoys] =
        [(ours, "/retry/0/"), (envoys, "/retry/1/")].map(|(log, own)| log.replace(own, "/retry/"));
    assert_eq!(ours, envoys, "access logs");
    assert!(ours.contains("POST /peer/grpc HTTP/2 200 - via_upstream 6 6 peer h - -\n"), "{ours}");
    let [ours, envoys] = STATS.map(|name| pair.stat(name)).into_iter().fold(
        [String::new(), String::new()],
        |[ours, envoys], (name, ours_is, envoys_is)| {
            [format!("{ours}{name}: {ours_is}\n"), format!("{envoys}{name}: {envoys_is}\n")]
        },
    );
    assert_eq!(ours, envoys, "statistics");
    let count = u64::try_from(cases().len()).unwrap() + 1;
    assert_eq!(pair.stat("http.in.downstream_rq_http2_total").2, count, "they are counted");
}
