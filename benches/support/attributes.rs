//! The request of all measurements: 31 attributes of an HTTP request behind an ingress gateway.

use std::net::IpAddr;

use mixer_attribute::{OwnedAttributes, Timestamp};

/// Number of attributes of a request.
const ATTRIBUTES: usize = 31;

/// Request number `number` to a service. Ids, paths and clients vary.
pub(crate) fn request(number: usize, service: &str, namespace: &str) -> OwnedAttributes {
    let mut a = OwnedAttributes::new();
    let pod = number % 5;
    for (name, text) in [
        ("connection.id", format!("8a8dd8a3-0bcd-4d75-a6b6-3ab0bb8a8a55-{number}")),
        ("connection.requested_server_name", format!("outbound_.9080_._.{service}")),
        ("context.protocol", "http".to_owned()),
        ("context.proxy_version", "1.3.0".to_owned()),
        ("context.reporter.kind", "inbound".to_owned()),
        ("context.reporter.uid", "kubernetes://productpage-v1-8554d58bff-d7j8g.default".to_owned()),
        ("destination.service", service.to_owned()),
        ("destination.service.host", service.to_owned()),
        ("destination.service.name", "productpage".to_owned()),
        ("destination.service.namespace", "default".to_owned()),
        ("destination.workload.name", "productpage-v1".to_owned()),
        ("destination.workload.namespace", "default".to_owned()),
        ("request.host", "productpage:9080".to_owned()),
        ("request.id", format!("5ff2b6b6-8a7b-4b5f-9a17-{number:012x}")),
        ("request.method", "GET".to_owned()),
        ("request.path", format!("/api/v1/products/{number}/reviews?lang=en")),
        ("request.scheme", "http".to_owned()),
        ("request.url_path", format!("/api/v1/products/{number}/reviews")),
        ("request.useragent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36".to_owned()),
        ("source.namespace", namespace.to_owned()),
        ("source.principal", "cluster.local/ns/istio-system/sa/istio-ingressgateway".to_owned()),
        ("source.workload.name", format!("ingressgateway-{pod}")),
        ("source.workload.namespace", namespace.to_owned()),
    ] {
        a.insert(name, text.as_str());
    }
    a.insert("connection.mtls", true);
    a.insert("destination.port", 9080);
    a.insert("request.size", 0);
    a.insert("request.time", Timestamp { seconds: 1_569_000_000, nanos: 123_456_789 });
    a.insert("source.ip", IpAddr::from([10, 128, 0, 7]));
    a.insert("source.labels", [("app", "ingressgateway"), ("istio", "ingressgateway"), ("version", "v2")]);
    a.insert("destination.labels", [("app", "productpage"), ("version", "v1")]);
    a.insert(
        "request.headers",
        [
            (":authority", "productpage:9080"),
            (":method", "GET"),
            ("accept", "*/*"),
            ("clnt", if number % 8 == 7 { "abc" } else { "shop" }),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
            ("x-b3-sampled", "1"),
            ("x-b3-spanid", "f6e15ab7e1e2f8d7"),
            ("x-b3-traceid", "a1b2c3d4e5f60718293a4b5c6d7e8f90"),
            ("x-forwarded-for", "10.128.0.7"),
            ("x-request-id", "5ff2b6b6-8a7b-4b5f-9a17-9d64d2dbe6d0"),
        ],
    );
    assert_eq!(a.len(), ATTRIBUTES);
    a
}
