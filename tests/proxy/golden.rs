//! The attributes of checks and reports, of HTTP and of TCP: what Istio's client sends.

use std::collections::BTreeMap;

use crate::fixture::Setup;
use crate::scripted::{Bag, Scripted, answer};

/// Attributes of a connection through which another proxy forwards who it is.
fn bag(rows: &[(&str, &str)]) -> Bag {
    rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// `{"source.uid": "POD11", "source.namespace": "XYZ11", "other": "x"}`, of which the last is not accepted.
fn forwarded() -> String {
    use base64::Engine as _;
    let mut message = Vec::new();
    for (name, value) in [("source.uid", "POD11"), ("source.namespace", "XYZ11"), ("other", "x")] {
        let typed = [&[0x12, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
        let name = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
        let entry = [&name[..], &[0x12, u8::try_from(typed.len()).unwrap()], &typed].concat();
        message.extend([&[0x0a, u8::try_from(entry.len()).unwrap()], &entry[..]].concat());
    }
    base64::engine::general_purpose::STANDARD.encode(message)
}

/// Takes headers that are different in each run from the map of headers.
fn masked(mut bag: Bag, port: u16) -> Bag {
    for value in bag.values_mut() {
        *value = value.replace(&port.to_string(), "PORT");
        let parts: Vec<&str> = value.trim_matches(['{', '}']).split("; ").collect();
        let random =
            ["x-request-id=", "date=", "x-envoy-expected-rq-timeout-ms=", "x-envoy-upstream-service-time="];
        let kept = |part: &&str| !random.iter().any(|name| part.starts_with(name));
        if value.starts_with('{') {
            *value = format!("{{{}}}", parts.into_iter().filter(kept).collect::<Vec<_>>().join("; "));
        }
    }
    bag
}

#[test]
fn a_request_and_its_report_have_the_attributes_of_istio() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 1, 1)));
    let setup = Setup {
        has_identity: false,
        filter: "{default_destination_service: all, service_configs: {all: {mixer_attributes: {attributes: \
                 {mesh2.ip: {bytes_value: AAAAAAAAAAAAAP//zMzMzA==}, request.host: {string_value: overwritten}}}}}, \
                 mixer_attributes: {attributes: {target.user: {string_value: target-user}, mesh1.ip: {int64_value: 5}}}}",
        ..Setup::to(mixer.address)
    };
    let proxy = setup.http();
    let told = forwarded();
    let headers = [("x-istio-attributes", told.as_str()), ("user-agent", "Go"), ("a", "1"), ("a", "2")];
    assert_eq!(proxy.get("/echo?k=v&flag&k=w", &headers).body, "served\n");
    let head = proxy.host.last_head();
    assert!(!head.contains("x-istio-attributes"), "{head}");
    let (port, host) = (proxy.port, proxy.host.address.port().to_string());
    let headers = "{:authority=127.0.0.1:PORT; :method=GET; :path=/echo?k=v&flag&k=w; :scheme=http; a=1,2; \
                   content-length=0; user-agent=Go; x-forwarded-proto=http}";
    let checked = bag(&[
        ("connection.mtls", "false"),
        ("context.protocol", "http"),
        ("context.reporter.uid", ""),
        ("destination.namespace", ""),
        ("destination.uid", ""),
        ("mesh1.ip", "5"),
        ("mesh2.ip", "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 204, 204, 204, 204]"),
        ("origin.ip", "[127, 0, 0, 1]"),
        ("request.headers", headers),
        ("request.host", "127.0.0.1:PORT"),
        ("request.method", "GET"),
        ("request.path", "/echo?k=v&flag&k=w"),
        ("request.query_params", "{flag=; k=v}"),
        ("request.scheme", "http"),
        ("request.time", "T"),
        ("request.url_path", "/echo"),
        ("request.useragent", "Go"),
        ("source.namespace", "XYZ11"),
        ("source.uid", "POD11"),
        ("target.user", "target-user"),
    ]);
    let check = mixer.received.lock().unwrap().checks[0].clone();
    assert_eq!(masked(check.0, port), checked);
    assert_eq!(check.1.global_word_count, 222);
    assert!(check.1.deduplication_id.len() > 36 && check.1.deduplication_id.ends_with('0'));
    // source.uid, empty.
    assert_eq!(mixer.received.lock().unwrap().caller.as_deref(), Some("ChAKCnNvdXJjZS51aWQSAhIA"));
    let mut reported = checked;
    reported.extend(bag(&[
        ("check.cache_hit", "false"),
        ("context.proxy_error_code", "-"),
        ("destination.ip", "[127, 0, 0, 1]"),
        ("destination.port", &host),
        ("quota.cache_hit", "false"),
        ("request.size", "0"),
        ("response.code", "200"),
        ("response.duration", "D"),
        ("response.headers", "{:status=200; connection=close; content-length=7; server=mixer; x-host=one}"),
        ("response.size", "7"),
        ("response.time", "T"),
    ]));
    let report = mixer.reports(1).remove(0);
    let (sizes, report): (BTreeMap<_, _>, Bag) =
        masked(report, port).into_iter().partition(|(name, _)| name.ends_with("total_size"));
    assert_eq!(report, reported);
    let size = |name: &str| sizes[name].parse::<usize>().unwrap();
    assert!(size("request.total_size") > 100 && size("response.total_size") > 70, "{sizes:?}");
}

#[test]
fn an_outbound_proxy_tells_who_it_is() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 1, 1)));
    let setup = Setup {
        filter: "{default_destination_service: all, service_configs: {all: {forward_attributes: {attributes: \
                 {destination.service.name: {string_value: web}}}}}, \
                 mixer_attributes: {attributes: {context.reporter.kind: {string_value: outbound}}}}",
        ..Setup::to(mixer.address)
    };
    let proxy = setup.http();
    proxy.get("/", &[("x-istio-attributes", "not base64!")]);
    let check = mixer.received.lock().unwrap().checks[0].0.clone();
    for (name, value) in
        [("source.uid", "POD11"), ("source.namespace", "XYZ11"), ("context.reporter.uid", "POD11")]
    {
        assert_eq!(check.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!check.contains_key("destination.uid"));
    // destination.service.name=web and source.uid=POD11, sorted.
    let head = proxy.host.last_head();
    let told = "CiEKGGRlc3RpbmF0aW9uLnNlcnZpY2UubmFtZRIFEgN3ZWIKFQoKc291cmNlLnVpZBIHEgVQT0QxMQ==";
    assert!(head.contains(&format!("x-istio-attributes: {told}\r\n")), "{head}");
}

#[test]
fn a_refused_request_is_reported_as_refused() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(16, "Unauthenticated by mixer.", 1, 1)));
    let proxy = Setup::to(mixer.address).http();
    let refused = proxy.get("/echo", &[]);
    let text = "UNAUTHENTICATED:Unauthenticated by mixer.";
    assert_eq!((refused.status, refused.body.as_str()), (401, text));
    let report = mixer.reports(1).remove(0);
    for (name, value) in [
        ("check.error_code", "16"),
        ("check.error_message", text),
        ("context.proxy_error_code", "UAEX"),
        ("response.code", "401"),
        ("response.size", "41"),
        ("check.cache_hit", "false"),
    ] {
        assert_eq!(report.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(proxy.host.heads.lock().unwrap().is_empty(), "the host does not see it");
}
