//! What clients send. Every case ends with the connection, so that the end of the last response is seen.

/// Bytes of a connection.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Sent in this order, each part after what was sent before has left.
    pub(crate) requests: &'static [&'static str],
}

macro_rules! cases {
    ($($name:literal: [$($part:expr),*],)*) => {
        &[$(Case { name: $name, requests: &[$($part),*] },)*]
    };
}

/// A request that ends its connection.
macro_rules! last {
    ($line:literal, $($rest:literal),*) => {
        concat!($line, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", $($rest),*)
    };
    ($line:literal) => {
        last!($line, "\r\n")
    };
}

/// Headers of which a proxy says some, and a client should not.
macro_rules! claimed {
    () => {
        concat!(
            "x-envoy-original-path: 1\r\n",
            "x-envoy-original-host: 1\r\n",
            "x-envoy-original-url: 1\r\n",
            "x-envoy-external-address: 1\r\n",
            "x-envoy-original-dst-host: 1\r\n",
            "x-envoy-decorator-operation: 1\r\n",
            "x-envoy-attempt-count: 1\r\n",
            "x-envoy-upstream-service-time: 1\r\n",
            "x-envoy-peer-metadata: 1\r\n",
            "x-envoy-peer-metadata-id: 1\r\n",
            "x-envoy-ratelimited: 1\r\n",
            "x-envoy-immediate-health-check-fail: 1\r\n",
            "x-envoy-degraded: 1\r\n",
            "x-envoy-expected-rq-timeout-ms: 1\r\n",
            "x-envoy-hedge-on-per-try-timeout: 1\r\n",
            "x-envoy-upstream-stream-duration-ms: 1\r\n",
            "x-envoy-max-retries: 1\r\n",
            "x-envoy-retry-on: 1\r\n",
            "x-envoy-retry-grpc-on: 1\r\n",
            "x-envoy-retriable-status-codes: 1\r\n",
            "x-envoy-retriable-header-names: 1\r\n",
            "x-envoy-upstream-rq-timeout-ms: 1\r\n",
            "x-envoy-upstream-rq-per-try-timeout-ms: 1\r\n",
            "x-envoy-upstream-rq-timeout-alt-response: 1\r\n",
            "x-envoy-upstream-alt-stat-name: 1\r\n",
            "x-envoy-force-trace: 1\r\n",
            "x-envoy-internal: 1\r\n",
            "x-envoy-downstream-service-cluster: 1\r\n",
            "x-envoy-downstream-service-node: 1\r\n",
            "x-envoy-ip-tags: 1\r\n",
            "x-envoy-is-timeout-retry: 1\r\n",
            "x-envoy-overloaded: 1\r\n",
            "x-envoy-unknown: 1\r\n",
            "x-forwarded-host: 1\r\n",
            "x-forwarded-port: 1\r\n",
            "x-forwarded-client-cert: 1\r\n",
            "x-real-ip: 1\r\n",
            "forwarded: 1\r\n",
            "via: 1\r\n",
            "x-istio-attributes: 1\r\n",
            "proxy-authorization: 1\r\n",
            "keep-alive: 1\r\n",
            "early-data: 1\r\n",
        )
    };
}
pub(crate) use claimed;

pub(crate) const CASES: &[Case] = cases! {
    "get": [last!("GET /ok?a=b")],
    "post without length": [last!("POST /ok")],
    "put without length": [last!("PUT /ok")],
    "options without length": [last!("OPTIONS /ok")],
    "delete": [last!("DELETE /ok")],
    "head": [last!("HEAD /ok")],
    "length": [last!("POST /ok", "Content-Length: 3\r\n\r\nabc")],
    "length in pieces": [last!("POST /ok", "Content-Length: 6\r\n\r\nabc"), "def"],
    "chunked": [last!("POST /ok", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")],
    "chunked with trailers": [last!("POST /ok", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n")],
    "pipelined": ["GET /ok/1 HTTP/1.1\r\nHost: x\r\n\r\n", last!("GET /ok/2")],
    "two in one write": [concat!("GET /ok/1 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")],
    "empty lines first": ["\r\n", last!("GET /ok")],
    "absolute target": [last!("GET http://y:1/ok")],
    "options of the server": [last!("OPTIONS *")],
    "connect": ["CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"],
    "relative target": [last!("GET ok")],
    "no host": ["GET /ok HTTP/1.1\r\nConnection: close\r\n\r\n"],
    "invalid host": ["GET /ok HTTP/1.1\r\nHost: a b\r\n\r\n"],
    "old version": ["GET /ok HTTP/1.0\r\nHost: x\r\n\r\n"],
    "unknown method": [last!("FOO /ok")],
    "two lengths": [last!("POST /ok", "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc")],
    "length and coding": [last!("POST /ok", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")],
    "unknown coding": [last!("POST /ok", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")],
    "blank before the colon": [last!("GET /ok", "A : b\r\n\r\n")],
    "upgrade": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"],
    "upgrade to http/2": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: upgrade, http2-settings, close\r\nHTTP2-Settings: a\r\nUpgrade: h2c\r\n\r\n"],
    "hop by hop": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nTE: gzip\r\nKeep-Alive: 3\r\nProxy-Connection: x\r\n\r\n"],
    "forwarded": [last!("GET /ok", "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Request-Id: abc\r\nX-Envoy-Max-Retries: 3\r\nTE: trailers\r\n\r\n")],
    "forwarded for several": [last!("GET /ok", "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n\r\n")],
    "forwarded for nobody": [last!("GET /ok", "X-Forwarded-For: 192.0.2.1, nobody\r\n\r\n")],
    "forwarded for nothing": [last!("GET /ok", "X-Forwarded-For: \r\n\r\n")],
    "forwarded for IPv6": [last!("GET /ok", "X-Forwarded-For: 2001:DB8::0:7\r\n\r\n")],
    "forwarded for a port": [last!("GET /ok", "X-Forwarded-For: 192.0.2.1:80\r\n\r\n")],
    "forwarded for, no route": [last!("GET /nowhere", "X-Forwarded-For: 192.0.2.4\r\n\r\n")],
    "named: who the client is": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"],
    "named: the path": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close, :path\r\n\r\n"],
    "named: the host": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\nConnection: host\r\n\r\n"],
    "named: nine": ["GET /ok HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nConnection: close, x-a,, b, c, d, e, f, g, h,\r\n\r\n"],
    "named: ten": ["GET /ok HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nConnection: close, x-a, b, c, d, e, f, g, h, i\r\n\r\n"],
    "named: te": ["GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close, te\r\nTE: x, trailers\r\n\r\n"],
    "claimed": [concat!("GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTE: trailers, x\r\n", claimed!(), "\r\n")],
    "continue": [last!("POST /ok", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"), "abc"],
    "no route": ["GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", last!("GET /nowhere")],
    "no route, with a body that does not come": ["POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"],
    "no route, with a body": ["POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"],
    "no route, grpc": [last!("POST /nowhere", "Content-Type: application/grpc\r\n\r\n")],
    "direct response": [last!("GET /direct")],
    "direct response to head": [last!("HEAD /direct")],
    "redirect to https": ["GET /secure?a=b HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\n\r\n"],
    "redirect elsewhere": [last!("GET /old/page?a=b")],
    "rewritten": [last!("GET /rewrite/page?a=b")],
    "path in any case": [last!("GET /CASE")],
    "regex": [last!("GET /items/17?x")],
    "regex of a whole path": [last!("GET /items/17/more")],
    "separated prefix": [last!("GET /part/x")],
    "not separated": [last!("GET /partx")],
    "header match": [last!("GET /header", "X-Kind: blue-1\r\n\r\n")],
    "no header match": [last!("GET /header", "X-Kind: red\r\n\r\n")],
    "domain": ["GET / HTTP/1.1\r\nHost: A.example.com\r\nConnection: close\r\n\r\n"],
    "domain with a port": ["GET / HTTP/1.1\r\nHost: a.example.com:80\r\nConnection: close\r\n\r\n"],
    "headers of the route": [last!("GET /edit", "X-Secret: 1\r\nX-Twice: a\r\n\r\n")],
    "refused by the host": [last!("GET /dead")],
    "no host in the cluster": [last!("GET /empty")],
    "no cluster": [last!("GET /ghost")],
    "too slow": [last!("GET /slow")],
    "no retry is free": [last!("GET /unretried/status/503")],
    "no retry is free, for another status": [last!("GET /unretried/status/409")],
    "no retry is needed": [last!("GET /unretried/status/200")],
    "retried": [last!("GET /retry/status/503")],
    "closed by the host": [last!("GET /ok/close")],
    "garbage of the host": [last!("GET /ok/garbage")],
    "ambiguous response": [last!("GET /ok/ambiguous")],
    "response without content": [last!("GET /ok/204")],
    "response that ends with the connection": [last!("GET /ok/eof")],
    "response that ends early": ["GET /ok/early HTTP/1.1\r\nHost: x\r\n\r\n"],
    "response in chunks": [last!("GET /ok/chunked")],
    "informational response": [last!("GET /ok/hint")],
};
